//! `anabranch split`: what operators ask of splits, and what they are shown.

mod list;
mod mode;
mod show;
mod verify;
mod watch;

pub(crate) use mode::history;

use anabranch_api::v1::{
    AbandonSplitRequest, ListSplitDifferencesRequest, RequestSplitRequest, RetrySplitRequest, Split, SplitDifference,
};
use anabranch_client::Client;
use serde::Serialize;

use crate::{
    args::{SplitCommand, WhichArgs},
    failure::{Exit, Failure, Outcome},
    output::{
        Format, Out,
        table::Table,
        text::{escaped, value},
    },
    session::Session,
    times::show_time,
};

pub(crate) async fn run(session: &Session, command: SplitCommand) -> Outcome {
    if let SplitCommand::Verify(args) = &command {
        return verify::run(session, args).await;
    }
    let client = session.connect().await?;
    match command {
        SplitCommand::List(args) if args.watch => watch::run(session, &client, &args).await,
        SplitCommand::List(args) => list::run(session, &client, &args).await,
        SplitCommand::Show(args) => show::run(session, &client, &args).await,
        SplitCommand::Request { which } => request(session, &client, which).await,
        SplitCommand::Retry { which, all } => retry(session, &client, which, all).await,
        SplitCommand::Abandon { which, all, reason } => abandon(session, &client, which, all, reason).await,
        SplitCommand::Diff { namespace, series, slice } => {
            let request = ListSplitDifferencesRequest {
                namespace,
                time_series_id: series.unwrap_or_default(),
                time_slice: slice.unwrap_or_default(),
            };
            diff(session, &client, request).await
        }
        SplitCommand::Verify(args) => verify::run(session, &args).await,
        SplitCommand::Mode(args) => mode::run(session, &client, &args).await,
    }
}

async fn request(session: &Session, client: &Client, which: WhichArgs) -> Outcome {
    check_named(&which, false, "`anabranch split request`")?;
    let meant = which.described();
    let answer = client
        .request_split(RequestSplitRequest {
            namespace: which.namespace,
            time_series_id: which.series.unwrap_or_default(),
            time_slice: which.slice.unwrap_or_default(),
            time_bucket: which.time_bucket,
            event_bucket: which.event_bucket,
        })
        .await?;
    if answer.splits.is_empty() {
        let message = format!("there is nothing to split in {meant}: no events, or nothing past the threshold");
        return Err(Failure::new(Exit::NotFound, message));
    }
    let verb = if answer.more {
        "looked at; more are meant than one request takes up: name a slice or a time bucket to get to the others"
    } else {
        "looked at"
    };
    print_changed(session, verb, &answer, &answer.splits)
}

async fn retry(session: &Session, client: &Client, which: WhichArgs, all: bool) -> Outcome {
    check_named(&which, all, "`anabranch split retry`")?;
    let answer = client
        .retry_split(RetrySplitRequest {
            namespace: which.namespace,
            time_series_id: which.series.unwrap_or_default(),
            time_slice: which.slice.unwrap_or_default(),
            time_bucket: which.time_bucket,
            event_bucket: which.event_bucket,
            all,
        })
        .await?;
    if answer.splits.is_empty() && session.format == Format::Table {
        let mut out = Out::new();
        out.line("nothing to retry: no such split failed, is parked, was too small or is set aside")?;
        return Ok(out.flush()?);
    }
    print_changed(session, "tried again", &answer, &answer.splits)
}

async fn abandon(session: &Session, client: &Client, which: WhichArgs, all: bool, reason: String) -> Outcome {
    check_named(&which, all, "`anabranch split abandon`")?;
    let meant = which.described();
    let answer = client
        .abandon_split(AbandonSplitRequest {
            namespace: which.namespace,
            time_series_id: which.series.unwrap_or_default(),
            time_slice: which.slice.unwrap_or_default(),
            time_bucket: which.time_bucket,
            event_bucket: which.event_bucket,
            all,
            reason,
        })
        .await?;
    if answer.splits.is_empty() {
        return Err(no_split(&meant));
    }
    print_changed(session, "given up", &answer, &answer.splits)
}

/// What changes splits must say which ones.
fn check_named(which: &WhichArgs, all: bool, command: &str) -> Outcome {
    if which.series.is_some() || which.slice.is_some() || all {
        return Ok(());
    }
    Err(Failure::usage(format!("{command} needs a series or --slice, to know what is meant")))
}

fn no_split(meant: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no split of {meant}"))
        .hint("`anabranch split list NAMESPACE` shows those that are there")
}

impl WhichArgs {
    /// In words, for messages.
    fn described(&self) -> String {
        let mut text = match &self.series {
            Some(series) => format!("`{}` in `{}`", escaped(series), escaped(&self.namespace)),
            None => format!("`{}`", escaped(&self.namespace)),
        };
        if let Some(slice) = &self.slice {
            text.push_str(&format!(", {}", escaped(slice)));
        }
        for (name, bucket) in [("time bucket", self.time_bucket), ("event bucket", self.event_bucket)] {
            if let Some(bucket) = bucket {
                text.push_str(&format!(", {name} {bucket}"));
            }
        }
        text
    }
}

fn print_changed(session: &Session, verb: &str, answer: &impl Serialize, splits: &[Split]) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(answer)?,
        Format::Jsonl => splits.iter().try_for_each(|split| out.json_line(split))?,
        Format::Table => {
            let count = splits.len();
            let partitions = if count == 1 { "partition" } else { "partitions" };
            out.line(format!("{count} {partitions} {verb}"))?;
            out.text(&list::table(splits).take_text(session.colors.stdout))?;
        }
    }
    Ok(out.flush()?)
}

async fn diff(session: &Session, client: &Client, request: ListSplitDifferencesRequest) -> Outcome {
    let answer = client.list_split_differences(request).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.differences.iter().try_for_each(|difference| out.json_line(difference))?,
        Format::Table if answer.differences.is_empty() => out.line("no differences")?,
        Format::Table => out.text(&differences(&answer.differences).take_text(session.colors.stdout))?,
    }
    Ok(out.flush()?)
}

/// Differences, one row each.
fn differences(found: &[SplitDifference]) -> Table {
    let headers = ["found", "by", "series", "slice", "bucket", "event time", "event id", "original", "split"];
    let mut table = Table::new(&headers);
    for difference in found {
        let position = difference.position.clone().unwrap_or_default();
        let side = |row: Option<&anabranch_api::v1::DifferingRow>| {
            row.map_or_else(
                || "-".to_owned(),
                |row| format!("{}={}", escaped(&row.event_item_key), value(&row.value, false)),
            )
        };
        let split = match difference.damage.as_str() {
            "" => side(difference.split.as_ref()),
            damage => escaped(damage),
        };
        table.row(vec![
            show_time(difference.time.as_ref()),
            difference.found_by().as_str_name().to_ascii_lowercase(),
            escaped(&difference.time_series_id),
            escaped(&difference.time_slice),
            format!("{}.{}", difference.time_bucket, difference.event_bucket),
            show_time(position.event_time.as_ref()),
            escaped(&position.event_id),
            side(difference.original.as_ref()),
            split,
        ]);
    }
    table
}
