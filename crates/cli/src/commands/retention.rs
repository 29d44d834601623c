//! `anabranch retention`: how long events are kept, with what a change does said beforehand.

use std::time::Duration;

use anabranch_api::{
    v1::{GetNamespaceRequest, Namespace, NamespaceConfig, SliceFate, UpdateNamespaceRequest, slice_fate::Fate},
    wkt,
};
use serde_json::json;

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

pub(crate) async fn run(session: &Session, args: &RetentionArgs) -> Outcome {
    let client = session.connect().await?;
    let before = kept(&client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await?)?;
    let changes = args.forever || args.close_after.is_some() || args.delete_after.is_some();
    let request = change(args, if changes { wanted(args, before) } else { before }, changes)?;
    let preview = client.update_namespace(UpdateNamespaceRequest { dry_run: true, ..request.clone() }).await?;
    print(session, before, kept(&preview)?, &preview)?;
    if !changes || args.dry_run {
        return Ok(());
    }
    if !preview.slice_fates.is_empty() && !args.yes {
        let what = format!("This closes or drops slices of `{}` at once.", escaped(&args.namespace));
        ask(&what, &args.namespace)?;
    }
    client.update_namespace(request).await?;
    if session.format == Format::Table {
        let mut out = Out::new();
        out.line("\ndone")?;
        out.flush()?;
    }
    Ok(())
}

/// What a namespace keeps, with changes on their way.
fn kept(namespace: &Namespace) -> Outcome<Kept> {
    let config = namespace.next_config.as_ref().or(namespace.config.as_ref()).cloned().unwrap_or_default();
    let length = |value: Option<wkt::Duration>| {
        value.map(Duration::try_from).transpose().map_err(|error| Failure::other(error.to_string()))
    };
    Ok(Kept { close_after: length(config.close_after)?, delete_after: length(config.delete_after)? })
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

/// The request that makes it so; without changes, one that changes nothing.
fn change(args: &RetentionArgs, wanted: Kept, changes: bool) -> Outcome<UpdateNamespaceRequest> {
    let mut request = UpdateNamespaceRequest { name: args.namespace.clone(), ..Default::default() };
    if !changes {
        return Ok(request);
    }
    let mut put = |name: &str, value: Option<Duration>| {
        if value.is_none() {
            request.clear.push(name.to_owned());
        }
        value.map(wkt::Duration::try_from).transpose().map_err(|error| Failure::usage(error.to_string()))
    };
    // Left out, the server closes shortly before it drops.
    let close_after = put("closeAfter", wanted.close_after)?;
    let delete_after = put("deleteAfter", wanted.delete_after)?;
    request.config = Some(NamespaceConfig { close_after, delete_after, ..NamespaceConfig::default() });
    Ok(request)
}

fn print(session: &Session, before: Kept, then: Kept, preview: &Namespace) -> Outcome {
    let mut out = Out::new();
    if session.format != Format::Table {
        out.json(&json!({
            "namespace": preview.name,
            "deleteAfter": then.delete_after.map(show_duration),
            "closeAfter": then.close_after.map(show_duration),
            "sliceFates": preview.slice_fates,
        }))?;
        return Ok(out.flush()?);
    }
    let (name, fates) = (escaped(&preview.name), &preview.slice_fates);
    let keeps = |kept: Kept| kept.delete_after.map_or_else(|| "for ever".to_owned(), show_duration);
    if before == then {
        out.line(format!("`{name}` keeps slices {} after their end", keeps(then)))?;
    } else {
        out.line(format!("`{name}` keeps slices after their end: now {}, then {}", keeps(before), keeps(then)))?;
    }
    out.line(format!("{} of {} slices go at once", fates.len(), preview.slices.len()))?;
    if !fates.is_empty() {
        out.text(&table(fates).take_text(session.colors.stdout))?;
    }
    Ok(out.flush()?)
}

fn table(fates: &[SliceFate]) -> Table {
    let mut table = Table::new(&["slice", "ended", "at once", "bytes"]).indented(2).align_right(&[3]);
    for slice in fates {
        let what = match slice.fate() {
            Fate::Drops => "dropped, with all its events",
            Fate::Closes | Fate::Unspecified => "closed: not read any more",
        };
        let bytes = slice.bytes.map_or_else(|| "-".to_owned(), show_bytes);
        table.row(vec![escaped(&slice.time_slice), show_time(slice.end.as_ref()), what.to_owned(), bytes]);
    }
    table
}
