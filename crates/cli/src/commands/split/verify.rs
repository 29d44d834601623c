//! `anabranch split verify`: splits compared with their originals, one after the other.

use std::time::Duration;

use anabranch_api::v1::{ListNamespacesRequest, Split, SplitVerification, VerifySplitRequest};
use anabranch_client::Client;
use serde::Serialize;

use super::{list::fetch, no_split};
use crate::{
    args::{VerifyArgs, WhichArgs},
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::show_time,
};

/// One split may take this long, where `--timeout` doesn't say more.
const PATIENCE: Duration = Duration::from_secs(600);

/// As `VerifySplitResponse`, of any number of namespaces.
#[derive(Default, Serialize)]
struct Answer {
    verifications: Vec<Verified>,
}

/// What was found of one split.
#[derive(Serialize)]
struct Verified {
    namespace: String,
    #[serde(flatten)]
    found: SplitVerification,
}

pub(crate) async fn run(session: &Session, args: &VerifyArgs) -> Outcome {
    let client = session.connect_patiently(PATIENCE).await?;
    let splits = meant(&client, args).await?;
    let mut out = Out::new();
    let headers = ["result", "namespace", "series", "slice", "bucket", "segments", "what was found"];
    let mut table = Table::new(&headers).align_right(&[4, 5]);
    let mut answer = Answer::default();
    for split in splits.iter().filter(|split| !split.segments.is_empty()) {
        let request = VerifySplitRequest {
            namespace: split.namespace.clone(),
            time_series_id: split.time_series_id.clone(),
            time_slice: split.time_slice.clone(),
            time_bucket: Some(split.time_bucket),
            event_bucket: Some(split.event_bucket),
        };
        for found in client.verify_split(request).await?.verifications {
            let verification = Verified { namespace: split.namespace.clone(), found };
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
    match answer.verifications.iter().filter(|verified| verified.found.difference.is_some()).count() {
        0 => Ok(()),
        1 => Err(differ("one split differs")),
        count => Err(differ(&format!("{count} splits differ"))),
    }
}

/// The splits that are meant.
async fn meant(client: &Client, args: &VerifyArgs) -> Outcome<Vec<Split>> {
    let one = |namespace: String| WhichArgs {
        namespace,
        series: args.series.clone(),
        slice: args.slice.clone(),
        time_bucket: args.time_bucket,
        event_bucket: args.event_bucket,
    };
    if let Some(namespace) = &args.namespace {
        let which = one(namespace.clone());
        let (splits, _) = fetch(client, &which, &[], usize::MAX).await?;
        return if splits.is_empty() { Err(no_split(&which.described())) } else { Ok(splits) };
    }
    let mut splits = Vec::new();
    for namespace in client.list_namespaces(ListNamespacesRequest::default()).await?.namespaces {
        splits.extend(fetch(client, &one(namespace.name), &[], usize::MAX).await?.0);
    }
    Ok(splits)
}

fn differ(what: &str) -> Failure {
    Failure::other(format!("{what} from its original, and isn't used any more; it is split anew"))
        .hint("`anabranch split diff NAMESPACE` shows both sides")
}

fn row(Verified { namespace, found }: &Verified) -> Vec<String> {
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
        escaped(namespace),
        escaped(&found.time_series_id),
        escaped(&found.time_slice),
        format!("{}.{}", found.time_bucket, found.event_bucket),
        found.segments_equal.to_string(),
        remark,
    ]
}
