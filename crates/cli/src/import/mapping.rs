//! Which column holds what: as `--map` says, else by the usual names.

use std::str::FromStr;

use crate::spelling::closest;

/// `time=played_at`: what a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapEntry {
    target: Target,
    column: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Time,
    Series,
    EventId,
    /// The series where no other column is that, else the event id.
    Id,
    Item(String),
}

impl FromStr for MapEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "needs the form WHAT=COLUMN, where WHAT is time, series, event_id or item:NAME";
        let (target, column) = text.split_once('=').ok_or(form)?;
        if column.is_empty() {
            return Err(form.to_owned());
        }
        let target = match target.trim() {
            "time" | "event_time" => Target::Time,
            "series" | "time_series_id" => Target::Series,
            "event_id" => Target::EventId,
            "id" => Target::Id,
            other => match other.strip_prefix("item:") {
                Some(name) if !name.is_empty() => Target::Item(name.to_owned()),
                _ => return Err(form.to_owned()),
            },
        };
        Ok(MapEntry { target, column: column.to_owned() })
    }
}

/// What `--map` and its companions say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping {
    pub(crate) entries: Vec<MapEntry>,
    /// Columns that nothing names are left out.
    pub(crate) only_mapped: bool,
    /// The series is given, so that no column needs to hold it.
    pub(crate) has_series: bool,
    /// Named columns may be missing: in JSON a field is there or not.
    pub(crate) lenient: bool,
}

/// Which column, by its index, holds what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) time: usize,
    pub(crate) series: Option<usize>,
    pub(crate) event_id: Option<usize>,
    pub(crate) items: Vec<(String, usize)>,
}

const TIME_NAMES: [&str; 3] = ["eventtime", "timestamp", "time"];
const SERIES_NAMES: [&str; 2] = ["timeseriesid", "series"];
const EVENT_ID_NAMES: [&str; 1] = ["eventid"];

impl Mapping {
    /// Finds out what each of the columns holds.
    pub(crate) fn resolve(&self, names: &[&str]) -> Result<Columns, String> {
        let mut resolver = Resolver { names, used: vec![false; names.len()] };
        let (mut time, mut series, mut event_id, mut id, mut items) = (None, None, None, None, Vec::new());
        for entry in &self.entries {
            let Some(index) = resolver.named(&entry.column) else {
                if self.lenient {
                    continue;
                }
                return Err(resolver.missing(&entry.column));
            };
            match &entry.target {
                Target::Time => time = Some(index),
                Target::Series => series = Some(index),
                Target::EventId => event_id = Some(index),
                Target::Id => id = Some(index),
                Target::Item(name) => items.push((name.clone(), index)),
            }
        }
        let time = time
            .or_else(|| resolver.usual(&TIME_NAMES))
            .ok_or_else(|| format!("no column is the time: name it with --map time=COLUMN; {}", resolver.listed()))?;
        if !self.has_series {
            series = series.or_else(|| resolver.usual(&SERIES_NAMES));
        }
        event_id = event_id.or_else(|| resolver.usual(&EVENT_ID_NAMES));
        // `id` names the series in a file of one kind, and the event in a file that names the series otherwise.
        if series.is_none() && !self.has_series {
            series = id.take().or_else(|| resolver.usual(&["id"]));
        } else if event_id.is_none() {
            event_id = id.take().or_else(|| resolver.usual(&["id"]));
        }
        if series.is_none() && !self.has_series {
            let listed = resolver.listed();
            return Err(format!(
                "no column is the series: name it with --map series=COLUMN, or give --series; {listed}"
            ));
        }
        if !self.only_mapped {
            for (index, name) in names.iter().enumerate().filter(|(index, _)| !resolver.used[*index]) {
                if name.trim().is_empty() {
                    return Err(format!("column {} has no name; name it, or say --only-mapped", index + 1));
                }
                items.push(((*name).to_owned(), index));
            }
        }
        Ok(Columns { time, series, event_id, items })
    }
}

struct Resolver<'a> {
    names: &'a [&'a str],
    used: Vec<bool>,
}

