//! Columns of a table, and which of them says when a row happened. Also the statements that read it.

use anabranch_model::Timestamp;

use super::Begin;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As it is, without quotes.
    pub name: String,
    /// As CQL says it: `text`, `frozen<list<int>>`.
    pub data_type: String,
    /// Whether rows are kept with its greatest value first; only of clustering columns.
    pub descends: bool,
}

/// How a column says when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Milliseconds, by the column's type.
    Timestamp,
    /// The time in a version 1 UUID.
    TimeUuid,
    /// Days, by the column's type.
    Date,
    /// A number of these since 1970.
    Since1970 {
        /// How many nanoseconds each is.
        unit_nanos: i64,
    },
}

/// The clustering column that says when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeColumn {
    /// Which of the clustering columns.
    pub index: usize,
    /// How it says so.
    pub kind: TimeKind,
}

/// What a table is like.
#[derive(Clone, Debug)]
pub struct ForeignSchema {
    /// Where it is.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// Seconds after which rows go by themselves, where the table says so.
    pub life_seconds: Option<u32>,
    /// In their order.
    pub partition_key: Vec<Column>,
    /// In their order.
    pub clustering: Vec<Column>,
    /// What rows have besides. Columns that a partition has once aren't among them.
    pub regular: Vec<Column>,
    /// Names of columns that a partition has once: they are no part of any row.
    pub of_partition: Vec<String>,
    /// Which of the clustering columns says when; that of an open table is known.
    pub time: Option<TimeColumn>,
}

/// 1980 and 2100, in seconds: numbers between are times, and the spans of the units don't meet.
const PLAUSIBLE_SECONDS: std::ops::RangeInclusive<i64> = 315_532_800..=4_102_444_800;
/// Nanoseconds of seconds, milliseconds, microseconds and nanoseconds.
const UNITS: [i64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];
/// 100 ns steps from the beginning of the Gregorian calendar, which UUIDs count from, to 1970.
const UUID_EPOCH: i64 = 0x01B2_1DD2_1381_4000;
/// Dates count days from 2^31 days before 1970.
const DATE_EPOCH: i64 = 1 << 31;
const DAY_NANOS: i64 = 86_400_000_000_000;

impl Column {
    /// What its type says about time; a number's type says nothing.
    pub(super) fn time_kind(&self) -> Option<TimeKind> {
        match self.data_type.as_str() {
            "timestamp" => Some(TimeKind::Timestamp),
            "timeuuid" => Some(TimeKind::TimeUuid),
            "date" => Some(TimeKind::Date),
            _ => None,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.data_type.as_str(), "bigint" | "int")
    }
}

/// What numbers mean that were seen in a column: times of the unit that more than half of them are of, or nothing. Of a
/// column that was named as the time only those count that can be times: a zero or a greatest number stands for
/// something else. Of an empty table nothing can be said, and nothing depends on it.
pub(super) fn kind_of_numbers<'a>(values: impl Iterator<Item = &'a [u8]>, named: bool) -> Option<TimeKind> {
    let unit_of = |bytes: &[u8]| {
        let number = number(bytes)?;
        UNITS.into_iter().find(|unit| PLAUSIBLE_SECONDS.contains(&(number / (UNITS[0] / unit))))
    };
    let units: Vec<Option<i64>> = values.map(unit_of).collect();
    if units.is_empty() {
        return Some(TimeKind::Since1970 { unit_nanos: UNITS[1] });
    }
    let votes = units.iter().filter(|unit| !named || unit.is_some()).count();
    let of = |wanted: i64| units.iter().filter(|unit| **unit == Some(wanted)).count();
    let unit_nanos = UNITS.into_iter().find(|unit| of(*unit) * 2 > votes)?;
    Some(TimeKind::Since1970 { unit_nanos })
}

