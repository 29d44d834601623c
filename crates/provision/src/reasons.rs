//! Why settings were chosen, in sentences: each setting against its neighbours, with the term that decides.

use crate::{
    candidate::{Candidate, DENSITY_HIGH_BYTES, DENSITY_LOW_BYTES},
    cost::Term,
    plan::{Settings, Verdict},
    predict::Prediction,
    quantity::{show_bytes, show_count, show_seconds},
    sizes::PartitionSizes,
    world::World,
};

const ALL: [Term; 9] = [
    Term::KeptLonger,
    Term::Tables,
    Term::Sparse,
    Term::Dense,
    Term::Wide,
    Term::FanOut,
    Term::Latency,
    Term::Heat,
    Term::Merging,
];

/// A sentence or two for every setting.
pub(crate) fn reasons(
    world: &World,
    candidates: &[Candidate],
    verdicts: &[Verdict],
    best: usize,
    settings: &Settings,
) -> Vec<String> {
    let chosen = candidates[best];
    let comparison = Comparison { world, candidates, verdicts, best };
    let sizes = sizes(world, &chosen);
    let mut reasons = vec![
        format!(
            "Slices of {}: dropped whole, they keep at most {:.0} % more than asked, and need {} tables.{}",
            show_seconds(chosen.slice()),
            chosen.slice() / world.kept * 100.0,
            chosen.tables(world).ceil(),
            comparison.against(|other| (other.seconds_per_slice, other.partitions.event_buckets), slice_name)
        ),
        format!(
            "Time buckets of {}: 99 % of the partitions stay below {} (target {} to {}), and a usual read of {} asks for \
             {} of them.{}",
            show_seconds(chosen.bucket()),
            show_bytes(sizes.percentile(0.99)),
            show_bytes(DENSITY_LOW_BYTES as f64),
            show_bytes(DENSITY_HIGH_BYTES as f64),
            show_seconds(world.typical),
            show_count(chosen.fan_out(world.typical)),
            comparison
                .against(|other| (other.partitions.seconds_per_bucket, other.partitions.event_buckets), bucket_name)
        ),
    ];
    let rows = world.writes * world.zipf.share(1.0) * world.items;
    reasons.push(format!(
        "{}: the busiest id writes {} rows a second.{}",
        event_bucket_name(&chosen),
        show_count(rows),
        comparison.against(
            |other| (other.partitions.event_buckets, other.partitions.seconds_per_bucket),
            |other| event_bucket_name(other).to_lowercase()
        )
    ));
    reasons.push(format!(
        "Partitions are split from {} on, into pieces of {}: what a read gets through within its target of {}, and few \
         enough for the widest.",
        show_bytes(settings.split_threshold_bytes as f64),
        show_bytes(settings.split_target_piece_bytes as f64),
        show_seconds(world.read_target)
    ));
    reasons
}

/// What the plan can't do.
pub(crate) fn remarks(predicted: &Prediction, chosen: &Candidate) -> Vec<String> {
    let mut remarks = Vec::new();
    let p99 = predicted.partition_bytes.p99.mid;
    if p99 < DENSITY_LOW_BYTES as f64 && chosen.partitions.seconds_per_bucket == chosen.seconds_per_slice {
        remarks.push(format!(
            "The ids are too quiet for the density target: even with buckets as long as their slices, 99 of 100 \
             partitions hold less than {}.",
            show_bytes(p99)
        ));
    }
    if predicted.wide_ids.high >= 1.0 {
        remarks.push(format!(
            "{} ids will have wide partitions, the widest of {}; they are split.",
            show_count(predicted.wide_ids.mid.max(1.0)),
            show_bytes(predicted.widest_partition_bytes.mid)
        ));
    }
    remarks
}

fn sizes<'a>(world: &'a World, candidate: &Candidate) -> PartitionSizes<'a> {
    PartitionSizes::new(world, &world.zipf.groups(), candidate.bucket(), candidate.event_buckets())
}

fn slice_name(candidate: &Candidate) -> String {
    format!("slices of {}", show_seconds(candidate.slice()))
}

