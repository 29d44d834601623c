//! Where the store and the bus are, as one text each.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

const CASSANDRA: &str = "cassandra://";
const KAFKA: &str = "kafka://";
const CASSANDRA_PORT: u16 = 9042;
const KAFKA_PORT: u16 = 9092;

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StoreUrl {
    /// The one inside of this process.
    Embedded,
    /// A Cassandra cluster.
    Cassandra {
        /// Some of its nodes, as `host:port`.
        nodes: Vec<String>,
        /// Begins the name of every keyspace.
        prefix: Option<String>,
    },
}

/// Which bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum BusUrl {
    /// The one inside of this process.
    InProcess,
    /// A topic of Kafka.
    Kafka {
        /// Some brokers, as `host:port`.
        brokers: Vec<String>,
        /// The topic, where it isn't the usual one.
        topic: Option<String>,
    },
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "embedded" {
            return Ok(StoreUrl::Embedded);
        }
        let wrong = || format!("`{text}` is neither `embedded` nor `{CASSANDRA}HOST:PORT,HOST:PORT/PREFIX`");
        let (nodes, prefix) = split(text.strip_prefix(CASSANDRA).ok_or_else(wrong)?, CASSANDRA_PORT)?;
        Ok(StoreUrl::Cassandra { nodes, prefix })
    }
}

impl FromStr for BusUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "in-process" {
            return Ok(BusUrl::InProcess);
        }
        let wrong = || format!("`{text}` is neither `in-process` nor `{KAFKA}HOST:PORT,HOST:PORT/TOPIC`");
        let (brokers, topic) = split(text.strip_prefix(KAFKA).ok_or_else(wrong)?, KAFKA_PORT)?;
        Ok(BusUrl::Kafka { brokers, topic })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Embedded => f.write_str("embedded"),
            StoreUrl::Cassandra { nodes, prefix } => join(f, CASSANDRA, nodes, prefix.as_deref()),
        }
    }
}

impl fmt::Display for BusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusUrl::InProcess => f.write_str("in-process"),
            BusUrl::Kafka { brokers, topic } => join(f, KAFKA, brokers, topic.as_deref()),
        }
    }
}

macro_rules! said_as_text {
    ($($type:ty),+) => { $(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(url: $type) -> String {
                url.to_string()
            }
        }
    )+ };
}

said_as_text!(StoreUrl, BusUrl);

/// Hosts with their ports, and what comes after the slash.
fn split(text: &str, usual_port: u16) -> Result<(Vec<String>, Option<String>), String> {
    let (hosts, rest) = text.split_once('/').map_or((text, None), |(hosts, rest)| (hosts, Some(rest)));
    let hosts: Result<Vec<String>, String> = hosts.split(',').map(|host| with_port(host.trim(), usual_port)).collect();
    Ok((hosts?, rest.filter(|rest| !rest.is_empty()).map(str::to_owned)))
}

fn with_port(host: &str, usual: u16) -> Result<String, String> {
    // Colons inside of brackets belong to an IPv6 address.
    let outside = host.rfind(']').map_or(host, |end| &host[end..]);
    let (name, port) = match outside.rfind(':') {
        None => (host, Ok(usual)),
        Some(at) => {
            let at = host.len() - outside.len() + at;
            (&host[..at], host[at + 1..].parse())
        }
    };
    match port {
        _ if name.is_empty() => Err("a host is missing; it takes HOST:PORT,HOST:PORT".to_owned()),
        // Not shown: what stands before it may be a password.
        _ if name.contains('@') => Err(format!(
            "`…{}` is no host; names and passwords have settings of their own",
            &host[host.rfind('@').unwrap_or_default()..]
        )),
        _ if name.contains([' ', '?', '#']) => Err(format!("`{host}` is no host")),
        _ if name.contains(':') && !name.starts_with('[') => {
            Err(format!("`{host}` is an IPv6 address, it seems: put it in brackets, as [::1]:{usual}"))
        }
        Ok(port) if port > 0 => Ok(format!("{name}:{port}")),
        _ => Err(format!("`{host}` doesn't end in a port between 1 and 65535")),
    }
}

fn join(f: &mut fmt::Formatter<'_>, scheme: &str, hosts: &[String], rest: Option<&str>) -> fmt::Result {
    write!(f, "{scheme}{}", hosts.join(","))?;
    rest.map_or(Ok(()), |rest| write!(f, "/{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        for text in ["embedded", "cassandra://a:9042", "cassandra://a:1,b:2/mine", "cassandra://[::1]:9042/x"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
        for text in ["in-process", "kafka://a:9092", "kafka://a:1,b:2/topic"] {
            assert_eq!(text.parse::<BusUrl>().unwrap().to_string(), text);
        }
        assert_eq!("cassandra://a,b/".parse::<StoreUrl>().unwrap().to_string(), "cassandra://a:9042,b:9042");
        assert_eq!("kafka://[::1]".parse::<BusUrl>().unwrap().to_string(), "kafka://[::1]:9092");
    }

    #[test]
    fn what_names_no_place_is_refused_with_what_it_takes() {
        for (text, word) in [
            ("", "embedded"),
            ("Embedded", "embedded"),
            ("cassandra", "cassandra://HOST:PORT"),
            ("scylla://a", "cassandra://HOST:PORT"),
            ("cassandra://", "a host is missing"),
            ("cassandra://a,", "a host is missing"),
            ("cassandra://a:b", "port"),
            ("cassandra://a:0", "port"),
            ("cassandra://a:70000", "port"),
            ("cassandra://me:secret@a:1", "settings of their own"),
            ("cassandra://2001:db8::1", "brackets"),
            ("cassandra://a?x=y", "no host"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!("kafka:a".parse::<BusUrl>().unwrap_err().contains("in-process"));
    }
}
