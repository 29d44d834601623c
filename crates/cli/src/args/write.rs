//! `anabranch write`, and what it shares with `import`.

use std::{path::PathBuf, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use clap::Args;

use crate::times::Moment;

const EXAMPLES: &str = "\
Examples:
  anabranch write plays --series profile:123 --item title=Dark --item progress=0.4
  anabranch write plays --series profile:123 --time -2h --event-id e-1 --item poster=@dark.jpg
  anabranch write plays --file events.jsonl --resume events.state
  tail -F plays.log | anabranch write plays -

A line of a file is an event as in the API, or with its items as plain text:
  {\"timeSeriesId\":\"profile:123\",\"eventTime\":\"2026-03-28T10:00:00Z\",\"eventId\":\"e-1\",
   \"eventItems\":[{\"eventItemKey\":\"title\",\"eventItemValue\":\"RGFyaw==\"}]}   # base64
  {\"timeSeriesId\":\"profile:123\",\"eventTime\":\"2026-03-28T10:00:00Z\",
   \"items\":{\"title\":\"Dark\",\"progress\":0.4}}
A line without `eventId` gets one made of its content, so that writing the file again changes nothing.";

/// Write one event, or many from JSON lines
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WriteArgs {
    /// Where the events belong
    pub(crate) namespace: String,
    /// `-` reads JSON lines from stdin
    #[arg(value_name = "-", value_parser = only_stdin)]
    pub(crate) stdin: Option<String>,
    /// Whose history
    #[arg(long, visible_alias = "id", value_name = "SERIES", help_heading = "One event", required_unless_present_any = ["file", "stdin"])]
    pub(crate) series: Option<String>,
    /// When it happened [default: now]
    #[arg(long, value_name = "TIME", help_heading = "One event", allow_hyphen_values = true, requires = "series")]
    pub(crate) time: Option<Moment>,
    /// Tells apart events of the same instant [default: made up]
    #[arg(long, value_name = "ID", help_heading = "One event", requires = "series")]
    pub(crate) event_id: Option<String>,
    /// An item (may be repeated): KEY=TEXT, KEY=@FILE, KEY:base64=…
    #[arg(long = "item", short, value_name = "KEY=VALUE", help_heading = "One event", requires = "series")]
    pub(crate) items: Vec<FlagItem>,
    /// Metadata of the item of the same key (may be repeated)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "One event", requires = "series")]
    pub(crate) metadata: Vec<FlagItem>,
    /// JSON lines; `-` is stdin
    #[arg(long, short, value_name = "FILE", help_heading = "Many events", conflicts_with_all = ["series", "stdin"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// Only queue the events: quicker, but a crash of the server may lose the last ones
    #[arg(long)]
    pub(crate) queued: bool,
}

/// `read` takes a series at this place: who tries the same here learns how.
fn only_stdin(text: &str) -> Result<String, String> {
    match text {
        "-" => Ok(text.to_owned()),
        _ => Err(format!("only `-`, for JSON lines from stdin; a series is named by --series {text}")),
    }
}

/// How a file is written, and how it is gone on with.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Many events")]
pub(crate) struct BatchArgs {
    /// Most events in a request
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Begin at this line, as an earlier run said
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from_line: u64,
    /// Keep in FILE how far it went, and go on from there the next time; removed at the end
    #[arg(long, value_name = "FILE", conflicts_with = "from_line")]
    pub(crate) resume: Option<PathBuf>,
    /// Leave out lines that are wrong, and say which
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

/// An item on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlagItem {
    pub(crate) key: String,
    pub(crate) source: ValueSource,
}

/// Where the value of an item comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    Given(Bytes),
    File(PathBuf),
}

impl FromStr for FlagItem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("needs the form KEY=VALUE")?;
        let (key, source) = match (key.strip_suffix(":base64"), value.strip_prefix('@')) {
            (Some(key), _) => {
                let bytes =
                    BASE64_STANDARD.decode(value).map_err(|error| format!("the value is not base64: {error}"))?;
                (key, ValueSource::Given(bytes.into()))
            }
            (None, Some(path)) if !path.is_empty() => (key, ValueSource::File(path.into())),
            (None, _) => (key, ValueSource::Given(Bytes::copy_from_slice(value.as_bytes()))),
        };
        if key.is_empty() {
            return Err("the key is empty".to_owned());
        }
        Ok(FlagItem { key: key.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_at_the_place_of_stdin_is_told_where_it_belongs() {
        assert_eq!(only_stdin("-").as_deref(), Ok("-"));
        assert!(only_stdin("profile:1").unwrap_err().contains("--series profile:1"));
    }

    #[test]
    fn items_take_text_files_and_base64() {
        let given = |key: &str, bytes: &'static [u8]| FlagItem {
            key: key.to_owned(),
            source: ValueSource::Given(Bytes::from_static(bytes)),
        };
        assert_eq!("title=Dark".parse(), Ok(given("title", b"Dark")));
        assert_eq!("a=b=c".parse(), Ok(given("a", b"b=c")));
        assert_eq!("a=".parse(), Ok(given("a", b"")));
        assert_eq!("a:base64=/wA=".parse(), Ok(given("a", b"\xff\0")));
        let file = FlagItem { key: "a".to_owned(), source: ValueSource::File("x.jpg".into()) };
        assert_eq!("a=@x.jpg".parse(), Ok(file));
        for bad in ["a", "=b", ":base64=AA==", "a:base64=!"] {
            assert!(bad.parse::<FlagItem>().is_err(), "{bad}");
        }
    }
}