/// Whether something can have happened then, and the value doesn't stand for something else.
pub fn is_plausible(time: Timestamp) -> bool {
    PLAUSIBLE_SECONDS.contains(&time.nanos().div_euclid(UNITS[0]))
}

fn number(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        8 => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        4 => Some(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        _ => None,
    }
}

impl TimeKind {
    /// When the bytes of a value say. Times beyond what can be told apart from each other come out as the last that can.
    pub fn time(self, bytes: &[u8]) -> Option<Timestamp> {
        let nanos = match self {
            TimeKind::Timestamp => number(bytes)?.saturating_mul(1_000_000),
            TimeKind::Since1970 { unit_nanos } => number(bytes)?.saturating_mul(unit_nanos),
            TimeKind::Date => {
                let days = i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - DATE_EPOCH;
                days.saturating_mul(DAY_NANOS)
            }
            TimeKind::TimeUuid => {
                let bytes: [u8; 16] = bytes.try_into().ok()?;
                let part = |at: std::ops::Range<usize>| {
                    bytes[at].iter().fold(0_i64, |sum, byte| (sum << 8) | i64::from(*byte))
                };
                let steps = ((part(6..8) & 0x0fff) << 48) | (part(4..6) << 32) | part(0..4);
                (steps - UUID_EPOCH).saturating_mul(100)
            }
        };
        Some(Timestamp::from_nanos(nanos))
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            TimeKind::Timestamp => "timestamp",
            TimeKind::TimeUuid => "timeuuid",
            TimeKind::Date => "date",
            TimeKind::Since1970 { unit_nanos: 1_000_000_000 } => "seconds since 1970",
            TimeKind::Since1970 { unit_nanos: 1_000_000 } => "milliseconds since 1970",
            TimeKind::Since1970 { unit_nanos: 1_000 } => "microseconds since 1970",
            TimeKind::Since1970 { .. } => "nanoseconds since 1970",
        }
    }
}

impl ForeignSchema {
    /// From what `system_schema` says: each column with its kind and its place among those of its kind.
    pub(super) fn new(
        keyspace: &str,
        table: &str,
        life_seconds: Option<u32>,
        mut columns: Vec<(String, i32, Column)>,
    ) -> Self {
        columns.sort_by(|(_, one, a), (_, other, b)| (one, &a.name).cmp(&(other, &b.name)));
        let of_kind = |wanted: &str| {
            columns.iter().filter(|(kind, ..)| kind == wanted).map(|(.., column)| column.clone()).collect::<Vec<_>>()
        };
        ForeignSchema {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            life_seconds,
            partition_key: of_kind("partition_key"),
            clustering: of_kind("clustering"),
            regular: of_kind("regular"),
            of_partition: of_kind("static").into_iter().map(|column| column.name).collect(),
            time: None,
        }
    }

    /// The clustering column that says when.
    pub fn time(&self) -> TimeColumn {
        self.time.expect("a table is open only when its time column is known")
    }

    /// A later column that says more precisely when, where the column to go by says only the day.
    pub fn finer_time(&self) -> Option<&str> {
        let TimeColumn { index, kind } = self.time();
        let is_finer = |column: &&Column| column.time_kind().is_some_and(|kind| kind != TimeKind::Date);
        let finer = self.clustering.iter().skip(index + 1).find(is_finer)?;
        (kind == TimeKind::Date).then_some(finer.name.as_str())
    }

    /// The name of the clustering column that says when.
    pub fn time_name(&self) -> &str {
        &self.clustering[self.time().index].name
    }

