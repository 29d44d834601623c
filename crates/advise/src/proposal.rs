//! The workload that the rows show, and settings for it.

use anabranch_model::NamespaceName;
use anabranch_provision::{DEFAULT_SEED, Estimate, SizeHistogram, Skew, Workload, plan};
use anabranch_store_cassandra::foreign::schema::ForeignSchema;

use crate::{report::Proposal, walk::Findings};

/// Series from which on the share of the busiest hundredth says something.
const LEAST_SERIES: u64 = 200;

/// What a namespace for the same rows should be like, or why that can't be said.
pub(crate) fn propose(schema: &ForeignSchema, found: &Findings) -> Result<Proposal, String> {
    let workload = workload(schema, found)?;
    let plan = plan(&workload, DEFAULT_SEED, 1).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(|it| format!("{} {}", it.field, it.reason)).collect();
        format!("nothing can be planned for what was seen: {}", problems.join("; "))
    })?;
    let namespace = namespace_name(&schema.table);
    let commands = vec![
        format!("anabranch plan {} --output toml > {namespace}.toml", flags(&workload)),
        format!("anabranch namespace create {namespace} --plan {namespace}.toml"),
    ];
    Ok(Proposal { workload, is_at_least: found.unknown > 0, settings: plan.settings, reasons: plan.reasons, commands })
}

fn workload(schema: &ForeignSchema, found: &Findings) -> Result<Workload, String> {
    let seen = &found.seen;
    let seconds = seen.span.seconds().ok_or("there are no rows")?;
    if seconds < 1.0 {
        return Err("all rows are of one time, so that nothing is known of their rate".to_owned());
    }
    let (_, rows) = found.rows.likely.extrapolated(found.share);
    // Where nothing comes before the time, a partition is a series, and what it likely has is known better.
    let sizes = if schema.time().index == 0 { &found.bytes.likely } else { &seen.buckets.series };
    let (series, _) = sizes.extrapolated(found.share);
    let per_row = |sum: u64| (sum as f64 / seen.rows as f64).max(1.0);
    let mut workload = Workload::new(
        Estimate::one(three_digits(rows as f64 / seconds).max(1e-6)),
        Estimate::one(per_row(seen.value_bytes).round()),
        Estimate::one(series.max(1) as f64),
    );
    workload.items_per_event = Estimate::one(per_row(seen.values).round());
    if sizes.counted() >= LEAST_SERIES {
        let share = busiest_hundredth(sizes).clamp(0.01, 0.999);
        workload.skew = Skew::TopOnePercent(Estimate::one((share * 1e3).round() / 1e3));
    }
    workload.retention = schema.life_seconds.filter(|life| *life >= 60).map(|life| Estimate::one(life.into()));
    Ok(workload)
}

/// Which share of all bytes the biggest hundredth has.
fn busiest_hundredth(sizes: &SizeHistogram) -> f64 {
    let mut classes: Vec<(u64, u64)> = sizes.classes().collect();
    classes.reverse();
    let mut left = sizes.counted().div_ceil(100);
    let (mut busiest, mut all) = (0.0, 0.0);
    for (bytes, count) in classes {
        let of_busiest = count.min(left);
        left -= of_busiest;
        busiest += bytes as f64 * of_busiest as f64;
        all += bytes as f64 * count as f64;
    }
    if all > 0.0 { busiest / all } else { 0.0 }
}

fn three_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().max(1e-9).log10().floor() - 2.0);
    (value / unit).round() * unit
}

fn flags(workload: &Workload) -> String {
    let mut flags = format!(
        "--writes-per-second {} --event-bytes {} --ids {} --items-per-event {}",
        plain(workload.writes_per_second.mid()),
        plain(workload.event_bytes.mid()),
        plain(workload.ids.mid()),
        plain(workload.items_per_event.mid()),
    );
    if let Skew::TopOnePercent(share) = &workload.skew {
        flags += &format!(" --top-one-percent {}%", plain((share.mid() * 1e3).round() / 10.0));
    }
    if let Some(retention) = &workload.retention {
        flags += &format!(" --retention {}s", plain(retention.mid()));
    }
    flags
}

/// Without the noise of binary fractions.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A name like the table's that a namespace may have.
fn namespace_name(table: &str) -> String {
    let letters = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' };
    let name: String = table.to_ascii_lowercase().chars().map(letters).take(NamespaceName::MAX_BYTES).collect();
    NamespaceName::new(name.clone()).map_or_else(|_| "events".to_owned(), |_| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        example::{NOON, at, key, row, schema},
        measure::Measured,
    };

    /// A day of 300 partitions with 100 rows each, and of three with a row a second of which an hour was read.
    fn findings(ends_are_known: bool) -> Findings {
        let mut found = Findings { share: 1.0, ..Findings::default() };
        let mut count = |seconds: &mut dyn Iterator<Item = i64>, is_whole: bool| {
            let mut measured = Measured::new(key(), at(NOON));
            seconds.for_each(|seconds| {
                let row = row(seconds, &[]);
                measured.saw(&row);
                found.seen.row(0, &mut Default::default(), &row);
            });
            measured.whole = is_whole;
            if !is_whole && ends_are_known {
                measured.saw_end((0..100).map(|on| at(NOON - 86_400 + on)));
            }
            found.count(measured);
        };
        (0..300).for_each(|_| count(&mut (0..100).map(|row| NOON - row * 864), true));
        (0..3).for_each(|_| count(&mut (0..3600).map(|back| NOON - back), false));
        found
    }

    #[test]
    fn a_workload_counts_what_partitions_likely_have_that_were_cut_off() {
        let found = findings(true);
        let proposal = propose(&schema(&[("at", "timestamp")]), &found).unwrap();
        let writes = (300 * 100 + 3 * 86_400) as f64 / 86_400.0;
        let of_workload = proposal.workload.writes_per_second.mid();
        assert!((of_workload / writes - 1.0).abs() < 0.05, "{of_workload} of {writes}");
        let Skew::TopOnePercent(share) = &proposal.workload.skew else { panic!("{:?}", proposal.workload) };
        assert!((share.mid() - 0.9).abs() < 0.02, "three of 303 have nine of ten rows: {share:?}");
        assert!(!proposal.is_at_least);
    }

    #[test]
    fn a_workload_is_the_least_there_is_when_nothing_is_known_of_the_rest() {
        let proposal = propose(&schema(&[("at", "timestamp")]), &findings(false)).unwrap();
        assert!(proposal.is_at_least);
        assert!(proposal.workload.writes_per_second.mid() < 0.5);
    }

    #[test]
    fn the_share_of_the_busiest_hundredth_is_about_right() {
        let mut sizes = SizeHistogram::default();
        (0..990).for_each(|_| sizes.add(1000));
        (0..10).for_each(|_| sizes.add(99_000));
        let share = busiest_hundredth(&sizes);
        assert!((share - 0.5).abs() < 0.03, "{share}");
        assert_eq!(busiest_hundredth(&SizeHistogram::default()), 0.0);
    }

    #[test]
    fn a_table_gives_its_name_where_it_can() {
        assert_eq!(namespace_name("Play-Events2"), "play_events2");
        assert_eq!(namespace_name("_x"), "events");
        assert_eq!(plain(three_digits(1234.5)), "1230");
        assert_eq!(plain(three_digits(0.012_345)), "0.0123");
    }
}
