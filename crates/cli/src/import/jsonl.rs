//! JSON lines: events as in the API, events with plain items, or flat objects whose fields are mapped.

use std::{
    fmt,
    io::{BufRead, BufReader, Read},
};

use anabranch_api::{json, v1::Event};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{mapping::Mapping, row::RowRules};
use crate::ingest::source::{BadLine, EventSource, Line, content_id};

/// The longest line: far more than any server takes in a request.
const MOST_LINE_BYTES: u64 = 512 << 20;

/// A parser of one line.
pub(crate) type ParseLine = Box<dyn Fn(&[u8]) -> Result<Event, String> + Send>;

/// JSON lines that are being read.
pub(crate) struct JsonLines<R> {
    reader: BufReader<R>,
    parse: ParseLine,
    from_line: u64,
    line: u64,
    bytes_read: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: Read> JsonLines<R> {
    pub(crate) fn new(reader: R, parse: ParseLine, from_line: u64) -> Self {
        let reader = BufReader::with_capacity(256 * 1024, reader);
        JsonLines { reader, parse, from_line, line: 0, bytes_read: 0, buffer: Vec::new(), ended: false }
    }

    /// Reads a line; `None` at the end.
    fn read(&mut self) -> Option<Result<(), BadLine>> {
        self.buffer.clear();
        self.line += 1;
        match (&mut self.reader).take(MOST_LINE_BYTES).read_until(b'\n', &mut self.buffer) {
            Ok(0) => None,
            Ok(bytes) if bytes as u64 == MOST_LINE_BYTES && !self.buffer.ends_with(b"\n") => {
                self.ended = true;
                Some(Err(BadLine::unreadable(self.line, &"it is longer than 512 MiB")))
            }
            Ok(bytes) => {
                self.bytes_read += bytes as u64;
                Some(Ok(()))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(BadLine::unreadable(self.line, &error)))
            }
        }
    }
}

impl<R: Read + Send> EventSource for JsonLines<R> {
    fn next_event(&mut self) -> Option<Result<Line, BadLine>> {
        while !self.ended {
            if let Err(bad) = self.read()? {
                return Some(Err(bad));
            }
            let text = if self.line == 1 { self.buffer.trim_prefix_bom() } else { &self.buffer };
            let text = text.trim_ascii();
            if self.line >= self.from_line && !text.is_empty() {
                let line = self.line;
                return Some(match (self.parse)(text) {
                    Ok(event) => Ok(Line { line, event }),
                    Err(reason) => Err(BadLine::new(line, reason)),
                });
            }
        }
        None
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn would_wait(&self) -> bool {
        !self.reader.buffer().contains(&b'\n')
    }
}

trait TrimBom {
    fn trim_prefix_bom(&self) -> &[u8];
}

impl TrimBom for Vec<u8> {
    /// Some editors put a mark before the first line.
    fn trim_prefix_bom(&self) -> &[u8] {
        self.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self)
    }
}