impl Resolver<'_> {
    /// A column that the user names: exactly so, else but for case.
    fn named(&mut self, column: &str) -> Option<usize> {
        let exactly = self.names.iter().position(|name| *name == column);
        let index = exactly.or_else(|| self.names.iter().position(|name| name.trim().eq_ignore_ascii_case(column)))?;
        self.used[index] = true;
        Some(index)
    }

    /// A column with one of the usual names that nobody uses yet.
    fn usual(&mut self, usual: &[&str]) -> Option<usize> {
        let plain = |name: &str| {
            let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
            letters.collect::<String>().to_ascii_lowercase()
        };
        let index = usual.iter().find_map(|usual| {
            let fits = |index: &usize| !self.used[*index] && plain(self.names[*index]) == *usual;
            (0..self.names.len()).find(fits)
        })?;
        self.used[index] = true;
        Some(index)
    }

    fn missing(&self, column: &str) -> String {
        match closest(column, self.names.iter().copied()) {
            Some(meant) => format!("there is no column `{column}`; is `{meant}` meant?"),
            None => format!("there is no column `{column}`; {}", self.listed()),
        }
    }

    fn listed(&self) -> String {
        let names = self.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        match self.names {
            [only] if only.contains([';', '\t', '|']) => {
                format!("there is one column, {names}; say what stands between columns with --delimiter")
            }
            _ => format!("the columns are {names}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(map: &str) -> Mapping {
        let entries = map.split(',').filter(|entry| !entry.is_empty()).map(|entry| entry.parse().unwrap()).collect();
        Mapping { entries, ..Mapping::default() }
    }

    fn items(names: &[(&str, usize)]) -> Vec<(String, usize)> {
        names.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect()
    }

    #[test]
    fn usual_names_need_no_mapping() {
        let columns = mapping("").resolve(&["Timestamp", "id", "title"]).unwrap();
        assert_eq!(columns, Columns { time: 0, series: Some(1), event_id: None, items: items(&[("title", 2)]) });
        let columns = mapping("").resolve(&["id", "series", "event time", "a", "b"]).unwrap();
        let expected = Columns { time: 2, series: Some(1), event_id: Some(0), items: items(&[("a", 3), ("b", 4)]) };
        assert_eq!(columns, expected);
    }

    #[test]
    fn a_mapping_goes_before_usual_names() {
        let columns =
            mapping("time=played_at,series=who,item:title=name").resolve(&["time", "played_at", "who", "name"]);
        let expected = Columns { time: 1, series: Some(2), event_id: None, items: items(&[("title", 3), ("time", 0)]) };
        assert_eq!(columns, Ok(expected));
        let columns = mapping("id=key,series=who").resolve(&["time", "key", "who", "x"]).unwrap();
        assert_eq!((columns.series, columns.event_id), (Some(2), Some(1)));
        let columns = mapping("id=key").resolve(&["time", "key", "x"]).unwrap();
        assert_eq!((columns.series, columns.event_id), (Some(1), None));
    }

    #[test]
    fn a_given_series_needs_no_column() {
        let given = Mapping { has_series: true, ..mapping("") };
        let columns = given.resolve(&["time", "id", "x"]).unwrap();
        assert_eq!((columns.series, columns.event_id), (None, Some(1)));
    }

    #[test]
    fn what_is_missing_is_named() {
        let refusal = |map: &str, names: &[&str]| mapping(map).resolve(names).unwrap_err();
        assert!(refusal("", &["when", "id"]).starts_with("no column is the time"));
        assert!(refusal("", &["time;series;note"]).ends_with("between columns with --delimiter"));
        assert!(refusal("", &["time", "x"]).starts_with("no column is the series"));
        assert_eq!(refusal("time=tiem", &["time", "id"]), "there is no column `tiem`; is `time` meant?");
        assert!(refusal("", &["time", "id", ""]).starts_with("column 3 has no name"));
        for bad in ["time", "time=", "what=x", "item:=x"] {
            assert!(bad.parse::<MapEntry>().is_err(), "{bad}");
        }
    }
}
