//! `anabranch block`: series that are refused. The list is a setting of the namespace.

use anabranch_api::v1::{BlockSeriesRequest, BlockedSeries, GetNamespaceRequest, UnblockSeriesRequest};
use anabranch_client::Client;

use crate::{
    args::{AddArgs, BlockCommand},
    failure::Outcome,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_time, to_wire},
};

pub(crate) async fn run(session: &Session, command: BlockCommand) -> Outcome {
    let client = session.connect().await?;
    match command {
        BlockCommand::Add(args) => {
            let series = args.series.iter().map(|series| entry(session, &args, series)).collect();
            let request = BlockSeriesRequest { namespace: args.namespace.clone(), series };
            let list = client.block_series(request).await?.block_list;
            print(session, list.iter().filter(|blocked| args.series.contains(&blocked.time_series_id)))
        }
        BlockCommand::Remove { namespace, series } => {
            let request = UnblockSeriesRequest { namespace, time_series_ids: series };
            let left = client.unblock_series(request).await?.block_list;
            print(session, left.iter())
        }
        BlockCommand::List { namespace } => print(session, blocked(&client, &namespace).await?.iter()),
    }
}

/// The list as it will be, with changes on their way.
async fn blocked(client: &Client, namespace: &str) -> Outcome<Vec<BlockedSeries>> {
    let namespace = client.get_namespace(GetNamespaceRequest { name: namespace.to_owned() }).await?;
    Ok(namespace.next_config.or(namespace.config).unwrap_or_default().block_list)
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
