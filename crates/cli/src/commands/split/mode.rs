//! `anabranch split mode`: how far reads trust splits, how that came, and what comes next.

use anabranch_api::v1::{self, GetNamespaceRequest, Namespace, SetReadModeRequest, SplitUse};
use anabranch_client::Client;
use anabranch_model::ReadMode;

use crate::{
    args::ModeArgs,
    failure::Outcome,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_count, show_time, show_wire_duration},
};

pub(crate) async fn run(session: &Session, client: &Client, args: &ModeArgs) -> Outcome {
    let namespace = match args.mode {
        None => client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await?,
        Some(mode) => {
            let request = SetReadModeRequest {
                namespace: args.namespace.clone(),
                read_mode: to_message(mode).into(),
                reason: args.reason.clone(),
                by: args.by.clone().or_else(own_name).unwrap_or_default(),
            };
            client.set_read_mode(request).await?
        }
    };
    let splits = namespace.splits.clone().unwrap_or_default();
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&splits)?,
        Format::Jsonl => out.json_line(&splits)?,
        Format::Table => print(session, &namespace, &splits, &mut out)?,
    }
    Ok(out.flush()?)
}

fn print(session: &Session, namespace: &Namespace, splits: &SplitUse, out: &mut Out) -> Outcome {
    let since = show_time(splits.since.as_ref());
    let mode = splits.read_mode();
    out.line(format!("{} of `{}` since {since} ({})", mode.as_str_name(), escaped(&namespace.name), meaning(mode)))?;
    if let Some(outlook) = outlook(namespace, splits) {
        out.line(outlook)?;
    }
    if !splits.history.is_empty() {
        out.line("\nHistory")?;
        out.text(&history(splits).take_text(session.colors.stdout))?;
    }
    Ok(())
}

/// How near a promotion is.
fn outlook(namespace: &Namespace, splits: &SplitUse) -> Option<String> {
    if splits.read_mode() != v1::ReadMode::Comparison {
        return None;
    }
    let settings = namespace.config.as_ref()?.split.unwrap_or_default();
    let clean = show_count(splits.clean_comparisons.into());
    if !settings.promote.unwrap_or_default() {
        return Some(format!("{clean} comparisons without a difference; split.promote is off, so that it stays there"));
    }
    let needed = show_count(settings.promote_comparisons.unwrap_or_default().into());
    let over = show_wire_duration(settings.promote_over.as_ref());
    let since = splits.clean_since.map(|since| format!(" since {since}")).unwrap_or_default();
    Some(format!("{clean} comparisons without a difference{since}; EXEC follows after {needed} over at least {over}"))
}

/// How the mode changed, latest first.
pub(crate) fn history(splits: &SplitUse) -> Table {
    let mut table = Table::new(&["changed", "from", "to", "by", "reason"]).indented(2);
    for change in &splits.history {
        table.row(vec![
            show_time(change.time.as_ref()),
            change.from().as_str_name().to_owned(),
            change.to().as_str_name().to_owned(),
            escaped(&change.by),
            escaped(&change.reason),
        ]);
    }
    table
}

fn meaning(mode: v1::ReadMode) -> &'static str {
    match mode {
        v1::ReadMode::Off => "originals are served",
        v1::ReadMode::Shadow => "originals are served, splits are read beside them",
        v1::ReadMode::Comparison => "originals are served, splits are compared with them",
        v1::ReadMode::Exec => "splits are served, and compared with originals",
        v1::ReadMode::On => "splits are served",
        v1::ReadMode::Unspecified => "not told by this server",
    }
}

fn to_message(mode: ReadMode) -> v1::ReadMode {
    match mode {
        ReadMode::Off => v1::ReadMode::Off,
        ReadMode::Shadow => v1::ReadMode::Shadow,
        ReadMode::Comparison => v1::ReadMode::Comparison,
        ReadMode::Exec => v1::ReadMode::Exec,
        ReadMode::On => v1::ReadMode::On,
    }
}

/// What the person is called on this machine.
fn own_name() -> Option<String> {
    ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()))
}
