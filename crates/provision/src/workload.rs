//! The description of a workload: what its owner knows, and what is taken where nothing is said.

use serde::{Deserialize, Serialize};

use crate::{
    estimate::Estimate,
    quantity::{Bytes, Count, Exponent, Seconds, Share, show_seconds},
};

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
/// For how long a namespace without an end of retention is planned.
pub const HORIZON_SECONDS: f64 = 5.0 * 365.0 * DAY;

/// What a namespace will have to carry. Every number is one value, or low, mid and high with a confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Events that are written in a second, on average.
    pub writes_per_second: Estimate<Count>,
    /// Values and metadata of an event, all items together.
    pub event_bytes: Estimate<Bytes>,
    /// Series that are written to.
    pub ids: Estimate<Count>,
    /// Items of an event, each a row of the store.
    #[serde(default = "one_item")]
    pub items_per_event: Estimate<Count>,
    /// How unevenly the events fall on the ids.
    #[serde(default = "ordinary_skew")]
    pub skew: Skew,
    /// How long events are kept at least; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Estimate<Seconds>>,
    /// Reads in a second; absent means a tenth of the writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_second: Option<Estimate<Count>>,
    /// How much time a usual read covers; absent means a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_interval: Option<Estimate<Seconds>>,
    /// How much time the longest reads cover; absent means all that is kept, up to a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_interval: Option<Estimate<Seconds>>,
    /// How old an event may be when it is written; absent means 36 hours, or a quarter of a shorter retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_limit: Option<Estimate<Seconds>>,
    /// What reads should take.
    #[serde(default = "half_a_second")]
    pub read_target: Estimate<Seconds>,
    /// What reads may take.
    #[serde(default = "five_seconds")]
    pub read_max: Estimate<Seconds>,
    /// What writes should take.
    #[serde(default = "tenth_of_a_second")]
    pub write_target: Estimate<Seconds>,
    /// What writes may take.
    #[serde(default = "five_seconds")]
    pub write_max: Estimate<Seconds>,
}

/// How unevenly the events fall on the ids.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// The id of rank r gets events in proportion to 1 / r^exponent; 0 is even.
    Zipf(Estimate<Exponent>),
    /// The share of all events that the busiest hundredth of the ids gets.
    TopOnePercent(Estimate<Share>),
}

/// Why a description can't be planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadProblem {
    /// The field, as in a file.
    pub field: &'static str,
    /// What is wrong and what to do.
    pub reason: String,
}

fn one_item() -> Estimate<Count> {
    Estimate::one(1.0)
}

/// Whoever doesn't know the skew has one like most: busy ids, in doubt by how much.
fn ordinary_skew() -> Skew {
    Skew::Zipf(Estimate::range(0.6, 0.8, 1.0, 0.8))
}

fn half_a_second() -> Estimate<Seconds> {
    Estimate::one(0.5)
}

fn five_seconds() -> Estimate<Seconds> {
    Estimate::one(5.0)
}

fn tenth_of_a_second() -> Estimate<Seconds> {
    Estimate::one(0.1)
}

impl Workload {
    /// With the three numbers that nobody else can know, and what is usual for the rest.
    pub fn new(writes_per_second: Estimate<Count>, event_bytes: Estimate<Bytes>, ids: Estimate<Count>) -> Self {
        Workload {
            writes_per_second,
            event_bytes,
            ids,
            items_per_event: one_item(),
            skew: ordinary_skew(),
            retention: None,
            reads_per_second: None,
            typical_interval: None,
            longest_interval: None,
            accept_limit: None,
            read_target: half_a_second(),
            read_max: five_seconds(),
            write_target: tenth_of_a_second(),
            write_max: five_seconds(),
        }
    }

    /// Reads in a second: as said, or as usual.
    pub fn reads(&self) -> Estimate<Count> {
        self.reads_per_second.unwrap_or_else(|| {
            let writes = self.writes_per_second.mid();
            Estimate::range(writes / 100.0, writes / 10.0, writes, 0.9)
        })
    }

