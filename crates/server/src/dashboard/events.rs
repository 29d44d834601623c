//! Events of a series, a page at a time, and their bytes as text, JSON or hexadecimal.

use std::fmt::Write as _;

use anabranch_api::v1::{self, EventItem, EventRecord, Order};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    layout,
    place::{Form, SeriesView},
    show,
};
use crate::operations::{Answer, Operations};

const PAGE_SIZE: u32 = 25;
/// Bytes of a page: a page for people needn't be bigger.
const PAGE_BYTES: u64 = 256 << 10;
/// Bytes of a value that are shown as text, and in hexadecimal.
const SHOWN_BYTES: usize = 2048;
const SHOWN_HEX: usize = 256;
/// Bytes in a line of hexadecimal: as many as a phone has room for.
const LINE: usize = 8;
/// Pages that one can go back.
const TRAIL: usize = 12;

/// A page of events, with the ways to the next and the one before.
pub(super) async fn section(operations: &Operations, view: &SeriesView) -> Answer<Markup> {
    let order = if view.oldest_first { Order::OldestFirst } else { Order::LatestFirst };
    let request = v1::ReadEventRecordsRequest {
        namespace: view.namespace.clone(),
        time_series_id: view.series.clone(),
        order: order.into(),
        page_size: PAGE_SIZE,
        page_bytes: PAGE_BYTES,
        page_token: view.token.clone(),
        ..Default::default()
    };
    let page = operations.read(request, None).await?.into_message();
    let cost = page.response_context.first().cloned().unwrap_or_default();
    Ok(html! {
        section aria-labelledby="events" {
            h2 #events { "Events" }
            (choices(view))
            @if page.records.is_empty() { p.empty { "There are no events here." } }
            ol.events { @for record in &page.records { (event(record, view.form)) } }
            @if let Some(partial) = &page.partial {
                p.notice {
                    "The page is short (" (partial.reason().as_str_name()) "): it is complete up to "
                    (show::time(partial.complete_until.as_ref())) "."
                }
            }
            (pager(view, &page.next_page_token))
            p.more {
                "This page took " (show::latency(cost.time_taken.as_ref())) ", " (show::counted(cost.partitions_read.into(), "partition")) " and "
                (show::bytes(cost.bytes_read)) " read from the store."
            }
        }
    })
}

/// The address of a page of events, at the events.
fn here(view: &SeriesView) -> String {
    format!("{}#events", view.href())
}

/// Which end first, and how bytes are shown.
fn choices(view: &SeriesView) -> Markup {
    let first = SeriesView { token: String::new(), trail: Vec::new(), ..view.clone() };
    html! {
        div.choices {
            span.group role="group" aria-label="Order" {
                @for (oldest_first, name) in [(false, "Latest first"), (true, "Oldest first")] {
                    @let place = here(&SeriesView { oldest_first, ..first.clone() });
                    (layout::choice(&place, name, view.oldest_first == oldest_first))
                }
            }
            span.group role="group" aria-label="Show bytes as" {
                @for form in Form::ALL {
                    (layout::choice(&here(&SeriesView { form, ..view.clone() }), form.name(), view.form == form))
                }
            }
        }
    }
}

fn pager(view: &SeriesView, next: &str) -> Markup {
    let (on, back) = if view.oldest_first { ("Newer →", "← Older") } else { ("Older →", "← Newer") };
    let mut trail = view.trail.clone();
    let before = trail.pop();
    // The first page has no token.
    let before = before.map(|token| SeriesView {
        token: if token == FIRST { String::new() } else { token },
        trail,
        ..view.clone()
    });
    let mut trail = view.trail.clone();
    trail.push(if view.token.is_empty() { FIRST.to_owned() } else { view.token.clone() });
    let surplus = trail.len().saturating_sub(TRAIL);
    trail.drain(..surplus);
    let after = (!next.is_empty()).then(|| SeriesView { token: next.to_owned(), trail, ..view.clone() });
    html! {
        nav.pager aria-label="Pages of events" {
            @for (view, rel, name) in [(before, "prev", back), (after, "next", on)] {
                @match view {
                    Some(view) => { a rel=(rel) href=(here(&view)) { (name) } }
                    None => { span aria-hidden="true" { (name) } }
                }
            }
        }
    }
}

