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
    Ok(Proposal { workload, settings: plan.settings, reasons: plan.reasons, commands })
}

fn workload(schema: &ForeignSchema, found: &Findings) -> Result<Workload, String> {
    let seen = &found.seen;
    let (oldest, newest) = seen.span.ok_or("there are no rows")?;
    let seconds = newest.since(oldest).as_secs_f64();
    if seconds < 1.0 {
        return Err("all rows are of one time, so that nothing is known of their rate".to_owned());
    }
    let (_, bytes) = found.bytes.extrapolated(found.share);
    let rows = bytes as f64 / (found.bytes.bytes() as f64 / seen.rows as f64).max(1.0);
    let (series, _) = seen.buckets.series.extrapolated(found.share);
    let per_row = |sum: u64| (sum as f64 / seen.rows as f64).max(1.0);
    let mut workload = Workload::new(
        Estimate::one(three_digits(rows / seconds).max(1e-6)),
        Estimate::one(per_row(seen.value_bytes).round()),
        Estimate::one(series.max(1) as f64),
    );
    workload.items_per_event = Estimate::one(per_row(seen.values).round());
    if seen.buckets.series.counted() >= LEAST_SERIES {
        let share = busiest_hundredth(&seen.buckets.series).clamp(0.01, 0.999);
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