    /// How long events are kept, or for how long a namespace without an end is planned.
    pub fn kept_seconds(&self) -> Estimate<Seconds> {
        self.retention.unwrap_or_else(|| Estimate::one(HORIZON_SECONDS))
    }

    /// How much time a usual read covers: as said, or as usual.
    pub fn typical_seconds(&self) -> Estimate<Seconds> {
        self.typical_interval.unwrap_or_else(|| Estimate::one(DAY.min(self.longest_seconds().mid())))
    }

    /// How much time the longest reads cover: as said, or as usual.
    pub fn longest_seconds(&self) -> Estimate<Seconds> {
        self.longest_interval.unwrap_or_else(|| Estimate::one(self.kept_seconds().mid().min(365.0 * DAY)))
    }

    /// How old an event may be when it is written: as said, or as usual.
    pub fn accept_seconds(&self) -> Estimate<Seconds> {
        self.accept_limit.unwrap_or_else(|| Estimate::one((36.0 * HOUR).min(self.kept_seconds().mid() / 4.0).floor()))
    }

    /// Every contradiction in it; empty when it can be planned for.
    pub fn problems(&self) -> Vec<WorkloadProblem> {
        let mut problems = Vec::new();
        self.check_ranges(&mut problems);
        if problems.is_empty() {
            self.check_against_each_other(&mut problems);
        }
        problems
    }

    fn check_ranges(&self, problems: &mut Vec<WorkloadProblem>) {
        let century = 36_500.0 * DAY;
        let mut check = |field, reason: Option<String>| {
            problems.extend(reason.map(|reason| WorkloadProblem { field, reason }));
        };
        check("writes_per_second", self.writes_per_second.problem(1e-6, 1e9));
        check("event_bytes", self.event_bytes.problem(1.0, 1e9));
        check("ids", self.ids.problem(1.0, 1e12));
        check("items_per_event", self.items_per_event.problem(1.0, 1000.0));
        match &self.skew {
            Skew::Zipf(exponent) => check("skew.zipf", exponent.problem(0.0, 3.0)),
            Skew::TopOnePercent(share) => check("skew.top_one_percent", share.problem(0.01, 0.999)),
        }
        check("retention", self.retention.and_then(|it| it.problem(60.0, century)));
        check("reads_per_second", self.reads_per_second.and_then(|it| it.problem(0.0, 1e9)));
        check("typical_interval", self.typical_interval.and_then(|it| it.problem(1e-3, century)));
        check("longest_interval", self.longest_interval.and_then(|it| it.problem(1e-3, century)));
        check("accept_limit", self.accept_limit.and_then(|it| it.problem(0.0, 3650.0 * DAY)));
        check("read_target", self.read_target.problem(1e-3, HOUR));
        check("read_max", self.read_max.problem(1e-3, HOUR));
        check("write_target", self.write_target.problem(1e-3, HOUR));
        check("write_max", self.write_max.problem(1e-3, HOUR));
    }

    fn check_against_each_other(&self, problems: &mut Vec<WorkloadProblem>) {
        let mut above = |field, value: f64, limit_field: &str, limit: f64, why: &str| {
            if value > limit {
                let (value, limit) = (show_seconds(value), show_seconds(limit));
                problems.push(WorkloadProblem {
                    field,
                    reason: format!("is {value}, above {limit_field} of {limit}: {why}"),
                });
            }
        };
        let (typical, longest) = (self.typical_seconds().mid(), self.longest_seconds().mid());
        above("typical_interval", typical, "longest_interval", longest, "usual reads can't be longer than the longest");
        let kept = self.retention.map_or(f64::INFINITY, |retention| retention.mid());
        let accept = self.accept_seconds().mid();
        above("accept_limit", accept, "retention", kept, "events would be accepted that are no longer kept");
        let why = "what requests should take can't be more than they may take";
        above("read_target", self.read_target.mid(), "read_max", self.read_max.mid(), why);
        above("write_target", self.write_target.mid(), "write_max", self.write_max.mid(), why);
        let (item_bytes, most) = (self.event_bytes.mid() / self.items_per_event.mid(), f64::from(1 << 20));
        if item_bytes > most {
            let reason = format!(
                "gives items of {item_bytes:.0} bytes; an item has at most {most}: use more items or smaller events"
            );
            problems.push(WorkloadProblem { field: "event_bytes", reason });
        }
        if let (Skew::TopOnePercent(_), true) = (&self.skew, self.ids.low() < 100.0) {
            let reason = format!("means less than one of {} ids: give skew.zipf instead", self.ids);
            problems.push(WorkloadProblem { field: "skew.top_one_percent", reason });
        }
    }

