//! `anabranch heatmap`: where the ids of a namespace are busy, as lines of blocks.

use anabranch_api::v1::{GetHeatMapRequest, HeatMap, HeatRange};

use crate::{
    args::{HeatMapArgs, Measure},
    failure::Outcome,
    output::{Format, Out, note, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count},
};

/// Columns of a line.
const COLUMNS: usize = 60;
/// From nothing to much.
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(crate) async fn run(session: &Session, args: &HeatMapArgs) -> Outcome {
    let client = session.connect().await?;
    let answer = client.get_heat_map(GetHeatMapRequest { namespace: args.namespace.clone() }).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.ranges.iter().try_for_each(|range| out.json_line(range))?,
        Format::Table => {
            let mut table = table(&answer, args.by);
            match table.is_empty() {
                true => out.line("nothing was read or written in the last half hour")?,
                false => out.text(&table.take_text(session.colors.stdout))?,
            }
        }
    }
    out.flush()?;
    if !answer.recorded {
        note(session.colors, "not recorded: this server keeps the traffic of 256 namespaces");
    }
    Ok(())
}

fn values(range: &HeatRange, by: Measure) -> &[u64] {
    match by {
        Measure::Bytes => &range.bytes,
        Measure::Reads => &range.reads,
        Measure::Writes => &range.writes,
    }
}

fn table(map: &HeatMap, by: Measure) -> Table {
    let mut table =
        Table::new(&["range", "half an hour ago until now", "in all", "busiest series"]).align_right(&[0, 2]);
    let columns = |range: &HeatRange| -> Vec<u64> {
        let all = values(range, by);
        all.chunks(all.len().div_ceil(COLUMNS).max(1)).map(|steps| steps.iter().sum()).collect()
    };
    let highest = map.ranges.iter().flat_map(columns).max().unwrap_or(0);
    for range in map.ranges.iter().filter(|range| values(range, by).iter().any(|value| *value > 0)) {
        let total = values(range, by).iter().sum();
        let busiest = range.busiest.first().map_or_else(String::new, |busy| {
            format!("{}{}", escaped(&busy.time_series_id), if busy.wide { " (wide)" } else { "" })
        });
        table.row(vec![
            range.number.to_string(),
            columns(range).into_iter().map(|value| block(value, highest)).collect(),
            if by == Measure::Bytes { show_bytes(total) } else { show_count(total) },
            busiest,
        ]);
    }
    table
}

/// By orders of magnitude: something is never nothing.
fn block(value: u64, highest: u64) -> char {
    if value == 0 {
        return BLOCKS[0];
    }
    let share = (value as f64 + 1.0).ln() / (highest.max(value) as f64 + 1.0).ln();
    BLOCKS[((share * 8.0).ceil() as usize).clamp(1, 8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_never_lower_and_something_is_never_nothing() {
        assert_eq!((block(0, 9), block(1, u64::MAX - 1), block(9, 9)), ('·', '▁', '█'));
    }
}
