//! `anabranch retention`: how long events are kept, with what a change does said beforehand.

use std::time::Duration;

use anabranch_api::{
    v1::{
        GetNamespaceRequest, ListSlicesRequest, MeasuredSlice, NamespaceConfig, UpdateNamespaceRequest, slice::State,
    },
    wkt,
};
use anabranch_model::Timestamp;
use serde::Serialize;

use super::namespace::ask;
use crate::{
    args::RetentionArgs,
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_duration, show_time},
};

/// How long slices are kept after their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    close_after: Option<Duration>,
    delete_after: Option<Duration>,
}

/// What becomes of a slice under some retention, if anything does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    Stays,
    Closes,
    Drops,
}

#[derive(Debug, Serialize)]
struct SliceFate {
    slice: String,
    end: String,
    fate: Fate,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

pub(crate) async fn run(session: &Session, args: &RetentionArgs) -> Outcome {
    let client = session.connect().await?;
    let namespace = client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await?;
    let config = namespace.next_config.or(namespace.config).unwrap_or_default();
    let before = Kept { close_after: length(config.close_after)?, delete_after: length(config.delete_after)? };
    let changes = args.forever || args.close_after.is_some() || args.delete_after.is_some();
    let wanted = if changes { wanted(args, before) } else { before };
    let slices = client.list_slices(ListSlicesRequest { namespace: args.namespace.clone(), latest: 0 }).await?.slices;
    let fates: Vec<SliceFate> = slices.iter().map(|slice| fate(slice, wanted, session.now())).collect();
    let at_once = fates.iter().any(|slice| slice.fate != Fate::Stays);
    print(session, &args.namespace, before, wanted, &fates)?;
    if !changes || args.dry_run {
        return Ok(());
    }
    if at_once && !args.yes {
        let what = format!("This closes or drops slices of `{}` at once.", escaped(&args.namespace));
        ask(&what, &args.namespace)?;
    }
    let mut clear = Vec::new();
    let mut put = |name: &str, value: Option<Duration>| {
        if value.is_none() {
            clear.push(name.to_owned());
        }
        value.map(wkt::Duration::try_from).transpose().map_err(|error| Failure::usage(error.to_string()))
    };
    // Left out, the server closes shortly before it drops.
    let close_after = put("closeAfter", wanted.close_after)?;
    let delete_after = put("deleteAfter", wanted.delete_after)?;
    let config = NamespaceConfig { close_after, delete_after, ..NamespaceConfig::default() };
    let request = UpdateNamespaceRequest { name: args.namespace.clone(), config: Some(config), clear };
    client.update_namespace(request).await?;
    if session.format == Format::Table {
        let mut out = Out::new();
        out.line("\ndone")?;
        out.flush()?;
    }
    Ok(())
}

fn length(value: Option<wkt::Duration>) -> Outcome<Option<Duration>> {
    value.map(Duration::try_from).transpose().map_err(|error| Failure::other(error.to_string()))
}

fn wanted(args: &RetentionArgs, before: Kept) -> Kept {
    if args.forever {
        return Kept { close_after: None, delete_after: None };
    }
    match (args.close_after, args.delete_after) {
        (None, Some(_)) => Kept { close_after: None, delete_after: args.delete_after },
        (close_after, delete_after) => Kept { close_after, delete_after: delete_after.or(before.delete_after) },
    }
}

fn fate(measured: &MeasuredSlice, kept: Kept, now: Timestamp) -> SliceFate {
    let slice = measured.slice.clone().unwrap_or_default();
    let end = slice.end.and_then(|end| end.to_nanos().ok()).map_or(Timestamp::LATEST, Timestamp::from_nanos);
    let past = |after: Option<Duration>| after.is_some_and(|after| end.saturating_add(after) <= now);
    let fate = if past(kept.delete_after) || slice.state() == State::Dropping {
        Fate::Drops
    } else if past(kept.close_after) && slice.state() == State::Open {
        Fate::Closes
    } else {
        Fate::Stays
    };
    let bytes = measured.measurement.as_ref().map(|found| found.bytes);
    SliceFate { slice: slice.name, end: show_time(slice.end.as_ref()), fate, bytes }
}

fn print(session: &Session, namespace: &str, before: Kept, wanted: Kept, fates: &[SliceFate]) -> Outcome {
    let mut out = Out::new();
    if session.format != Format::Table {
        let never = |after: Option<Duration>| after.map(show_duration);
        let plan = serde_json::json!({
            "namespace": namespace,
            "deleteAfter": never(wanted.delete_after),
            "closeAfter": never(wanted.close_after),
            "slices": fates,
        });
        out.json(&plan)?;
        return Ok(out.flush()?);
    }
    let keeps = |kept: Kept| kept.delete_after.map_or_else(|| "for ever".to_owned(), show_duration);
    if before == wanted {
        out.line(format!("`{}` keeps slices {} after their end", escaped(namespace), keeps(wanted)))?;
    } else {
        let (now, then) = (keeps(before), keeps(wanted));
        out.line(format!("`{}` keeps slices after their end: now {now}, then {then}", escaped(namespace)))?;
    }
    let mut table = Table::new(&["slice", "ended", "at once", "bytes"]).indented(2).align_right(&[3]);
    for slice in fates.iter().filter(|slice| slice.fate != Fate::Stays) {
        let what = if slice.fate == Fate::Drops { "dropped, with all its events" } else { "closed: not read any more" };
        let bytes = slice.bytes.map_or_else(|| "-".to_owned(), show_bytes);
        table.row(vec![escaped(&slice.slice), slice.end.clone(), what.to_owned(), bytes]);
    }
    let going = fates.iter().filter(|slice| slice.fate != Fate::Stays).count();
    out.line(format!("{going} of {} slices go at once", fates.len()))?;
    if going > 0 {
        out.text(&table.take_text(session.colors.stdout))?;
    }
    Ok(out.flush()?)
}