    /// What deserves to be known although it can be planned for.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let kept = self.kept_seconds().mid();
        if self.retention.is_none() {
            remarks.push(format!(
                "Nothing is ever dropped; disk and tables are counted for {}.",
                show_seconds(HORIZON_SECONDS)
            ));
        }
        if self.longest_seconds().mid() > kept {
            remarks.push(format!(
                "The longest reads cover {}, but events are kept for {}: what is older is gone.",
                show_seconds(self.longest_seconds().mid()),
                show_seconds(kept)
            ));
        }
        let events = self.writes_per_second.mid() * kept;
        if events < self.ids.mid() {
            let share = events / self.ids.mid();
            remarks.push(format!(
                "{} ids share {} events at a time: at most {:.1} % of them have any.",
                crate::quantity::show_count(self.ids.mid()),
                crate::quantity::show_count(events),
                share * 100.0
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<&'static str> {
        let workload: Workload = toml::from_str(text).unwrap();
        workload.problems().into_iter().map(|problem| problem.field).collect()
    }

    const BASE: &str = "writes_per_second = 1000\nevent_bytes = 500\nids = 1e6\n";

    #[test]
    fn three_numbers_are_a_description() {
        assert_eq!(fields(BASE), [""; 0]);
    }

    #[test]
    fn every_contradiction_is_named() {
        let cases = [
            ("retention = '1d'\naccept_limit = '36h'", vec!["accept_limit"]),
            ("typical_interval = '8d'\nlongest_interval = '7d'", vec!["typical_interval"]),
            ("read_target = '6s'\nwrite_target = '6s'", vec!["read_target", "write_target"]),
            ("retention = '7d..1d..30d'", vec!["retention"]),
            ("reads_per_second = -5\nretention = '1s'", vec!["retention", "reads_per_second"]),
            ("skew = { top_one_percent = 40 }", vec!["skew.top_one_percent"]),
            ("skew = { top_one_percent = 0.001 }", vec!["skew.top_one_percent"]),
            ("items_per_event = 1001", vec!["items_per_event"]),
        ];
        for (more, expected) in cases {
            assert_eq!(fields(&format!("{BASE}{more}\n")), expected, "{more}");
        }
        let few = "writes_per_second = 1\nevent_bytes = '2MiB'\nids = 50\nskew = { top_one_percent = '40%' }\n";
        assert_eq!(fields(few), ["event_bytes", "skew.top_one_percent"]);
    }

    #[test]
    fn a_description_survives_a_file() {
        let text = "writes_per_second = '100..1000..2000@0.8'\nevent_bytes = '1.5KiB'\nids = 1e6\nretention = '1y'\n\
                    skew = { top_one_percent = '40%' }\nread_target = '50ms'\n";
        let workload: Workload = toml::from_str(text).unwrap();
        let written = toml::to_string(&workload).unwrap();
        assert_eq!(toml::from_str::<Workload>(&written).unwrap(), workload, "{written}");
        assert!(toml::from_str::<Workload>("writes = 5").is_err());
    }

    #[test]
    fn what_is_odd_but_possible_is_remarked() {
        let text = format!("{BASE}retention = '10m'\nlongest_interval = '1d'\n");
        let workload: Workload = toml::from_str(&text).unwrap();
        let remarks = workload.remarks().join("\n");
        assert!(remarks.contains("what is older is gone"), "{remarks}");
        assert!(remarks.contains("at most 60.0 %"), "{remarks}");
    }
}