/// Stands for the page without a token.
const FIRST: &str = "first";

fn event(record: &EventRecord, form: Form) -> Markup {
    html! {
        li.event {
            header {
                time datetime=(record.event_time.map(|time| time.to_string()).unwrap_or_default()) { (show::time(record.event_time.as_ref())) }
                " " (show::short_id(&record.event_id))
                @if record.continued { " " span.more { "(goes on below)" } }
            }
            dl.items { @for item in &record.event_items { (event_item(item, form)) } }
        }
    }
}

fn event_item(item: &EventItem, form: Form) -> Markup {
    html! {
        div {
            dt { (show::short_id(&item.event_item_key)) span.more { " " (show::bytes(item.event_item_value.len() as u64)) } }
            dd { (value(&item.event_item_value, form)) }
            @if let Some(metadata) = &item.value_metadata { dd.more { "metadata: " (value(metadata, Form::Auto)) } }
        }
    }
}

/// Bytes in a form, as far as they have it.
fn value(bytes: &[u8], form: Form) -> Markup {
    let parsed = if matches!(form, Form::Auto | Form::Json) { json(bytes) } else { None };
    match (form, parsed) {
        _ if bytes.is_empty() => html! { span.more { "empty" } },
        (_, Some(text)) => html! { pre.json { (text) } },
        (Form::Json, None) => html! { span.more { "not JSON" } },
        (Form::Hex, None) => in_hex(bytes),
        (Form::Auto, None) if std::str::from_utf8(bytes).is_err() => in_hex(bytes),
        (Form::Auto | Form::Text, None) => {
            let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
            html! { pre.text { (show::plain(&String::from_utf8_lossy(shown))) } (rest(bytes.len() - shown.len())) }
        }
    }
}

fn in_hex(bytes: &[u8]) -> Markup {
    let shown = &bytes[..bytes.len().min(SHOWN_HEX)];
    html! { pre.hex { (hexadecimal(shown)) } (rest(bytes.len() - shown.len())) }
}

/// How much isn't shown.
fn rest(bytes: usize) -> Markup {
    html! { @if bytes > 0 { span.more { "… and " (show::bytes(bytes as u64)) " more" } } }
}

/// Indented, if it is an object or a list that isn't too long.
fn json(bytes: &[u8]) -> Option<String> {
    let parsed: Value = (bytes.len() <= SHOWN_BYTES * 8).then(|| serde_json::from_slice(bytes).ok()).flatten()?;
    let whole = parsed.is_object() || parsed.is_array();
    whole.then(|| serde_json::to_string_pretty(&parsed).map(|text| show::plain(&text)).ok()).flatten()
}

/// A few bytes a line: where, in hexadecimal, and as characters.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(LINE).enumerate() {
        let pairs: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let characters: String = chunk.iter().map(|byte| character(*byte)).collect();
        let _ = writeln!(text, "{:04x}  {:23}  {characters}", line * LINE, pairs.join(" "));
    }
    text.truncate(text.trim_end().len());
    text
}

fn character(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { byte.into() } else { '·' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_what_they_are() {
        let shown = |bytes: &[u8], form| value(bytes, form).into_string();
        assert!(shown(br#"{"a":[1]}"#, Form::Auto).starts_with("<pre class=\"json\">{\n  &quot;a&quot;"));
        assert_eq!(shown(b"<b>hello</b>", Form::Auto), "<pre class=\"text\">&lt;b&gt;hello&lt;/b&gt;</pre>");
        assert!(shown(&[0xff, b'A', 0], Form::Auto).contains("0000  ff 41 00"));
        assert_eq!(shown(b"no", Form::Json), "<span class=\"more\">not JSON</span>");
        assert_eq!(shown(b"", Form::Hex), "<span class=\"more\">empty</span>");
        assert!(shown(&[b'x'; 5000], Form::Text).contains("2.9 KiB more"));
    }
}
