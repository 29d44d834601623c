//! The sending side: one batch, until it is acknowledged or can't be helped.

use std::collections::BTreeMap;

use anabranch_api::v1::WriteEventRecordsRequest;
use anabranch_client::{Client, ClientError, ErrorKind};

use super::{feed::Batch, source::BadLine};
use crate::{
    failure::{Failure, Outcome},
    session::refusal,
};

/// How often a batch is sent whose outcome isn't known; writing it again is safe (W2).
const ATTEMPTS: u32 = 3;

/// A batch that is stored, but for what was left out.
pub(crate) struct Sent {
    pub(crate) events: u64,
    pub(crate) bad: Vec<BadLine>,
    pub(crate) last_line: u64,
    pub(crate) bytes_read: u64,
}

pub(crate) async fn send(
    client: Client,
    namespace: String,
    mut batch: Batch,
    queued: bool,
    skip_bad: bool,
) -> Outcome<Sent> {
    let mut attempt = 1;
    while !batch.events.is_empty() {
        let request = WriteEventRecordsRequest { namespace: namespace.clone(), events: batch.events.clone() };
        let answer = match queued {
            true => client.write(request).await.map(|_| ()),
            false => client.write_sync(request).await.map(|_| ()),
        };
        match answer {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Timeout && attempt < ATTEMPTS => attempt += 1,
            Err(error) => {
                let refused = by_line(&error, &batch.lines);
                if refused.is_empty() || !skip_bad {
                    return Err(failure(error, refused));
                }
                leave_out(&mut batch, refused);
            }
        }
    }
    let events = batch.events.len() as u64;
    Ok(Sent { events, bad: batch.bad, last_line: batch.last_line, bytes_read: batch.bytes_read })
}

/// What the server says against each line, by its index in the request.
fn by_line(error: &ClientError, lines: &[u64]) -> BTreeMap<usize, BadLine> {
    let mut refused: BTreeMap<usize, BadLine> = BTreeMap::new();
    for violation in error.violations() {
        let Some((index, field)) = event_index(&violation.field) else { continue };
        let Some(line) = lines.get(index) else { continue };
        let reason = format!("{field}: {}", violation.reason);
        refused
            .entry(index)
            .and_modify(|bad| bad.reason = format!("{}; {reason}", bad.reason))
            .or_insert_with(|| BadLine::new(*line, reason.clone()));
    }
    refused
}

/// `events[3].event_time` is the field `event_time` of event 3.
fn event_index(field: &str) -> Option<(usize, &str)> {
    let (index, rest) = field.strip_prefix("events[")?.split_once(']')?;
    Some((index.parse().ok()?, rest.trim_start_matches('.')))
}

fn failure(error: ClientError, refused: BTreeMap<usize, BadLine>) -> Failure {
    if refused.is_empty() {
        return error.into();
    }
    let exit = Failure::from(error).exit;
    let count = refused.len() as u64;
    refusal(exit, refused.into_values().map(|bad| bad.to_string()).collect(), count)
}

fn leave_out(batch: &mut Batch, refused: BTreeMap<usize, BadLine>) {
    let mut index = 0;
    batch.events.retain(|_| {
        index += 1;
        !refused.contains_key(&(index - 1))
    });
    let mut index = 0;
    batch.lines.retain(|_| {
        index += 1;
        !refused.contains_key(&(index - 1))
    });
    batch.bad.extend(refused.into_values());
    batch.bad.sort_by_key(|bad| bad.line);
}