fn bucket_name(candidate: &Candidate) -> String {
    format!("buckets of {}", show_seconds(candidate.bucket()))
}

fn event_bucket_name(candidate: &Candidate) -> String {
    match candidate.partitions.event_buckets {
        1 => "One event bucket".to_owned(),
        several => format!("{several} event buckets"),
    }
}

/// The chosen candidate beside its neighbours.
struct Comparison<'a> {
    world: &'a World,
    candidates: &'a [Candidate],
    verdicts: &'a [Verdict],
    best: usize,
}

impl Comparison<'_> {
    /// What the next step down and the next step up of one setting would make worse. `key` is the setting, and another
    /// one that must stay; whatever else may differ takes its best value.
    fn against(&self, key: impl Fn(&Candidate) -> (u32, u32), name: impl Fn(&Candidate) -> String) -> String {
        let (here, fixed) = key(&self.candidates[self.best]);
        let others: Vec<usize> =
            (0..self.candidates.len()).filter(|index| key(&self.candidates[*index]).1 == fixed).collect();
        let value = |index: &usize| key(&self.candidates[*index]).0;
        let below = others.iter().map(value).filter(|value| *value < here).max();
        let above = others.iter().map(value).filter(|value| *value > here).min();
        let mut text = String::new();
        for step in [below, above].into_iter().flatten() {
            let at_step = others.iter().filter(|index| value(index) == step);
            let best =
                at_step.min_by(|one, other| self.verdicts[**one].regret.total_cmp(&self.verdicts[**other].regret));
            if let Some(other) = best {
                text.push_str(&self.sentence(*other, &name(&self.candidates[*other])));
            }
        }
        text
    }

    fn sentence(&self, other: usize, name: &str) -> String {
        let (here, there) = (&self.verdicts[self.best].mean, &self.verdicts[other].mean);
        let worse = |term: &Term| there.terms[*term as usize] - here.terms[*term as usize];
        let Some(term) = ALL.into_iter().max_by(|one, other| worse(one).total_cmp(&worse(other))) else {
            return String::new();
        };
        if worse(&term) < 0.001 {
            return String::new();
        }
        let mut name = name.to_owned();
        name[..1].make_ascii_uppercase();
        let drawback = self.drawback(term, other);
        let (here, there) = (&self.candidates[self.best], &self.candidates[other]);
        // A longer bucket may need a longer slice.
        if there.seconds_per_slice != here.seconds_per_slice && !name.starts_with("Slices") {
            return format!(" {name} need slices of {}, and {drawback}.", show_seconds(there.slice()));
        }
        format!(" {name} {drawback}.")
    }

    fn drawback(&self, term: Term, index: usize) -> String {
        let (world, other) = (self.world, &self.candidates[index]);
        let off_target = |side: &str| {
            let p99 = show_bytes(sizes(world, other).percentile(0.99));
            let draws = self.verdicts[index].costs_in[term as usize] * 100.0;
            format!("would put the 99th percentile at {p99}, {side} the target in {draws:.0} % of the draws")
        };
        match term {
            Term::KeptLonger => format!("would keep up to {:.0} % more", other.slice() / world.kept * 100.0),
            Term::Tables => format!("would need {} tables", show_count(other.tables(world).ceil())),
            Term::Sparse => off_target("below"),
            Term::Dense => off_target("above"),
            Term::Wide => {
                let (_, wide) = sizes(world, other).wide(DENSITY_HIGH_BYTES as f64);
                format!("would put {:.0} % of all bytes into wide partitions", wide * 100.0)
            }
            Term::FanOut => {
                format!("would make a usual read ask for {} partitions", show_count(other.fan_out(world.typical)))
            }
            Term::Latency => format!(
                "would make reads miss their latency: the longest ask for {} partitions",
                show_count(other.fan_out(world.longest))
            ),
            Term::Heat => format!(
                "would put {} rows a second on one partition",
                show_count(world.writes * world.zipf.share(1.0) * world.items / other.event_buckets())
            ),
            Term::Merging => format!("would make every page merge {} partitions", other.partitions.event_buckets),
        }
    }
}
