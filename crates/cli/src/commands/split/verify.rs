//! `anabranch split verify`: splits compared with their originals, one after the other. Only what was compared, whole, is called the
//! same; what couldn't be is told, and the others are compared nevertheless.

use std::time::Duration;

use anabranch_api::v1::{
    GetSplitRequest, ListNamespacesRequest, Split, SplitVerification, VerifySplitRequest, split::State,
};
use anabranch_client::{Client, ClientError, ErrorKind};
use serde::Serialize;

use super::{list::fetch, no_split};
use crate::{
    args::{VerifyArgs, WhichArgs},
    failure::{Exit, Failure, Outcome},
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
        for verification in verified(&client, split).await {
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
        Format::Table if answer.verifications.is_empty() => out.line("no segment is served: nothing to compare")?,
        Format::Table | Format::Jsonl => {}
    }
    out.flush()?;
    verdict(&answer.verifications)
}

/// What comes of comparing one split. Of one that was given up since it was listed, or of a closed slice, nothing, and that is no
/// failure.
async fn verified(client: &Client, split: &Split) -> Vec<Verified> {
    let not_compared = |reason: String| {
        vec![SplitVerification {
            time_slice: split.time_slice.clone(),
            time_series_id: split.time_series_id.clone(),
            time_bucket: split.time_bucket,
            event_bucket: split.event_bucket,
            skipped_reason: reason,
            ..SplitVerification::default()
        }]
    };
    let request = VerifySplitRequest {
        namespace: split.namespace.clone(),
        time_series_id: split.time_series_id.clone(),
        time_slice: split.time_slice.clone(),
        time_bucket: Some(split.time_bucket),
        event_bucket: Some(split.event_bucket),
    };
    let found = match client.verify_split(request).await {
        Ok(answer) if answer.verifications.is_empty() => {
            why_unserved(client, split).await.map_or_else(Vec::new, not_compared)
        }
        Ok(answer) => answer.verifications,
        Err(error) if is_gone(&error) => Vec::new(),
        Err(error) => not_compared(error.message().to_owned()),
    };
    found.into_iter().map(|found| Verified { namespace: split.namespace.clone(), found }).collect()
}

/// Why nothing is served of a split that was listed as served a moment ago, unless it was given up or is gone: somebody may have
/// found meanwhile that it differs.
async fn why_unserved(client: &Client, split: &Split) -> Option<String> {
    let request = GetSplitRequest {
        namespace: split.namespace.clone(),
        time_series_id: split.time_series_id.clone(),
        time_slice: split.time_slice.clone(),
        time_bucket: split.time_bucket,
        event_bucket: split.event_bucket,
    };
    match client.get_split(request).await {
        Ok(now) if now.state() == State::Parked => None,
        Ok(now) if now.state() == State::Invalidated => {
            Some(format!("it isn't used any more since it was listed: {}", now.reason))
        }
        Ok(_) => Some("it changed since it was listed: compare it again".to_owned()),
        Err(error) if is_gone(&error) => None,
        Err(error) => Some(error.message().to_owned()),
    }
}

/// Whether a namespace or a slice that the server named before isn't there any more.
fn is_gone(error: &ClientError) -> bool {
    error.kind() == ErrorKind::NotFound || error.violations().iter().any(|violation| violation.field == "time_slice")
}

/// A difference is what matters most; without one, everything that is meant must have been compared.
fn verdict(found: &[Verified]) -> Outcome {
    let differing = found.iter().filter(|one| one.found.difference.is_some()).count();
    let unknown = found.iter().filter(|one| !one.found.skipped_reason.is_empty()).count();
    let unproven = match unknown {
        0 => None,
        1 => Some("one split couldn't be compared with its original".to_owned()),
        count => Some(format!("{count} splits couldn't be compared with their originals")),
    };
    let differ = match differing {
        0 => return unproven.map_or(Ok(()), |what| Err(not_compared(what))),
        1 => differ("one split differs"),
        count => differ(&format!("{count} splits differ")),
    };
    Err(unproven.into_iter().fold(differ, Failure::detail))
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
        match fetch(client, &one(namespace.name), &[], usize::MAX).await {
            Ok((found, _)) => splits.extend(found),
            Err(failure) if failure.exit == Exit::NotFound => {} // deleted since it was listed
            Err(failure) => return Err(failure),
        }
    }
    Ok(splits)
}

fn differ(what: &str) -> Failure {
    Failure::other(format!("{what} from its original, and isn't used any more; it is split anew"))
        .hint("`anabranch split diff NAMESPACE` shows both sides")
}

fn not_compared(what: String) -> Failure {
    Failure::new(Exit::NotCompared, what).hint("why is said above; `anabranch split verify` compares again")
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

#[cfg(test)]
mod tests {
    use anabranch_api::v1::SplitDifference;

    use super::*;

    fn one(found: SplitVerification) -> Verified {
        Verified { namespace: "plays".to_owned(), found }
    }

    fn same() -> Verified {
        one(SplitVerification { segments_equal: 1, ..SplitVerification::default() })
    }

    fn skipped() -> Verified {
        one(SplitVerification { skipped_reason: "a window".to_owned(), ..SplitVerification::default() })
    }

    fn differs() -> Verified {
        one(SplitVerification { difference: Some(SplitDifference::default()), ..SplitVerification::default() })
    }

    #[test]
    fn only_splits_that_were_all_compared_end_with_success_and_a_difference_counts_more_than_what_was_not() {
        assert!(verdict(&[]).is_ok());
        assert!(verdict(&[same(), same()]).is_ok());
        for (found, exit) in [
            (vec![skipped()], Exit::NotCompared),
            (vec![same(), skipped(), same()], Exit::NotCompared),
            (vec![same(), differs()], Exit::Failure),
            (vec![skipped(), differs(), skipped()], Exit::Failure),
        ] {
            assert_eq!(verdict(&found).unwrap_err().exit, exit);
        }
        let both = verdict(&[differs(), skipped()]).unwrap_err();
        assert_eq!(both.details, ["one split couldn't be compared with its original"]);
    }
}
