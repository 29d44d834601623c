//! Which page an address means, and the address of a page. Ids may hold anything, so that every part of a path is encoded.

use anabranch_api::v1::{Split, split::State};
use axum::{extract::Query, http::Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stays as it is in a part of a path or of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// A page and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Namespace(String),
    Series(SeriesView),
    Splits(SplitFilter),
    Split(SplitName),
    HeatMap(HeatView),
    Tasks,
}

/// A series, and which page of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeriesView {
    pub(super) namespace: String,
    pub(super) series: String,
    /// The oldest events first.
    pub(super) oldest_first: bool,
    /// How bytes are shown.
    pub(super) form: Form,
    /// Of the page of events; the first when absent.
    pub(super) token: String,
    /// Tokens of the pages before it, so that one can go back.
    pub(super) trail: Vec<String>,
}

/// How bytes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// As JSON or text where they are, else in hexadecimal.
    #[default]
    Auto,
    Text,
    Json,
    Hex,
}

impl Form {
    pub(super) const ALL: [Form; 4] = [Form::Auto, Form::Text, Form::Json, Form::Hex];

    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Auto => "auto",
            Form::Text => "text",
            Form::Json => "json",
            Form::Hex => "hex",
        }
    }
}

/// Which splits a board shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SplitFilter {
    pub(super) namespace: String,
    pub(super) series: String,
    /// Only those of one state, as a longer list.
    pub(super) state: Option<State>,
}

/// One split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SplitName {
    pub(super) namespace: String,
    pub(super) time_slice: String,
    pub(super) series: String,
    pub(super) time_bucket: u32,
    pub(super) event_bucket: u32,
}

impl SplitName {
    pub(super) fn of(split: &Split) -> Self {
        SplitName {
            namespace: split.namespace.clone(),
            time_slice: split.time_slice.clone(),
            series: split.time_series_id.clone(),
            time_bucket: split.time_bucket,
            event_bucket: split.event_bucket,
        }
    }

    pub(super) fn href(&self) -> String {
        let SplitName { namespace, time_slice, series, time_bucket, event_bucket } = self;
        format!(
            "/ui/splits/{}/{}/{}/{time_bucket}/{event_bucket}",
            encoded(namespace),
            encoded(time_slice),
            encoded(series)
        )
    }
}

/// What a heat map shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeatView {
    /// The first one when empty.
    pub(super) namespace: String,
    pub(super) measure: Measure,
}

/// What makes a range hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Measure {
    #[default]
    Bytes,
    Reads,
    Writes,
}

impl Measure {
    pub(super) const ALL: [Measure; 3] = [Measure::Bytes, Measure::Reads, Measure::Writes];

    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Bytes => "bytes",
            Measure::Reads => "reads",
            Measure::Writes => "writes",
        }
    }
}

impl Place {
    /// What an address means; `None` when there is nothing.
    pub(super) fn parse(uri: &Uri) -> Option<Place> {
        let parts: Vec<String> = uri.path().split('/').skip(1).map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let named = |name: &str| parameter(uri, name).unwrap_or_default();
        Some(match parts.as_slice() {
            [""] => Place::Overview,
            ["ui", "namespaces", namespace] => Place::Namespace((*namespace).to_owned()),
            ["ui", "namespaces", namespace, "series", series] => Place::Series(SeriesView {
                namespace: (*namespace).to_owned(),
                series: (*series).to_owned(),
                oldest_first: named("order") == "oldest",
                form: Form::ALL.into_iter().find(|form| form.name() == named("as")).unwrap_or_default(),
                token: named("token"),
                trail: parameters(uri).into_iter().filter(|(name, _)| name == "back").map(|(_, token)| token).collect(),
            }),
            ["ui", "splits"] => Place::Splits(SplitFilter {
                namespace: named("namespace"),
                series: named("series"),
                state: State::from_str_name(&named("state").to_uppercase()),
            }),
            ["ui", "splits", namespace, time_slice, series, time_bucket, event_bucket] => Place::Split(SplitName {
                namespace: (*namespace).to_owned(),
                time_slice: (*time_slice).to_owned(),
                series: (*series).to_owned(),
                time_bucket: time_bucket.parse().ok()?,
                event_bucket: event_bucket.parse().ok()?,
            }),
            ["ui", "heatmap"] => Place::HeatMap(HeatView {
                namespace: named("namespace"),
                measure: Measure::ALL
                    .into_iter()
                    .find(|measure| measure.name() == named("measure"))
                    .unwrap_or_default(),
            }),
            ["ui", "tasks"] => Place::Tasks,
            _ => return None,
        })
    }

