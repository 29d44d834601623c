//! `anabranch block`: series that are refused. The list is a setting of the namespace.

use anabranch_api::v1::{BlockedSeries, GetNamespaceRequest, Namespace, NamespaceConfig, UpdateNamespaceRequest};
use anabranch_client::Client;

use crate::{
    args::{AddArgs, BlockCommand},
    failure::{Exit, Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_time, to_wire},
};

pub(crate) async fn run(session: &Session, command: BlockCommand) -> Outcome {
    let client = session.connect().await?;
    match command {
        BlockCommand::Add(args) => {
            let mut list = blocked(&client, &args.namespace).await?;
            list.retain(|blocked| !args.series.contains(&blocked.time_series_id));
            list.extend(args.series.iter().map(|series| entry(session, &args, series)));
            let list = replace(&client, args.namespace, list).await?;
            print(session, list.iter().filter(|blocked| args.series.contains(&blocked.time_series_id)))
        }
        BlockCommand::Remove { namespace, series } => {
            let before = blocked(&client, &namespace).await?;
            if let Some(other) = series.iter().find(|series| !before.iter().any(|it| it.time_series_id == **series)) {
                let message = format!("`{}` isn't blocked; nothing was changed", escaped(other));
                return Err(Failure::new(Exit::NotFound, message).hint("see `anabranch block list`"));
            }
            let left = before.into_iter().filter(|blocked| !series.contains(&blocked.time_series_id)).collect();
            let left = replace(&client, namespace, left).await?;
            print(session, left.iter())
        }
        BlockCommand::List { namespace } => print(session, blocked(&client, &namespace).await?.iter()),
    }
}

/// The list as it will be, with changes on their way.
fn latest(namespace: Namespace) -> Vec<BlockedSeries> {
    namespace.next_config.or(namespace.config).unwrap_or_default().block_list
}

async fn blocked(client: &Client, namespace: &str) -> Outcome<Vec<BlockedSeries>> {
    Ok(latest(client.get_namespace(GetNamespaceRequest { name: namespace.to_owned() }).await?))
}

fn entry(session: &Session, args: &AddArgs, series: &str) -> BlockedSeries {
    BlockedSeries {
        time_series_id: series.to_owned(),
        reads: !args.writes,
        writes: !args.reads,
        reason: args.reason.clone(),
        since: None,
        expires: args.length.map(|length| to_wire(session.now().saturating_add(length))),
    }
}

async fn replace(client: &Client, name: String, block_list: Vec<BlockedSeries>) -> Outcome<Vec<BlockedSeries>> {
    let clear = if block_list.is_empty() { vec!["blockList".to_owned()] } else { Vec::new() };
    let config = NamespaceConfig { block_list, ..NamespaceConfig::default() };
    let request = UpdateNamespaceRequest { name, config: Some(config), clear };
    Ok(latest(client.update_namespace(request).await?))
}

fn print<'a>(session: &Session, list: impl Iterator<Item = &'a BlockedSeries>) -> Outcome {
    let list: Vec<BlockedSeries> = list.cloned().collect();
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&list)?,
        Format::Jsonl => list.iter().try_for_each(|blocked| out.json_line(blocked))?,
        Format::Table if list.is_empty() => out.line("no series is blocked")?,
        Format::Table => out.text(&table(&list).take_text(session.colors.stdout))?,
    }
    Ok(out.flush()?)
}

/// Blocked series, one row each.
pub(super) fn table(list: &[BlockedSeries]) -> Table {
    let mut table = Table::new(&["series", "refused", "since", "expires", "reason"]);
    for blocked in list {
        let refused = match (blocked.reads, blocked.writes) {
            (true, true) => "reads, writes",
            (true, false) => "reads",
            (false, _) => "writes",
        };
        table.row(vec![
            escaped(&blocked.time_series_id),
            refused.to_owned(),
            show_time(blocked.since.as_ref()),
            show_time(blocked.expires.as_ref()),
            escaped(&blocked.reason),
        ]);
    }
    table
}
