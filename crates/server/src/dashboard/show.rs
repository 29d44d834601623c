//! Numbers, times, sizes and ids as people read them.

use std::{fmt::Write as _, time::Duration};

use anabranch_api::wkt;
use anabranch_model::Timestamp;
use maud::{Markup, html};

/// Characters of an id in places with little room.
const SHORT_CHARS: usize = 48;

/// `1,234,567`
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 segment`, `3 segments`, never on two lines.
pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{}\u{a0}{what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `1.4 MiB`
pub(super) fn bytes(number: u64) -> String {
    scaled(number as f64)
}

fn scaled(number: f64) -> String {
    let (mut number, mut unit) = (number, 0);
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    while number >= 1023.95 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || number >= 100.0 { 0 } else { 1 };
    format!("{number:.digits$} {}", UNITS[unit])
}

/// Things a second: `0`, `0.4`, `12`, `1,234`.
pub(super) fn rate(number: f64) -> String {
    match number {
        n if n < 0.005 => "0".to_owned(),
        n if n < 0.095 => format!("{n:.2}"),
        n if n < 9.95 => format!("{n:.1}"),
        n => count(n.round() as u64),
    }
}

/// Bytes a second.
pub(super) fn byte_rate(number: f64) -> String {
    if number < 0.5 { "0 B/s".to_owned() } else { format!("{}/s", scaled(number)) }
}

/// A latency: `0.42 ms`, `12 ms`, `1.3 s`; a dash when there is none.
pub(super) fn latency(took: Option<&wkt::Duration>) -> String {
    let Some(took) = took.and_then(|took| Duration::try_from(*took).ok()) else { return "–".to_owned() };
    let millis = took.as_secs_f64() * 1000.0;
    match millis {
        n if n < 1.0 => format!("{n:.2} ms"),
        n if n < 10.0 => format!("{n:.1} ms"),
        n if n < 1000.0 => format!("{n:.0} ms"),
        n => format!("{:.1} s", n / 1000.0),
    }
}

/// A length of time in its two biggest units: `3 d 4 h`, `12 s`.
pub(super) fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let Some(first) = units.iter().position(|(unit, _)| seconds >= *unit) else {
        let millis = duration.as_millis();
        return if duration.is_zero() { "0 s".to_owned() } else { format!("{millis} ms") };
    };
    let (unit, name) = units[first];
    let mut text = format!("{} {name}", seconds / unit);
    if let Some((smaller, name)) = units.get(first + 1) {
        let rest = seconds % unit / smaller;
        if rest > 0 {
            let _ = write!(text, " {rest} {name}");
        }
    }
    text
}

/// A length of time out of a message.
pub(super) fn duration(duration: Option<&wkt::Duration>) -> String {
    duration.and_then(|found| Duration::try_from(*found).ok()).map_or_else(|| "–".to_owned(), length)
}

/// `2026-03-28 10:00:00`, UTC, with as many digits of the second as there are; a dash when there is none.
pub(super) fn time(time: Option<&wkt::Timestamp>) -> String {
    let Some(time) = time else { return "–".to_owned() };
    time.to_string().replacen('T', " ", 1).trim_end_matches('Z').to_owned()
}

/// The same to the second.
pub(super) fn second(found: Option<&wkt::Timestamp>) -> String {
    let text = time(found);
    text.split_once('.').map_or(text.clone(), |(whole, _)| whole.to_owned())
}

/// The day only.
pub(super) fn day(found: Option<&wkt::Timestamp>) -> String {
    time(found).chars().take(10).collect()
}

/// Where something so long begins, on an axis: the day, or the minute where one day holds several.
pub(super) fn tick(start: Option<&wkt::Timestamp>, length: Duration) -> String {
    if length >= Duration::from_secs(86_400) {
        return day(start);
    }
    time(start).chars().skip(5).take(11).collect()
}

/// How long ago, with the moment itself for those who ask.
pub(super) fn ago(then: Option<&wkt::Timestamp>, now: Timestamp) -> Markup {
    let Some(then) = then else { return html! { "never" } };
    let nanos = then.to_nanos().unwrap_or_default();
    let (past, future) = (now.nanos().saturating_sub(nanos), nanos.saturating_sub(now.nanos()));
    let text = match (past, future) {
        (past, _) if past >= 1_000_000_000 => format!("{} ago", length(Duration::from_nanos(past as u64))),
        (_, future) if future >= 1_000_000_000 => format!("in {}", length(Duration::from_nanos(future as u64))),
        _ => "just now".to_owned(),
    };
    html! { time datetime=(then.to_string()) title=(format!("{} UTC", time(Some(then)))) { (text) } }
}

/// Characters that hide, or reorder what stands around them.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text of strangers with nothing hidden in it.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_treacherous(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// An id on one line.
pub(super) fn id(text: &str) -> Markup {
    html! { bdi.id { (one_line(text)) } }
}

/// An id where there is little room; the whole of it for those who ask.
pub(super) fn short_id(text: &str) -> Markup {
    let line = one_line(text);
    if line.chars().count() <= SHORT_CHARS {
        return html! { bdi.id { (line) } };
    }
    let beginning: String = line.chars().take(SHORT_CHARS - 1).collect();
    html! { bdi.id title=(line) { (beginning) "…" } }
}

/// Text of strangers on one line.
pub(super) fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_wrong_by_a_unit() {
        assert_eq!(["0", "999", "1,000", "12,345,678"], [0, 999, 1000, 12_345_678].map(count).each_ref().map(|s| &**s));
        assert_eq!(
            [0, 1023, 1024, 1_048_575, 10 << 20].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "10.0 MiB"]
        );
        assert_eq!([0.0, 0.04, 0.4, 12.4, 1234.0].map(rate), ["0", "0.04", "0.4", "12", "1,234"]);
        assert_eq!(length(Duration::from_secs(90_061)), "1 d 1 h");
        assert_eq!(length(Duration::from_millis(250)), "250 ms");
    }

    #[test]
    fn ticks_of_what_is_shorter_than_a_day_differ_within_one() {
        let start = wkt::Timestamp::from_nanos(1_774_699_200_000_000_000);
        assert_eq!(tick(Some(&start), Duration::from_secs(3600)), "03-28 12:00");
        assert_eq!(tick(Some(&start), Duration::from_secs(86_400)), "2026-03-28");
    }

    #[test]
    fn nothing_hides_in_an_id() {
        assert_eq!(one_line("a\u{202e}b\nc\u{1b}"), "a\\u{202e}b\\nc\\u{1b}");
        let shown = id("<script>&\"").into_string();
        assert_eq!(shown, "<bdi class=\"id\">&lt;script&gt;&amp;&quot;</bdi>");
    }
}
