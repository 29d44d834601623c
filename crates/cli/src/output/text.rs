//! Bytes from strangers as text that a terminal can't misunderstand.

use std::fmt::Write;

use anabranch_api::v1::EventItem;

/// Characters of a value that are shown before the rest is counted.
const SHOWN_CHARS: usize = 60;
/// Bytes of a binary value that are shown before the rest is counted.
const SHOWN_BYTES: usize = 16;

/// Characters that move the cursor, hide, or reorder what stands around them.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The same text with everything that could mess up a terminal escaped. Line ends are kept only by [`printable`].
fn escape_into(target: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => target.push_str("\\n"),
            '\t' => target.push_str("\\t"),
            '\r' => target.push_str("\\r"),
            c if is_treacherous(c) => {
                let _ = write!(target, "\\u{{{:x}}}", u32::from(c));
            }
            c => target.push(c),
        }
    }
}

/// One line of harmless text.
pub(crate) fn escaped(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    escape_into(&mut harmless, text);
    harmless
}

/// Harmless text that keeps its lines.
pub(crate) fn printable(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// A value for people: text as text, in quotes where its ends would be unclear; anything else in hexadecimal.
pub(crate) fn value(bytes: &[u8], full: bool) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => quoted(text, if full { usize::MAX } else { SHOWN_CHARS }),
        Err(_) => hexadecimal(bytes, if full { usize::MAX } else { SHOWN_BYTES }),
    }
}

fn quoted(text: &str, limit: usize) -> String {
    let cut = text.char_indices().nth(limit).map(|(index, _)| index);
    let shown = escaped(&text[..cut.unwrap_or(text.len())]);
    let unclear = shown.is_empty() || shown.contains([' ', '"', '\\', '=']) || shown.starts_with("0x");
    let mut result = if unclear { format!("\"{}\"", shown.replace('"', "\\\"")) } else { shown };
    if cut.is_some() {
        let _ = write!(result, "… ({} bytes)", text.len());
    }
    result
}

fn hexadecimal(bytes: &[u8], limit: usize) -> String {
    let mut text = String::from("0x");
    for byte in bytes.iter().take(limit) {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > limit {
        let _ = write!(text, "… ({} bytes)", bytes.len());
    }
    text
}

/// The items of an event in one line: `status=done  title="The Expanse"`.
pub(crate) fn items(items: &[EventItem], full: bool) -> String {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() {
            text.push_str("  ");
        }
        escape_into(&mut text, &item.event_item_key);
        text.push('=');
        text.push_str(&value(&item.event_item_value, full));
        if let Some(metadata) = &item.value_metadata {
            let _ = write!(text, " ({})", value(metadata, full));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_mess_up_the_terminal() {
        assert_eq!(value(b"\x1b[2Jgone", false), "\"\\u{1b}[2Jgone\"");
        assert_eq!(value("a\u{202e}b".as_bytes(), false), "\"a\\u{202e}b\"");
        assert_eq!(value(b"two\nlines", false), "\"two\\nlines\"");
        assert_eq!(printable("a\u{1b}\nb"), "a\\u{1b}\nb");
    }

    #[test]
    fn values_are_shown_as_what_they_are() {
        assert_eq!(value(b"Dark", false), "Dark");
        assert_eq!(value("Häuser".as_bytes(), false), "Häuser");
        assert_eq!(value(b"The Expanse", false), "\"The Expanse\"");
        assert_eq!(value(b"", false), "\"\"");
        assert_eq!(value(b"\xff\x00", false), "0xff00");
        assert_eq!(value(&[0xff; 17], false), format!("0x{}… (17 bytes)", "ff".repeat(16)));
        assert_eq!(value("x".repeat(61).as_bytes(), false), format!("{}… (61 bytes)", "x".repeat(60)));
        assert_eq!(value("x".repeat(61).as_bytes(), true), "x".repeat(61));
    }
}