    /// Its address.
    pub(super) fn href(&self) -> String {
        match self {
            Place::Overview => "/".to_owned(),
            Place::Namespace(name) => namespace(name),
            Place::Series(view) => view.href(),
            Place::Splits(filter) => filter.href(),
            Place::Split(name) => name.href(),
            Place::HeatMap(view) => view.href(),
            Place::Tasks => "/ui/tasks".to_owned(),
        }
    }
}

impl SeriesView {
    pub(super) fn href(&self) -> String {
        let order = if self.oldest_first { "oldest" } else { "" };
        let form = if self.form == Form::Auto { "" } else { self.form.name() };
        let mut pairs = vec![("order", order), ("as", form), ("token", self.token.as_str())];
        pairs.extend(self.trail.iter().map(|token| ("back", token.as_str())));
        with_query(series(&self.namespace, &self.series), &pairs)
    }
}

impl SplitFilter {
    pub(super) fn href(&self) -> String {
        let state = self.state.map(|state| state.as_str_name().to_lowercase()).unwrap_or_default();
        let pairs = [("namespace", self.namespace.as_str()), ("series", &self.series), ("state", &state)];
        with_query("/ui/splits".to_owned(), &pairs)
    }
}

impl HeatView {
    pub(super) fn href(&self) -> String {
        let measure = if self.measure == Measure::Bytes { "" } else { self.measure.name() };
        with_query("/ui/heatmap".to_owned(), &[("namespace", &self.namespace), ("measure", measure)])
    }
}

/// The page of a namespace.
pub(super) fn namespace(name: &str) -> String {
    format!("/ui/namespaces/{}", encoded(name))
}

/// The page of a series.
pub(super) fn series(namespace_name: &str, series: &str) -> String {
    format!("{}/series/{}", namespace(namespace_name), encoded(series))
}

/// The place of a split's column on the board.
pub(super) fn column(state: State) -> String {
    format!("state-{}", state.as_str_name().to_lowercase())
}

/// A path with those parameters that have a value.
pub(super) fn with_query(path: String, pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if given.is_empty() { path } else { format!("{path}?{}", given.join("&")) }
}

/// A part of a path or of a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(Into::into)
}

/// What a query says of a name.
pub(super) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    parameters(uri).into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

fn parameters(uri: &Uri) -> Vec<(String, String)> {
    Query::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_address_of_a_place_leads_to_it(id in "[^\u{0}]{1,20}", token in "[a-zA-Z0-9_=-]{0,20}", bucket: u32) {
            let places = [
                Place::Series(SeriesView {
                    namespace: "plays".to_owned(),
                    series: id.clone(),
                    oldest_first: bucket % 2 == 0,
                    form: Form::Hex,
                    trail: vec![token.clone() + "1", token.clone() + "2"],
                    token,
                }),
                Place::Splits(SplitFilter {
                    namespace: "plays".to_owned(),
                    series: id.clone(),
                    state: (bucket % 3 == 0).then_some(State::NotWide),
                }),
                Place::Split(SplitName {
                    namespace: "plays".to_owned(),
                    time_slice: "data_20260328".to_owned(),
                    series: id,
                    time_bucket: bucket,
                    event_bucket: 0,
                }),
            ];
            for place in places {
                let uri: Uri = place.href().parse().unwrap();
                prop_assert_eq!(Place::parse(&uri), Some(place));
            }
        }
    }

    #[test]
    fn what_is_nowhere_is_no_place() {
        for path in ["/ui/", "/ui/nothing", "/ui/splits/a/b", "/ui/splits/plays/data/id/x/0", "/ui/namespaces"] {
            assert_eq!(Place::parse(&path.parse().unwrap()), None, "{path}");
        }
    }
}
