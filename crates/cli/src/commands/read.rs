//! `anabranch read`: follows the pages of one history.

use anabranch_api::v1::{
    EventFilter, EventRecord, Order, ReadEventRecordsRequest, ReadEventRecordsResponse, partial::Reason,
};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::{
    args::ReadArgs,
    failure::Outcome,
    output::{
        Format, Out, note,
        table::Table,
        text::{self, escaped},
    },
    session::Session,
    times::{show_count, show_time, time_interval},
};

/// Records of a table, when nothing else is said.
const TABLE_LIMIT: u64 = 100;

pub(crate) async fn run(session: &Session, args: &ReadArgs) -> Outcome {
    let limit = match session.format {
        _ if args.all => None,
        Format::Table => Some(args.limit.unwrap_or(TABLE_LIMIT)),
        Format::Json | Format::Jsonl => args.limit,
    };
    let client = session.connect().await?;
    let request = request(session, args, limit);
    // All of it comes as one stream, which the server reads ahead; of a few pages nothing should be read that isn't shown.
    let mut pages = if limit.is_none() { client.stream(request) } else { client.pages(request) };
    let mut printer = Printer::new(session, args.full);
    let mut notes = Notes::default();
    while let Some(page) = pages.next().await {
        let mut page = page?;
        notes.take(session, &page);
        if printer.page(&mut page, limit)? {
            printer.has_more = true;
            break;
        }
    }
    printer.finish()
}

fn request(session: &Session, args: &ReadArgs, limit: Option<u64>) -> ReadEventRecordsRequest {
    let filters = args.filter.iter().map(|filter| EventFilter {
        match_event_item_key: filter.key.clone(),
        match_event_item_value: filter.value.clone().map(Bytes::from),
    });
    ReadEventRecordsRequest {
        namespace: args.namespace.clone(),
        time_series_id: args.series.clone(),
        time_interval: time_interval(args.from, args.to, session.now()),
        order: if args.oldest_first { Order::OldestFirst.into() } else { Order::LatestFirst.into() },
        event_filters: filters.collect(),
        page_size: args.page_size.unwrap_or_default(),
        // One more than is shown tells whether there is more.
        total_record_limit: limit.map_or(0, |limit| limit.saturating_add(1)),
        ..ReadEventRecordsRequest::default()
    }
}

/// What is said about short answers, once each (R2).
#[derive(Default)]
struct Notes {
    slow: bool,
    retention: bool,
}

impl Notes {
    fn take(&mut self, session: &Session, page: &ReadEventRecordsResponse) {
        let Some(partial) = &page.partial else { return };
        let until = show_time(partial.complete_until.as_ref());
        match partial.reason() {
            Reason::Retention if !self.retention => {
                self.retention = true;
                let text = format!("some of the history left the retention meanwhile; it is complete up to {until}");
                note(session.colors, &text);
            }
            Reason::Slo if page.next_page_token.is_empty() => {
                note(session.colors, &format!("the server's time ran out; the answer is complete up to {until}"));
            }
            Reason::Slo if !self.slow => {
                self.slow = true;
                note(session.colors, "the server's time ran out for a page; going on with the next one");
            }
            _ => {}
        }
    }
}

struct Printer {
    format: Format,
    colors: bool,
    full: bool,
    table: Table,
    out: Out,
    /// Events so far; parts of one count once.
    records: u64,
    in_parts: bool,
    has_more: bool,
}

impl Printer {
    fn new(session: &Session, full: bool) -> Self {
        Printer {
            format: session.format,
            colors: session.colors.stdout,
            full,
            table: Table::new(&["time", "event id", "items"]),
            out: Out::new(),
            records: 0,
            in_parts: false,
            has_more: false,
        }
    }

    /// Prints a page up to the limit; whether there was more.
    fn page(&mut self, page: &mut ReadEventRecordsResponse, limit: Option<u64>) -> Outcome<bool> {
        let mut more = false;
        for record in page.records.drain(..) {
            if !self.in_parts && limit.is_some_and(|limit| self.records >= limit) {
                more = true;
                break;
            }
            self.record(&record)?;
            self.in_parts = record.continued;
            self.records += u64::from(!record.continued);
        }
        if self.format == Format::Table && !self.table.is_empty() {
            let text = self.table.take_text(self.colors);
            self.out.text(&text)?;
        }
        // A reader of a pipe sees each page as it comes.
        self.out.flush()?;
        Ok(more)
    }

    fn record(&mut self, record: &EventRecord) -> Outcome {
        match self.format {
            Format::Jsonl => self.out.json_line(record)?,
            Format::Json => {
                self.out.text(if self.records == 0 && !self.in_parts { "{\"records\":[\n" } else { ",\n" })?;
                self.out.text(&serde_json::to_string(record).map_err(std::io::Error::from)?)?;
            }
            Format::Table => {
                let mut items = text::items(&record.event_items, self.full);
                if record.continued {
                    items.push_str("  (goes on)");
                }
                self.table.row(vec![show_time(record.event_time.as_ref()), escaped(&record.event_id), items]);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        match self.format {
            Format::Jsonl => {}
            Format::Json if self.records == 0 => self.out.line("{\"records\":[]}")?,
            Format::Json => self.out.line("\n]}")?,
            Format::Table if self.records == 0 => self.out.line("no events")?,
            Format::Table if self.has_more => {
                let shown = show_count(self.records);
                self.out.line(format!("({shown} shown; there is more: --limit N or --all shows it)"))?;
            }
            Format::Table => {}
        }
        Ok(self.out.flush()?)
    }
}
