//! A key as CQL has it, to be pasted behind `WHERE`.

use std::net::IpAddr;

use anabranch_model::Timestamp;

use super::{
    rows::ForeignKey,
    schema::{Column, ForeignSchema, TimeKind},
};

impl ForeignSchema {
    /// The condition that finds a partition: `device = 'pump-7' AND day = '2026-03-28'`.
    pub fn condition(&self, key: &ForeignKey) -> String {
        let parts = self.partition_key.iter().zip(&key.0);
        let parts = parts.map(|(column, value)| format!("{} = {}", shown(&column.name), literal(column, value)));
        parts.collect::<Vec<_>>().join(" AND ")
    }
}

/// Words that are no names without quotes, in any Cassandra from 4.0 on: to quote one more than a version asks for does
/// no harm. Sorted.
const RESERVED: [&str; 65] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "check",
    "columnfamily",
    "constraint",
    "create",
    "default",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "length",
    "limit",
    "materialized",
    "mbean",
    "mbeans",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "unset",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// A name that needs no quotes has none.
fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain);
    match is_plain && RESERVED.binary_search(&name).is_err() {
        true => name.to_owned(),
        false => super::schema::quoted(name),
    }
}

/// A value as CQL has it. What has no literal of its own is told by its bytes.
fn literal(column: &Column, bytes: &[u8]) -> String {
    let data_type = column.data_type.as_str();
    of_type(data_type, bytes).unwrap_or_else(|| match data_type {
        "varint" | "decimal" | "time" | "duration" => {
            let (first, rest) = data_type.split_at(1);
            format!("blobAs{}{rest}({})", first.to_ascii_uppercase(), hexadecimal(bytes))
        }
        _ => hexadecimal(bytes),
    })
}

fn of_type(data_type: &str, bytes: &[u8]) -> Option<String> {
    Some(match data_type {
        "text" | "varchar" | "ascii" => text(std::str::from_utf8(bytes).ok()?),
        "int" => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "bigint" | "counter" => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "smallint" => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "tinyint" => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "float" => f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "double" => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "boolean" => (bytes != [0]).to_string(),
        "uuid" | "timeuuid" => uuid(bytes.try_into().ok()?),
        "inet" => match bytes.len() {
            4 => text(&IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string()),
            _ => text(&IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        "timestamp" => {
            let millis = i64::from_be_bytes(bytes.try_into().ok()?);
            match millis.checked_mul(1_000_000) {
                Some(nanos) => text(&Timestamp::from_nanos(nanos).to_string()),
                None => millis.to_string(),
            }
        }
        "date" => {
            let midnight = TimeKind::Date.time(bytes)?;
            match midnight.nanos() {
                i64::MIN | i64::MAX => u32::from_be_bytes(bytes.try_into().ok()?).to_string(),
                _ => text(midnight.to_string().split('T').next()?),
            }
        }
        _ => return None,
    })
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(data_type: &str, bytes: &[u8]) -> String {
        let column = Column { name: "c".to_owned(), data_type: data_type.to_owned(), descends: false };
        literal(&column, bytes)
    }

    #[test]
    fn names_that_cql_would_not_take_as_they_are_have_quotes() {
        assert!(RESERVED.is_sorted(), "the search needs it");
        for name in ["device", "at2", "day_of_year", "key", "timestamp"] {
            assert_eq!(shown(name), name);
        }
        for name in ["order", "from", "to", "index", "table", "token", "Device", "2nd", "_x", "naïve"] {
            assert_eq!(shown(name), format!("\"{name}\""));
        }
        assert_eq!(shown("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn values_are_what_cql_would_read_again() {
        assert_eq!(told("text", "o'clock".as_bytes()), "'o''clock'");
        assert_eq!(told("int", &(-5_i32).to_be_bytes()), "-5");
        assert_eq!(told("bigint", &7_i64.to_be_bytes()), "7");
        assert_eq!(told("boolean", &[1]), "true");
        assert_eq!(told("blob", &[0xca, 0xfe]), "0xcafe");
        assert_eq!(told("inet", &[127, 0, 0, 1]), "'127.0.0.1'");
        assert_eq!(told("uuid", &[0x11; 16]), "11111111-1111-1111-1111-111111111111");
        assert_eq!(told("timestamp", &1_774_699_200_000_i64.to_be_bytes()), "'2026-03-28T12:00:00Z'");
        assert_eq!(told("date", &((1_u32 << 31) + 20_540).to_be_bytes()), "'2026-03-28'");
        assert_eq!(told("varint", &[5]), "blobAsVarint(0x05)");
        assert_eq!(told("frozen<list<int>>", &[0, 1]), "0x0001");
        assert_eq!(told("int", &[1]), "0x01", "bytes that aren't what the type says are told as they are");
    }
}
