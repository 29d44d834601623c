//! `anabranch series`: the partitions of one series, how big they are, and which are split.

use anabranch_api::v1::{GetSeriesPartitionsRequest, SeriesPartition, split::State};

use crate::{
    args::SeriesArgs,
    failure::Outcome,
    output::{Format, Out, note, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_time, to_wire},
};

pub(crate) async fn run(session: &Session, args: &SeriesArgs) -> Outcome {
    let now = session.env.now();
    let wire = |moment: crate::times::Moment| to_wire(moment.resolve(now));
    let request = GetSeriesPartitionsRequest {
        namespace: args.namespace.clone(),
        time_series_id: args.series.clone(),
        start: args.from.map(wire),
        end: args.to.map(wire),
        max_partitions: args.limit,
    };
    let client = session.connect().await?;
    let answer = client.get_series_partitions(request).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.partitions.iter().try_for_each(|partition| out.json_line(partition))?,
        Format::Table if answer.partitions.is_empty() => out.line("nothing is stored there")?,
        Format::Table => {
            out.text(&table(&answer.partitions, answer.threshold_bytes).take_text(session.colors.stdout))?;
        }
    }
    out.flush()?;
    if !answer.cut_reason.is_empty() {
        note(session.colors, &escaped(&answer.cut_reason));
    }
    Ok(())
}

fn table(partitions: &[SeriesPartition], threshold: u64) -> Table {
    let headers = ["from", "slice", "bucket", "rows", "bytes", "wide", "split", "pieces", "as stored"];
    let mut table = Table::new(&headers).align_right(&[2, 3, 4, 7, 8]);
    for partition in partitions {
        let least = if partition.at_least { "> " } else { "" };
        let split = match partition.split_state() {
            State::Unspecified => "-".to_owned(),
            state => state.as_str_name().to_owned(),
        };
        let (pieces, stored) = match partition.pieces {
            0 => ("-".to_owned(), "-".to_owned()),
            pieces => (show_count(pieces.into()), show_bytes(partition.piece_bytes)),
        };
        table.row(vec![
            show_time(partition.interval.and_then(|interval| interval.start).as_ref()),
            escaped(&partition.time_slice),
            format!("{}/{}", partition.time_bucket, partition.event_bucket),
            format!("{least}{}", show_count(partition.rows)),
            format!("{least}{}", show_bytes(partition.bytes)),
            if partition.bytes >= threshold { "yes" } else { "-" }.to_owned(),
            split,
            pieces,
            stored,
        ]);
    }
    table
}
