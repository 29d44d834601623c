//! What comparisons of a split with its original found: both sides next to each other, with the bytes that differ marked.

use anabranch_api::v1::{DifferingRow, Split, SplitDifference, SplitSegment, split_difference::FoundBy};
use maud::{Markup, html};

use super::show;

const LINE: usize = 8;
/// Bytes of each side that are shown.
const SHOWN: usize = 128;

pub(super) fn section(all: &[SplitDifference], split: &Split) -> Markup {
    let of_this =
        |found: &&SplitDifference| found.time_bucket == split.time_bucket && found.event_bucket == split.event_bucket;
    let found: Vec<&SplitDifference> = all.iter().filter(of_this).collect();
    html! {
        section aria-labelledby="differences" {
            h2 #differences { "Comparisons" }
            @if found.is_empty() && split.segments.is_empty() {
                p.more { "There are no pieces to compare." }
            } @else if found.is_empty() {
                p.fine { "No difference between this split and its original was ever confirmed." }
            } @else {
                p { "Confirmed differences, the latest first. Bytes that differ are marked." }
                @for difference in found { (one(difference, &split.segments)) }
            }
        }
    }
}

/// Whether what it was found in was replaced.
fn is_mended(found: &SplitDifference, segments: &[SplitSegment]) -> bool {
    let at = found.position.as_ref().and_then(|position| position.event_time);
    let holds = |segment: &&SplitSegment| {
        let interval = segment.interval.unwrap_or_default();
        interval.start <= at && at < interval.end
    };
    segments.iter().find(holds).is_some_and(|segment| found.time < segment.complete_time)
}

fn one(found: &SplitDifference, segments: &[SplitSegment]) -> Markup {
    let position = found.position.clone().unwrap_or_default();
    let by = match found.found_by() {
        FoundBy::Comparison => "a comparison beside a read",
        FoundBy::Recheck | FoundBy::Unspecified => "a check of the whole segment",
    };
    html! {
        article.difference {
            h3 { "At " (show::time(position.event_time.as_ref())) ", event " (show::short_id(&position.event_id)) }
            p.more {
                "Found by " (by) ", " (show::second(found.time.as_ref())) "."
                @if is_mended(found, segments) { " Found in pieces that have since been made anew." }
            }
            @if !found.damage.is_empty() { p.reason { "The piece can't be read: " (show::one_line(&found.damage)) } }
            div.sides {
                (side("Original", found.original.as_ref(), found.split.as_ref()))
                (side("Split", found.split.as_ref(), found.original.as_ref()))
            }
        }
    }
}

fn side(title: &str, row: Option<&DifferingRow>, other: Option<&DifferingRow>) -> Markup {
    html! {
        div.side {
            h4 { (title) }
            @match row {
                None => { p.more { "holds nothing there" } }
                Some(row) => {
                    p { "Item " (show::short_id(&row.event_item_key)) ", " (show::bytes(row.value_bytes)) }
                    (dump(&row.value, other.map(|other| other.value.as_ref()).unwrap_or_default()))
                    @if let Some(metadata) = &row.value_metadata {
                        p.more { "metadata" }
                        (dump(metadata, other.and_then(|other| other.value_metadata.as_deref()).unwrap_or_default()))
                    }
                }
            }
        }
    }
}

/// Bytes in hexadecimal and as characters; those that the other side hasn't are marked.
fn dump(bytes: &[u8], other: &[u8]) -> Markup {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    html! {
        pre.hex {
            @for (line, chunk) in shown.chunks(LINE).enumerate() {
                span.offset { (format!("{:04x}", line * LINE)) } "  "
                @for (at, byte) in chunk.iter().enumerate() {
                    @let differs = other.get(line * LINE + at) != Some(byte);
                    @if differs { mark { (format!("{byte:02x}")) } } @else { (format!("{byte:02x}")) }
                    " "
                }
                (" ".repeat((LINE - chunk.len()) * 3 + 1))
                @for byte in chunk { (if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '·' }) }
                "\n"
            }
        }
        @if bytes.len() > SHOWN { p.more { "… the beginning of it" } }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_api::{v1, wkt};

    use super::*;

    #[test]
    fn only_bytes_that_differ_are_marked() {
        let drawn = dump(b"abc", b"axc").into_string();
        assert_eq!(drawn.matches("<mark>").count(), 1);
        assert!(drawn.contains("61 <mark>62</mark> 63"), "{drawn}");
        assert_eq!(dump(b"abc", b"").into_string().matches("<mark>").count(), 3);
    }

    fn at(seconds: i64) -> Option<wkt::Timestamp> {
        Some(wkt::Timestamp::from_nanos(seconds * 1_000_000_000))
    }

    #[test]
    fn only_a_split_with_pieces_is_said_to_be_without_a_difference() {
        let mut split = Split::default();
        let none = section(&[], &split).into_string();
        assert!(none.contains("There are no pieces to compare.") && !none.contains("fine"), "{none}");
        split.segments.push(SplitSegment::default());
        assert!(section(&[], &split).into_string().contains("No difference"));
    }

    #[test]
    fn a_difference_in_pieces_that_were_replaced_says_so() {
        let position = v1::EventPosition { event_time: at(150), ..Default::default() };
        let found = SplitDifference { position: Some(position), time: at(1000), ..Default::default() };
        let segment = |start, complete| SplitSegment {
            interval: Some(v1::TimeInterval { start: at(start), end: at(start + 100) }),
            complete_time: at(complete),
            ..Default::default()
        };
        let shown = |segments: Vec<SplitSegment>| {
            let split = Split { segments, ..Default::default() };
            section(std::slice::from_ref(&found), &split).into_string().contains("made anew")
        };
        assert!(shown(vec![segment(100, 1001), segment(200, 900)]));
        assert!(!shown(vec![segment(100, 900)]), "found after they were made");
        assert!(!shown(vec![segment(200, 1001)]), "found in another segment");
        assert!(!shown(Vec::new()));
    }
}
