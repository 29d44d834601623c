//! `anabranch split verify`: splits compared with their originals, one after the other.

use std::time::Duration;

use anabranch_api::v1::{SplitVerification, VerifySplitRequest, VerifySplitResponse};

use super::{list::fetch, no_split};
use crate::{
    args::WhichArgs,
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::show_time,
};

/// One split may take this long, where `--timeout` doesn't say more.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) async fn run(session: &Session, which: &WhichArgs) -> Outcome {
    let client = session.connect_patiently(PATIENCE).await?;
    let (splits, _) = fetch(&client, which, &[], usize::MAX).await?;
    if splits.is_empty() {
        return Err(no_split(&which.described()));
    }
    let mut out = Out::new();
    let mut table =
        Table::new(&["result", "series", "slice", "bucket", "segments", "what was found"]).align_right(&[3, 4]);
    let mut answer = VerifySplitResponse::default();
    for split in splits.iter().filter(|split| !split.segments.is_empty()) {
        let request = VerifySplitRequest {
            namespace: split.namespace.clone(),
            time_series_id: split.time_series_id.clone(),
            time_slice: split.time_slice.clone(),
            time_bucket: Some(split.time_bucket),
            event_bucket: Some(split.event_bucket),
        };
        for verification in client.verify_split(request).await?.verifications {
            match session.format {
                Format::Table => {
                    table.row(row(&verification));
                    out.text(&table.take_text(session.colors.stdout))?;
                    out.flush()?;
                }
                Format::Jsonl => out.json_line(&verification)?,
                Format::Json => {}
            }
            answer.verifications.push(verification);
        }
    }
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Table if answer.verifications.is_empty() => out.line("no segment is served yet: nothing to compare")?,
        Format::Table | Format::Jsonl => {}
    }
    out.flush()?;
    match answer.verifications.iter().filter(|found| found.difference.is_some()).count() {
        0 => Ok(()),
        1 => Err(differ("one split differs")),
        count => Err(differ(&format!("{count} splits differ"))),
    }
}

fn differ(what: &str) -> Failure {
    Failure::other(format!("{what} from its original, and isn't used any more; it is split anew"))
        .hint("`anabranch split diff NAMESPACE` shows both sides")
}

fn row(found: &SplitVerification) -> Vec<String> {
    let (result, remark) = match &found.difference {
        Some(difference) => {
            let position = difference.position.clone().unwrap_or_default();
            let place = format!("at {} {}", show_time(position.event_time.as_ref()), escaped(&position.event_id));
            ("differs", if difference.damage.is_empty() { place } else { escaped(&difference.damage) })
        }
        None if !found.skipped_reason.is_empty() => ("skipped", escaped(&found.skipped_reason)),
        None => ("same", String::new()),
    };
    vec![
        result.to_owned(),
        escaped(&found.time_series_id),
        escaped(&found.time_slice),
        format!("{}.{}", found.time_bucket, found.event_bucket),
        found.segments_equal.to_string(),
        remark,
    ]
}
