//! Search over named series: their histories one after the other, each as a read with a question.

use std::time::Duration;

use anabranch_model::{Order, Record, Timestamp};

use crate::{
    EngineError, Partial, PartialReason, Query, ReadRequest,
    engine::Engine,
    read::{Caller, read, request::first_token},
};

/// Series that one search may name.
pub const MAX_SERIES: usize = 1000;

/// What to look for, as it came in.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// Where.
    pub namespace: String,
    /// In whose histories, in this order.
    pub series: Vec<String>,
    /// From when on; `None` from the beginning.
    pub start: Option<Timestamp>,
    /// Until when, not included; `None` to the end.
    pub end: Option<Timestamp>,
    /// Which way each history is read.
    pub order: Order,
    /// What records must fulfil; `None` finds all.
    pub query: Option<Query>,
    /// Most records in the page; 0 means the namespace's default.
    pub page_size: u32,
    /// Most bytes in the page; 0 means the namespace's default.
    pub page_bytes: u64,
    /// From the page before; empty for the first.
    pub page_token: String,
    /// How long the client will wait.
    pub timeout: Option<Duration>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// Series by series, in the order asked for.
    pub records: Vec<(String, Record)>,
    /// How to go on; `None` at the end.
    pub next_page_token: Option<String>,
    /// Why the page is short, if it is: of the history that the token stands in.
    pub partial: Option<Partial>,
    /// Partitions opened.
    pub partitions_read: u32,
    /// Bytes taken from the store.
    pub bytes_read: u64,
}

impl Engine {
    /// Looks through the histories of named series. At the deadline the page holds what was found, and how to go on.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchPage, EngineError> {
        check_series(&request.series)?;
        let config = self.namespace(&request.namespace)?.config_at(self.env.now()).clone();
        let time = request.timeout.map_or(config.read_slo.max, |timeout| timeout.min(config.read_slo.max));
        let deadline = self.env.monotonic() + time;
        let wanted = if request.page_size == 0 { config.page_limits.default_page_size } else { request.page_size };
        let wanted = wanted.min(config.page_limits.max_page_size) as usize;
        let asked = if request.page_bytes == 0 { config.page_limits.default_page_bytes } else { request.page_bytes };
        let mut bytes_left = asked.min(config.page_limits.max_page_bytes);
        let caller = Caller::Search { max_record_bytes: config.page_limits.max_record_bytes };
        let (mut at, mut token) = position(&request.series, &request.page_token)?;
        let begun = (at, token.clone());
        let mut page = SearchPage::default();
        while at < request.series.len() {
            let left = deadline.saturating_sub(self.env.monotonic());
            // A page that moved may end early; one that didn't has to try.
            if left <= time / 10 && (at, token.as_str()) != (begun.0, begun.1.as_str()) {
                page.partial = Some(Partial {
                    reason: PartialReason::Slo,
                    complete_until: match request.order {
                        Order::LatestFirst => request.end.unwrap_or(Timestamp::LATEST),
                        Order::OldestFirst => request.start.unwrap_or(Timestamp::EARLIEST),
                    },
                });
                break;
            }
            let records_left = wanted - page.records.len();
            let part = part(request, at, token.clone(), records_left, bytes_left, left);
            let found = Box::pin(read(self, part, caller)).await?;
            let bytes: u64 = found.records.iter().map(|record| record.bytes() as u64).sum();
            // A record bigger than all that is left waits for the next page (R3).
            if bytes > bytes_left && !page.records.is_empty() {
                break;
            }
            bytes_left = bytes_left.saturating_sub(bytes);
            page.partitions_read += found.partitions_read;
            page.bytes_read += found.bytes_read;
            let series = &request.series[at];
            page.records.extend(found.records.into_iter().map(|record| (series.clone(), record)));
            match found.next_page_token {
                Some(next) => token = next,
                None => (at, token) = (at + 1, String::new()),
            }
            // There is room for one reason: the next history may have another (R2).
            page.partial = found.partial;
            let full = page.records.len() >= wanted || found.bytes_full || bytes_left == 0;
            if full || page.partial.is_some() {
                break;
            }
        }
        if at < request.series.len() {
            page.next_page_token = Some(next_token(self, at, part(request, at, token, 0, 0, Duration::ZERO))?);
        }
        Ok(page)
    }
}

fn part(
    request: &SearchRequest,
    at: usize,
    page_token: String,
    records: usize,
    bytes: u64,
    left: Duration,
) -> ReadRequest {
    ReadRequest {
        namespace: request.namespace.clone(),
        series: request.series[at].clone(),
        start: request.start,
        end: request.end,
        order: request.order,
        query: request.query.clone(),
        page_size: records as u32,
        page_bytes: bytes,
        page_token,
        timeout: Some(left),
        ..ReadRequest::default()
    }
}

/// Nothing is looked through but what is named, and not too much of that.
pub(super) fn check_series(series: &[String]) -> Result<(), EngineError> {
    if series.is_empty() {
        return Err(EngineError::NotThere {
            what: "looking through histories without naming series needs an index, and there is none yet: give time_series_ids"
                .to_owned(),
        });
    }
    if series.len() > MAX_SERIES {
        let reason = format!("{} series; at most {MAX_SERIES} may be named at once", series.len());
        return Err(EngineError::invalid("time_series_ids", reason));
    }
    Ok(())
}

/// Which series the token stands in, and the token within its history. That one is sealed and belongs to that series: a
/// token that was altered is refused when it is opened.
pub(super) fn position(series: &[String], page_token: &str) -> Result<(usize, String), EngineError> {
    if page_token.is_empty() {
        return Ok((0, String::new()));
    }
    let (at, token) = page_token.split_once('.').ok_or(anabranch_model::TokenError::Forged)?;
    let at: usize = at.parse().map_err(|_| anabranch_model::TokenError::Forged)?;
    if token.is_empty() {
        return Err(anabranch_model::TokenError::Forged.into());
    }
    if at >= series.len() {
        return Err(anabranch_model::TokenError::OtherRequest.into());
    }
    Ok((at, token.to_owned()))
}

/// The token with which the next answer goes on. `part` is what is left of the history that it stands in.
pub(super) fn next_token(engine: &Engine, at: usize, part: ReadRequest) -> Result<String, EngineError> {
    let token = if part.page_token.is_empty() { first_token(engine, &part)? } else { part.page_token };
    Ok(format!("{at}.{token}"))
}