/// The fields of an object in their order, with the very text of their values.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if fields.iter().any(|(found, _)| *found == name) {
                        return Err(serde::de::Error::custom(format!("the field `{name}` stands twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

fn fields(text: &[u8]) -> Result<Fields<'_>, String> {
    serde_json::from_slice(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// A value as the bytes that are stored: strings without their quotes, everything else as it stands; `None` for null.
fn value_bytes(value: &RawValue) -> Result<Option<Vec<u8>>, String> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            Ok(Some(text.into_bytes()))
        }
        Some(b'n') => Ok(None),
        _ => Ok(Some(text.as_bytes().to_vec())),
    }
}

/// An event as in the API, or with `items` as a plain object. Without an id it gets one made of its content.
pub(crate) fn parse_event(text: &[u8]) -> Result<Event, String> {
    let fields = fields(text)?;
    let mut event = match fields.0.iter().find(|(name, _)| name == "items") {
        Some((_, items)) => plain_event(&fields, items)?,
        None => {
            if !fields.0.iter().any(|(name, _)| matches!(name.as_str(), "eventItems" | "event_items")) {
                return Err("an event needs `eventItems`, or `items` with plain values".to_owned());
            }
            json::from_slice::<Event>(text).map_err(|error| error.to_string())?
        }
    };
    if event.event_time.is_none() {
        return Err("eventTime: is missing".to_owned());
    }
    if event.event_id.is_empty() {
        event.event_id = content_id(&event);
    }
    Ok(event)
}

fn plain_event(fields: &Fields<'_>, items: &RawValue) -> Result<Event, String> {
    let mut event = Event::default();
    for (name, value) in &fields.0 {
        // Null is the same as an absent field, as in the API's own form.
        let string =
            || serde_json::from_str::<Option<String>>(value.get()).map_err(|_| format!("{name}: must be a string"));
        match name.as_str() {
            "timeSeriesId" | "time_series_id" => event.time_series_id = string()?.unwrap_or_default(),
            "eventId" | "event_id" => event.event_id = string()?.unwrap_or_default(),
            "eventTime" | "event_time" => {
                let time = string()?.map(|text| text.parse().map_err(|error| format!("{name}: {error}")));
                event.event_time = time.transpose()?;
            }
            "items" => {}
            "eventItems" | "event_items" => return Err(format!("{name}: stands beside `items`; give one of them")),
            _ => return Err(format!("{name}: there is no such field in an event")),
        }
    }
    let items: Fields<'_> =
        serde_json::from_str(items.get()).map_err(|_| "items: must be an object of keys and values".to_owned())?;
    for (key, value) in items.0 {
        if let Some(bytes) = value_bytes(value).map_err(|reason| format!("items.{key}: {reason}"))? {
            let item = anabranch_api::v1::EventItem {
                event_item_key: key,
                event_item_value: bytes.into(),
                value_metadata: None,
            };
            event.event_items.push(item);
        }
    }
    Ok(event)
}

/// A parser for imports: events as they are, anything else by the mapping.
pub(crate) fn import_parser(mapping: Mapping, rules: RowRules) -> ParseLine {
    let mapping = Mapping { lenient: true, ..mapping };
    Box::new(move |text| {
        let fields = fields(text)?;
        let is_event = |name: &str| matches!(name, "eventItems" | "event_items" | "items");
        if mapping.entries.is_empty() && fields.0.iter().any(|(name, _)| is_event(name)) {
            let mut event = parse_event(text)?;
            if !rules.series_prefix.is_empty() {
                event.time_series_id = format!("{}{}", rules.series_prefix, event.time_series_id);
            }
            return Ok(event);
        }
        let names: Vec<&str> = fields.0.iter().map(|(name, _)| name.as_str()).collect();
        let columns = mapping.resolve(&names).map_err(|reason| reason.replace("column", "field"))?;
        let values = fields.0.iter().map(|(_, value)| value_bytes(value)).collect::<Result<Vec<_>, String>>()?;
        let field = |index: usize| values.get(index).and_then(|value| value.as_deref());
        rules.event(&columns, &names, field).map_err(|reason| reason.replacen("column", "field", 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::time_format::TimeFormat;

    fn items(event: &Event) -> Vec<(&str, &[u8])> {
        event.event_items.iter().map(|item| (item.event_item_key.as_str(), item.event_item_value.as_ref())).collect()
    }

    #[test]
    fn both_forms_of_an_event_are_taken() {
        let api = parse_event(
            br#"{"timeSeriesId":"s","eventTime":"2026-03-28T10:00:00Z","eventId":"e","eventItems":[{"eventItemKey":"a","eventItemValue":"AP8="}]}"#,
        );
        assert_eq!(items(&api.unwrap()), [("a", b"\x00\xff".as_slice())]);
        let plain = parse_event(
            br#"{"timeSeriesId":"s","eventTime":"2026-03-28T10:00:00Z","items":{"t":"D\u00e4rk","n":1.10,"b":true,"z":null,"o":{"x":1}}}"#,
        );
        let plain = plain.unwrap();
        let expected = [
            ("t", "Därk".as_bytes()),
            ("n", b"1.10".as_slice()),
            ("b", b"true".as_slice()),
            ("o", b"{\"x\":1}".as_slice()),
        ];
        assert_eq!(items(&plain), expected);
        assert_eq!(plain.event_id, content_id(&Event { event_id: String::new(), ..plain.clone() }));
    }

    #[test]
    fn null_is_the_same_as_an_absent_field_in_both_forms() {
        let time = r#""timeSeriesId":"s","eventTime":"2026-03-28T10:00:00Z""#;
        for items in [r#""items":{"a":"x"}"#, r#""eventItems":[{"eventItemKey":"a","eventItemValue":"eA=="}]"#] {
            let absent = parse_event(format!("{{{time},{items}}}").as_bytes());
            let null = parse_event(format!("{{{time},\"eventId\":null,{items}}}").as_bytes());
            assert!(absent.is_ok(), "{absent:?}");
            assert_eq!(null, absent);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("[]", "not a JSON object"),
            ("{", "not a JSON object"),
            (r#"{"timeSeriesId":"s"}"#, "needs `eventItems`"),
            (r#"{"timeSeriesId":"s","items":{"a":1}}"#, "eventTime: is missing"),
            (r#"{"timeSeriesId":"s","eventTime":null,"items":{"a":1}}"#, "eventTime: is missing"),
            (r#"{"timeSeriesId":"s","eventTime":"soon","items":{"a":1}}"#, "eventTime: "),
            (r#"{"timeSeriesId":5,"eventTime":"2026-03-28T10:00:00Z","items":{}}"#, "timeSeriesId: must be a string"),
            (r#"{"series":"s","items":{"a":1}}"#, "series: there is no such field"),
            (r#"{"items":{"a":1},"items":{}}"#, "`items` stands twice"),
            (r#"{"items":{"a":1},"eventItems":[]}"#, "give one of them"),
            (r#"{"items":[1]}"#, "items: must be an object"),
            (
                r#"{"timeSeriesId":"s","eventItems":[{"eventItemValue":"!"}]}"#,
                "eventItems[0].eventItemValue: not base64",
            ),
        ];
        for (line, expected) in cases {
            let reason = parse_event(line.as_bytes()).unwrap_err();
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn flat_objects_are_mapped() {
        let rules = RowRules {
            time_format: TimeFormat::Unix { unit_nanos: 1_000_000_000 },
            series: None,
            series_prefix: "p:".to_owned(),
            keep_empty: false,
        };
        let mapping = Mapping { entries: vec!["series=who".parse().unwrap()], ..Mapping::default() };
        let parse = import_parser(mapping, rules);
        let event = parse(br#"{"time":1774692000,"who":7,"title":"Dark","empty":"","none":null}"#).unwrap();
        assert_eq!(event.time_series_id, "p:7");
        assert_eq!(items(&event), [("title", b"Dark".as_slice())]);
        let reason = parse(br#"{"time":"soon","who":7,"title":"Dark"}"#).unwrap_err();
        assert_eq!(reason, "field `time`: `soon` is not a number");
        assert!(parse(br#"{"who":7,"title":"Dark"}"#).unwrap_err().starts_with("no field is the time"));
    }

    #[test]
    fn lines_are_counted_and_skipped() {
        let text = b"\xef\xbb\xbf{\"a\":1}\n\n  \n{\"b\":2}\nnonsense";
        let echo: ParseLine = Box::new(|text| {
            let series = String::from_utf8_lossy(text).into_owned();
            if series == "nonsense" { Err(series) } else { Ok(Event { time_series_id: series, ..Event::default() }) }
        });
        let mut lines = JsonLines::new(&text[..], echo, 2);
        let line = lines.next_event().unwrap().unwrap();
        assert_eq!((line.line, line.event.time_series_id.as_str()), (4, "{\"b\":2}"));
        assert_eq!(lines.next_event().unwrap().unwrap_err(), BadLine::new(5, "nonsense"));
        assert!(lines.next_event().is_none());
    }
}
