//! `anabranch split show`: one split for people.

use anabranch_api::v1::{GetSplitRequest, Split, SplitPiece, SplitSegment, post_split_data::PartitionStrategy};
use anabranch_client::Client;

use super::{
    list::{fetch, piece_count, remark},
    no_split,
};
use crate::{
    args::{ShowArgs, WhichArgs},
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_elapsed, show_time},
};

/// Splits that are named to somebody who has to choose.
const CHOICES: usize = 20;
/// Up to so many pieces are listed without being asked for.
const FEW_PIECES: u64 = 10;

pub(crate) async fn run(session: &Session, client: &Client, args: &ShowArgs) -> Outcome {
    let split = find(client, args).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&split)?,
        Format::Jsonl => out.json_line(&split)?,
        Format::Table => print(session, &split, args.pieces, &mut out)?,
    }
    Ok(out.flush()?)
}

/// The one split that is meant.
async fn find(client: &Client, args: &ShowArgs) -> Outcome<Split> {
    let which = WhichArgs {
        namespace: args.namespace.clone(),
        series: Some(args.series.clone()),
        slice: args.slice.clone(),
        time_bucket: args.time_bucket,
        event_bucket: args.event_bucket,
    };
    let (found, more) = fetch(client, &which, &[], CHOICES).await?;
    let split = match found.as_slice() {
        [] => return Err(no_split(&which.described())),
        [split] => split,
        several => {
            let count = format!("{}{}", several.len(), if more { " or more" } else { "" });
            let mut failure = Failure::usage(format!("{count} splits of {}: name one", which.described()));
            for split in several {
                failure = failure.detail(format!(
                    "--slice {} --time-bucket {} --event-bucket {}  ({})",
                    split.time_slice,
                    split.time_bucket,
                    split.event_bucket,
                    split.state().as_str_name()
                ));
            }
            return Err(failure);
        }
    };
    let request = GetSplitRequest {
        namespace: split.namespace.clone(),
        time_slice: split.time_slice.clone(),
        time_series_id: split.time_series_id.clone(),
        time_bucket: split.time_bucket,
        event_bucket: split.event_bucket,
    };
    Ok(client.get_split(request).await?)
}

fn print(session: &Session, split: &Split, all_pieces: bool, out: &mut Out) -> Outcome {
    let colors = session.colors.stdout;
    out.line(format!(
        "{} in {}, {}, time bucket {}, event bucket {}",
        escaped(&split.time_series_id),
        escaped(&split.namespace),
        escaped(&split.time_slice),
        split.time_bucket,
        split.event_bucket
    ))?;
    out.line("")?;
    out.text(&facts(split).take_text(colors))?;
    if !split.segments.is_empty() {
        out.line(format!("\nServed segments ({})", split.segments.len()))?;
        out.text(&segments(&split.segments).take_text(colors))?;
    }
    if let Some(next) = &split.next_segment {
        out.line("\nNext segment")?;
        out.text(&segments(std::slice::from_ref(next)).take_text(colors))?;
    }
    let shown: Vec<&SplitSegment> = split.segments.iter().chain(&split.next_segment).collect();
    let count: u64 = shown.iter().map(|segment| piece_count(segment)).sum();
    if count > FEW_PIECES && !all_pieces {
        out.line(format!("\n({} pieces; --pieces lists them)", show_count(count)))?;
    } else if count > 0 {
        out.line("\nPieces")?;
        out.text(&pieces(&shown).take_text(colors))?;
    }
    Ok(())
}

fn facts(split: &Split) -> Table {
    let mut table = Table::new(&["fact", "value"]).indented(2).without_header();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            table.row(vec![name.to_owned(), value]);
        }
    };
    let said = remark(split);
    let state = split.state().as_str_name();
    row("state", if said.is_empty() { state.to_owned() } else { format!("{state} ({said})") });
    row("served until", split.served_until.map_or_else(|| "nothing is served".to_owned(), |until| until.to_string()));
    row("generation", split.generation.to_string());
    row("attempts", split.attempts.to_string());
    let lease = split.lease.as_ref();
    row(
        "worker",
        lease.map_or_else(String::new, |lease| {
            format!("{} until {}", escaped(&lease.worker), show_time(lease.until.as_ref()))
        }),
    );
    let begun = split.progress.and_then(|progress| progress.begin_time);
    row("begun", begun.map_or_else(String::new, |begun| begun.to_string()));
    row("changed", show_time(split.update_time.as_ref()));
    table
}

fn segments(segments: &[SplitSegment]) -> Table {
    let headers = [
        "from",
        "to",
        "generation",
        "strategy",
        "packing",
        "pieces",
        "rows",
        "bytes",
        "stored rows",
        "stored bytes",
        "took",
        "served since",
        "checked",
    ];
    let mut table = Table::new(&headers).indented(2).align_right(&[2, 5, 6, 7, 8, 9, 10]);
    for segment in segments {
        let interval = segment.interval.unwrap_or_default();
        let pre = segment.pre_split_data.clone().unwrap_or_default();
        let post = segment.post_split_data.clone().unwrap_or_default();
        let took = segment.time_taken.and_then(|took| std::time::Duration::try_from(took).ok());
        let strategy = match &post.partition_strategy {
            Some(PartitionStrategy::EventBucketPartitionStrategy(_)) => "event_bucket",
            Some(PartitionStrategy::TimeRangePartitionStrategy(_)) | None => "time_range",
        };
        table.row(vec![
            show_time(interval.start.as_ref()),
            show_time(interval.end.as_ref()),
            segment.generation.to_string(),
            strategy.to_owned(),
            post.packing().as_str_name().to_ascii_lowercase(),
            show_count(piece_count(segment)),
            show_count(pre.rows),
            show_bytes(pre.bytes),
            show_count(post.rows),
            show_bytes(post.bytes),
            took.map_or_else(|| "-".to_owned(), show_elapsed),
            show_time(segment.complete_time.as_ref()),
            show_time(segment.check_time.as_ref()),
        ]);
    }
    table
}

fn pieces(segments: &[&SplitSegment]) -> Table {
    let headers = ["piece", "event bucket", "newest", "oldest", "rows", "bytes", "checksum"];
    let mut table = Table::new(&headers).indented(2).align_right(&[0, 1, 4, 5]);
    for piece in segments.iter().flat_map(|segment| pieces_of(segment)) {
        let position = |position: Option<&anabranch_api::v1::EventPosition>| {
            position.map_or_else(
                || "-".to_owned(),
                |position| format!("{} {}", show_time(position.event_time.as_ref()), escaped(&position.event_id)),
            )
        };
        table.row(vec![
            piece.ordinal.to_string(),
            piece.event_bucket.to_string(),
            position(piece.newest.as_ref()),
            position(piece.oldest.as_ref()),
            show_count(piece.rows),
            show_bytes(piece.bytes),
            escaped(&piece.checksum),
        ]);
    }
    table
}

fn pieces_of(segment: &SplitSegment) -> &[SplitPiece] {
    match segment.post_split_data.as_ref().and_then(|post| post.partition_strategy.as_ref()) {
        Some(PartitionStrategy::TimeRangePartitionStrategy(strategy)) => &strategy.pieces,
        Some(PartitionStrategy::EventBucketPartitionStrategy(strategy)) => &strategy.pieces,
        None => &[],
    }
}