    /// As people write it.
    pub fn shown_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }

    fn place(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.table))
    }

    fn token(&self) -> String {
        format!("token({})", names(&self.partition_key))
    }

    fn of_row(&self) -> String {
        let columns: Vec<Column> = self.clustering.iter().chain(&self.regular).cloned().collect();
        names(&columns)
    }

    pub(super) fn look_cql(&self, rows: i32) -> String {
        format!("SELECT {} FROM {} LIMIT {rows}", names(&self.clustering), self.place())
    }

    pub(super) fn heads_cql(&self, rows: usize) -> String {
        let (token, key, of_row, place) = (self.token(), names(&self.partition_key), self.of_row(), self.place());
        format!(
            "SELECT {token}, {key}, {of_row} FROM {place} WHERE {token} >= ? AND {token} <= ? PER PARTITION LIMIT {rows}"
        )
    }

    pub(super) fn partition_cql(&self, from: Begin) -> String {
        let key: Vec<String> =
            self.partition_key.iter().map(|column| format!("{} = ?", quoted(&column.name))).collect();
        let select = format!("SELECT {} FROM {} WHERE {}", self.of_row(), self.place(), key.join(" AND "));
        let as_it_is = match from {
            Begin::Start => true,
            Begin::Newest => self.clustering[self.time().index].descends,
            Begin::End => false,
        };
        if as_it_is {
            return select;
        }
        let order: Vec<String> = self
            .clustering
            .iter()
            .map(|column| format!("{} {}", quoted(&column.name), if column.descends { "ASC" } else { "DESC" }))
            .collect();
        format!("{select} ORDER BY {}", order.join(", "))
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

/// A name that means itself, whatever letters it has.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, data_type: &str) -> Column {
        Column { name: name.to_owned(), data_type: data_type.to_owned(), descends: false }
    }

    fn kind_if(named: bool, numbers: &[i64]) -> Option<TimeKind> {
        let bytes: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
        kind_of_numbers(bytes.iter().map(<[u8; 8]>::as_slice), named)
    }

    fn kind(numbers: &[i64]) -> Option<TimeKind> {
        kind_if(false, numbers)
    }

    #[test]
    fn a_column_that_says_only_the_day_is_told_from_one_behind_it_that_says_more() {
        let finer = |clustering: &[(&str, &str)], index: usize| {
            let columns = clustering.iter().enumerate().map(|(at, (name, data_type))| {
                ("clustering".to_owned(), i32::try_from(at).unwrap(), column(name, data_type))
            });
            let mut schema = ForeignSchema::new("k", "t", None, columns.collect());
            schema.time = schema.clustering[index].time_kind().map(|kind| TimeColumn { index, kind });
            schema.finer_time().map(str::to_owned)
        };
        let both = [("day", "date"), ("kind", "text"), ("at", "timestamp")];
        assert_eq!(finer(&both, 0).as_deref(), Some("at"));
        assert_eq!(finer(&both, 2), None);
        assert_eq!(finer(&[("day", "date"), ("until", "date")], 0), None);
        assert_eq!(finer(&[("at", "timestamp"), ("id", "timeuuid")], 0), None);
    }

    #[test]
    fn numbers_are_times_of_the_unit_that_most_of_them_are_of() {
        let now = 1_774_692_000_i64;
        for (unit_nanos, name) in UNITS.into_iter().zip(["seconds", "milliseconds", "microseconds", "nanoseconds"]) {
            let scale = UNITS[0] / unit_nanos;
            let found = kind(&[now * scale, (now - 90_000_000) * scale]).unwrap();
            assert_eq!(found, TimeKind::Since1970 { unit_nanos });
            assert!(found.name().starts_with(name), "{}", found.name());
            assert_eq!(found.time(&(now * scale).to_be_bytes()), Some(Timestamp::from_nanos(now * UNITS[0])));
        }
        assert_eq!(kind(&[1, 2, 3]), None, "a counter is no time");
        assert_eq!(kind(&[now, now * 1000]), None, "two units");
        assert!(kind(&[]).is_some(), "an empty table can still be looked at");
    }

    #[test]
    fn a_number_that_stands_for_something_else_hides_no_time() {
        let millis = Some(TimeKind::Since1970 { unit_nanos: 1_000_000 });
        let now = 1_774_692_000_000_i64;
        for odd in [0, -1, i64::MAX, 253_402_300_799_000] {
            assert_eq!(kind(&[odd, now, now + 1]), millis, "{odd}");
            assert_eq!(kind_if(true, &[odd, odd, odd, now]), millis, "{odd}");
            assert_eq!(kind(&[odd, odd, odd, now]), None, "a few numbers may look like times by chance");
            assert_eq!(kind_if(true, &[odd, odd]), None, "nothing that could be a time");
        }
        assert_eq!(kind_if(true, &[now, now / 1000]), None, "two units");
        assert!(is_plausible(Timestamp::from_nanos(now * 1_000_000)));
        assert!(!is_plausible(Timestamp::from_nanos(0)) && !is_plausible(Timestamp::from_nanos(i64::MAX)));
    }

    #[test]
    fn every_kind_of_time_is_read_as_it_is_stored() {
        let noon = Timestamp::from_nanos(1_774_699_200_000_000_000);
        assert_eq!(TimeKind::Timestamp.time(&1_774_699_200_000_i64.to_be_bytes()), Some(noon));
        let days = (DATE_EPOCH + 20_540) as u32;
        assert_eq!(TimeKind::Date.time(&days.to_be_bytes()), Some(Timestamp::from_nanos(20_540 * DAY_NANOS)));
        // 2026-03-28T12:00:00Z, as version 1 UUIDs have it.
        let steps = (1_774_699_200_000_000_000 / 100 + UUID_EPOCH) as u64;
        let mut uuid = [0_u8; 16];
        uuid[..4].copy_from_slice(&(steps as u32).to_be_bytes());
        uuid[4..6].copy_from_slice(&((steps >> 32) as u16).to_be_bytes());
        uuid[6..8].copy_from_slice(&(((steps >> 48) as u16) | 0x1000).to_be_bytes());
        assert_eq!(TimeKind::TimeUuid.time(&uuid), Some(noon));
        assert_eq!(TimeKind::TimeUuid.time(&[0; 3]), None);
        assert_eq!(TimeKind::Timestamp.time(&i64::MAX.to_be_bytes()), Some(Timestamp::from_nanos(i64::MAX)));
    }

    /// What makes `advise` safe to run anywhere: there is no other statement than these.
    #[test]
    fn every_statement_only_selects_and_names_are_quoted() {
        let mut schema = ForeignSchema::new(
            "k\"s",
            "Events",
            None,
            vec![
                ("partition_key".to_owned(), 1, column("day", "date")),
                ("partition_key".to_owned(), 0, column("Device", "text")),
                ("clustering".to_owned(), 0, column("at", "timestamp")),
                ("regular".to_owned(), -1, column("value", "blob")),
                ("static".to_owned(), -1, column("owner", "text")),
            ],
        );
        schema.time = Some(TimeColumn { index: 0, kind: TimeKind::Timestamp });
        let statements = [
            schema.look_cql(1),
            schema.heads_cql(9),
            schema.partition_cql(Begin::Start),
            schema.partition_cql(Begin::Newest),
            schema.partition_cql(Begin::End),
        ];
        for statement in &statements {
            assert!(statement.starts_with("SELECT ") && !statement.contains(';'), "{statement}");
            assert!(statement.contains("\"k\"\"s\".\"Events\""), "{statement}");
            assert!(!statement.contains("owner"), "{statement}");
        }
        assert!(statements[1].contains("token(\"Device\", \"day\") >= ?"), "{}", statements[1]);
        assert!(statements[3].ends_with("ORDER BY \"at\" DESC"), "{}", statements[3]);
        assert_eq!(statements[3], statements[4], "the newest are at the end");
        schema.clustering[0].descends = true;
        assert!(!schema.partition_cql(Begin::Newest).contains("ORDER"), "the newest are at the start");
        assert!(schema.partition_cql(Begin::End).ends_with("ORDER BY \"at\" ASC"));
    }
}
