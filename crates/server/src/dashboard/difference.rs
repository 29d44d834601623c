//! What comparisons of a split with its original found: both sides next to each other, with the bytes that differ marked.

use anabranch_api::v1::{DifferingRow, SplitDifference, split_difference::FoundBy};
use maud::{Markup, html};

use super::{place::SplitName, show};

const LINE: usize = 8;
/// Bytes of each side that are shown.
const SHOWN: usize = 128;

pub(super) fn section(all: &[SplitDifference], name: &SplitName) -> Markup {
    let of_this =
        |found: &&SplitDifference| found.time_bucket == name.time_bucket && found.event_bucket == name.event_bucket;
    let found: Vec<&SplitDifference> = all.iter().filter(of_this).collect();
    html! {
        section aria-labelledby="differences" {
            h2 #differences { "Comparisons" }
            @if found.is_empty() {
                p.fine { "No difference between this split and its original was ever confirmed." }
            } @else {
                p { "Confirmed differences, the latest first. Bytes that differ are marked." }
                @for difference in found { (one(difference)) }
            }
        }
    }
}

fn one(found: &SplitDifference) -> Markup {
    let position = found.position.clone().unwrap_or_default();
    let by = match found.found_by() {
        FoundBy::Comparison => "a comparison beside a read",
        FoundBy::Recheck | FoundBy::Unspecified => "a check of the whole segment",
    };
    html! {
        article.difference {
            h3 { "At " (show::time(position.event_time.as_ref())) ", event " (show::short_id(&position.event_id)) }
            p.more { "Found by " (by) ", " (show::second(found.time.as_ref())) "." }
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
    use super::*;

    #[test]
    fn only_bytes_that_differ_are_marked() {
        let drawn = dump(b"abc", b"axc").into_string();
        assert_eq!(drawn.matches("<mark>").count(), 1);
        assert!(drawn.contains("61 <mark>62</mark> 63"), "{drawn}");
        assert_eq!(dump(b"abc", b"").into_string().matches("<mark>").count(), 3);
    }
}
