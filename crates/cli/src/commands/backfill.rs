//! `anabranch backfill`: windows in which old events are accepted.

use std::time::Duration;

use anabranch_api::{
    v1::{Backfill, CloseBackfillRequest, ListBackfillsRequest, OpenBackfillRequest, TimeInterval, backfill::State},
    wkt,
};
use anabranch_client::Client;
use anabranch_model::Interval;

use crate::{
    args::{BackfillCommand, OpenArgs},
    failure::{Exit, Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_time, to_wire},
};

/// How long to wait for a window beyond the moment that the server named.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

pub(crate) async fn run(session: &Session, command: BackfillCommand) -> Outcome {
    let client = session.connect().await?;
    match command {
        BackfillCommand::Open(args) => {
            let mut backfill = open_as_asked(session, &client, &args).await?;
            if !args.no_wait {
                backfill = wait_until_open(session, &client, &args.namespace, &backfill).await?;
            }
            print_one(session, &backfill)
        }
        BackfillCommand::Close { namespace, id } => {
            let backfill = client.close_backfill(CloseBackfillRequest { namespace, id }).await?;
            print_one(session, &backfill)
        }
        BackfillCommand::List { namespace } => {
            let answer = client.list_backfills(ListBackfillsRequest { namespace }).await?;
            let mut out = Out::new();
            match session.format {
                Format::Json => out.json(&answer)?,
                Format::Jsonl => answer.backfills.iter().try_for_each(|backfill| out.json_line(backfill))?,
                Format::Table if answer.backfills.is_empty() => out.line("no backfill windows")?,
                Format::Table => out.text(&table(&answer.backfills, 0).take_text(session.colors.stdout))?,
            }
            Ok(out.flush()?)
        }
    }
}

async fn open_as_asked(session: &Session, client: &Client, args: &OpenArgs) -> Outcome<Backfill> {
    let now = session.now();
    let interval = Interval::new(args.from.resolve(now), args.to.resolve(now));
    open(client, &args.namespace, interval, args.expires, &args.reason).await
}

/// Asks for a window; it isn't open yet when this answers.
pub(crate) async fn open(
    client: &Client,
    namespace: &str,
    interval: Interval,
    expires: Duration,
    reason: &str,
) -> Outcome<Backfill> {
    let expire_after =
        wkt::Duration::try_from(expires).map_err(|error| Failure::usage(format!("--expires: {error}")))?;
    let request = OpenBackfillRequest {
        namespace: namespace.to_owned(),
        interval: Some(TimeInterval { start: Some(to_wire(interval.start)), end: Some(to_wire(interval.end)) }),
        expire_after: Some(expire_after),
        reason: reason.to_owned(),
        ..OpenBackfillRequest::default()
    };
    Ok(client.open_backfill(request).await?)
}

/// Waits until events are accepted.
pub(crate) async fn wait_until_open(
    session: &Session,
    client: &Client,
    namespace: &str,
    backfill: &Backfill,
) -> Outcome<Backfill> {
    // The server's clock, not ours, says when: only the length of the wait can be taken over.
    let nanos = |time: Option<wkt::Timestamp>| time.and_then(|time| time.to_nanos().ok()).unwrap_or_default();
    let notice = nanos(backfill.effective_time).saturating_sub(nanos(backfill.create_time));
    session.env.sleep(Duration::from_nanos(u64::try_from(notice).unwrap_or_default()).min(PATIENCE)).await;
    let begun = session.env.monotonic();
    loop {
        let request = ListBackfillsRequest { namespace: namespace.to_owned() };
        let answer = client.list_backfills(request).await?;
        match answer.backfills.into_iter().find(|found| found.id == backfill.id) {
            Some(found) if found.state() == State::Open => return Ok(found),
            Some(found) if found.state() == State::Opening => {}
            _ => return Err(Failure::other(format!("the backfill window {} was closed meanwhile", backfill.id))),
        }
        if session.env.monotonic().saturating_sub(begun) > PATIENCE {
            let message = format!("the backfill window {} doesn't open", backfill.id);
            return Err(Failure::new(Exit::Unavailable, message));
        }
        session.env.sleep(POLL).await;
    }
}

/// Windows, one row each.
pub(crate) fn table(backfills: &[Backfill], indent: usize) -> Table {
    let mut table = Table::new(&["id", "state", "from", "to", "opened", "expires", "reason"]).indented(indent);
    for backfill in backfills {
        let interval = backfill.interval.unwrap_or_default();
        table.row(vec![
            escaped(&backfill.id),
            backfill.state().as_str_name().to_ascii_lowercase(),
            show_time(interval.start.as_ref()),
            show_time(interval.end.as_ref()),
            show_time(backfill.create_time.as_ref()),
            show_time(backfill.expire_time.as_ref()),
            escaped(&backfill.reason),
        ]);
    }
    table
}

fn print_one(session: &Session, backfill: &Backfill) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(backfill)?,
        Format::Jsonl => out.json_line(backfill)?,
        Format::Table => {
            out.text(&table(std::slice::from_ref(backfill), 0).take_text(session.colors.stdout))?;
        }
    }
    Ok(out.flush()?)
}
