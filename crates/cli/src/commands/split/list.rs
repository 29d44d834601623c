//! `anabranch split list`: splits in a table, and all pages of them.

use anabranch_api::v1::{
    ListSplitsRequest, ListSplitsResponse, Split, SplitSegment, post_split_data::PartitionStrategy, split::State,
};
use anabranch_client::Client;

use crate::{
    args::{ListArgs, WhichArgs},
    failure::Outcome,
    output::{Format, Out, note, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_time},
};

/// Splits that one request asks for.
const PAGE: u32 = 1000;

pub(crate) async fn run(session: &Session, client: &Client, args: &ListArgs) -> Outcome {
    let (splits, more) = fetch(client, &args.which, &args.state, args.limit as usize).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&ListSplitsResponse { splits, next_page_token: String::new() })?,
        Format::Jsonl => splits.iter().try_for_each(|split| out.json_line(split))?,
        Format::Table if splits.is_empty() => out.line("no splits")?,
        Format::Table => out.text(&table(&splits).take_text(session.colors.stdout))?,
    }
    out.flush()?;
    if more {
        note(session.colors, "there are more; --limit N shows them, a series, --slice and --state narrow them down");
    }
    Ok(())
}

/// The splits that are meant, `limit` at most, and whether there are more.
pub(super) async fn fetch(
    client: &Client,
    which: &WhichArgs,
    states: &[State],
    limit: usize,
) -> Outcome<(Vec<Split>, bool)> {
    let mut request = ListSplitsRequest {
        namespace: which.namespace.clone(),
        time_series_id: which.series.clone().unwrap_or_default(),
        time_slice: which.slice.clone().unwrap_or_default(),
        time_bucket: which.time_bucket,
        event_bucket: which.event_bucket,
        states: states.iter().map(|state| i32::from(*state)).collect(),
        page_size: PAGE.min(u32::try_from(limit).unwrap_or(PAGE)),
        page_token: String::new(),
    };
    let mut splits = Vec::new();
    loop {
        let answer = client.list_splits(request.clone()).await?;
        splits.extend(answer.splits);
        let more = !answer.next_page_token.is_empty();
        if splits.len() >= limit || !more {
            let more = more || splits.len() > limit;
            splits.truncate(limit);
            return Ok((splits, more));
        }
        request.page_token = answer.next_page_token;
    }
}

/// Splits, one row each.
pub(super) fn table(splits: &[Split]) -> Table {
    let headers = [
        "state",
        "series",
        "slice",
        "bucket",
        "segments",
        "pieces",
        "before",
        "after",
        "changed",
        "what there is to say",
    ];
    let mut table = Table::new(&headers).align_right(&[3, 4, 5, 6, 7]);
    for split in splits {
        let (before, after, pieces) = sizes(&split.segments);
        let bytes = |bytes: u64| if split.segments.is_empty() { "-".to_owned() } else { show_bytes(bytes) };
        table.row(vec![
            split.state().as_str_name().to_owned(),
            escaped(&split.time_series_id),
            escaped(&split.time_slice),
            format!("{}.{}", split.time_bucket, split.event_bucket),
            split.segments.len().to_string(),
            show_count(pieces),
            bytes(before),
            bytes(after),
            show_time(split.update_time.as_ref()),
            remark(split),
        ]);
    }
    table
}

/// Bytes before and after, and pieces, of all segments.
pub(super) fn sizes(segments: &[SplitSegment]) -> (u64, u64, u64) {
    segments.iter().fold((0, 0, 0), |(before, after, pieces), segment| {
        let pre = segment.pre_split_data.as_ref().map_or(0, |pre| pre.bytes);
        let post = segment.post_split_data.as_ref().map_or(0, |post| post.bytes);
        (before + pre, after + post, pieces + piece_count(segment))
    })
}

/// How many pieces a segment has.
pub(super) fn piece_count(segment: &SplitSegment) -> u64 {
    let strategy = segment.post_split_data.as_ref().and_then(|post| post.partition_strategy.as_ref());
    match strategy {
        Some(PartitionStrategy::TimeRangePartitionStrategy(strategy)) => strategy.piece_count.into(),
        Some(PartitionStrategy::EventBucketPartitionStrategy(strategy)) => strategy.target_event_buckets.into(),
        None => 0,
    }
}

/// What a person should know beside the state.
pub(super) fn remark(split: &Split) -> String {
    let mut remarks = Vec::new();
    if let Some(progress) = &split.progress {
        remarks.push(match progress.bytes_total {
            Some(total) => {
                let percent = (u128::from(progress.bytes_done) * 100 / u128::from(total.max(1))).min(100);
                format!("{percent} % of {}", show_bytes(total))
            }
            None => format!("{} so far", show_bytes(progress.bytes_done)),
        });
    }
    if let Some(small) = &split.not_wide {
        remarks.push(format!("{} sealed", show_bytes(small.bytes)));
    }
    if !split.reason.is_empty() {
        remarks.push(escaped(&split.reason));
    }
    if let Some(at) = &split.retry_after {
        remarks.push(format!("again at {at}"));
    }
    if !split.set_aside_reason.is_empty() {
        remarks.push(format!("set aside: {}", escaped(&split.set_aside_reason)));
    }
    remarks.join("; ")
}
