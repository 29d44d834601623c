//! What can be chosen about the store: where the cluster is, how often rows are kept, how sure reads and writes are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use anabranch_model::NamespaceName;
use scylla::statement::Consistency;
use serde::{Deserialize, Serialize};

use crate::ConnectError;

/// The longest prefix: with it and a hash there is still room for half of a namespace's name.
const MAX_PREFIX: usize = 16;

/// How the store is reached and used.
#[derive(Clone, Debug)]
pub struct CassandraOptions {
    /// Some nodes, as `host:port`; the others are found through them.
    pub contact_points: Vec<String>,
    /// Begins the name of every keyspace of this store, so that several can share a cluster.
    pub keyspace_prefix: String,
    /// Namespaces that share the keyspace `keyspace_prefix` instead of having their own: keyspaces cost memory too.
    pub shared_keyspace: BTreeSet<NamespaceName>,
    /// Of keyspaces that are made; those that are there stay as they are.
    pub replication: Replication,
    /// How many replicas must have a row before it is acknowledged.
    pub write_consistency: Level,
    /// How many replicas are asked for a row.
    pub read_consistency: Level,
    /// The data centre to talk to. Without it, any node is as near as another.
    pub local_datacenter: Option<String>,
    /// Who this is, where the cluster wants to know.
    pub credentials: Option<Credentials>,
    /// Encrypts what goes over the network.
    pub tls: Option<TlsOptions>,
    /// How long a node may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long making or dropping a table may take.
    pub schema_timeout: Duration,
    /// How long one step of a metadata call, or of a sample, may take.
    pub metadata_timeout: Duration,
    /// Batches above this are cut between events: one large mutation holds up every other on its replicas.
    pub max_batch_bytes: usize,
    /// Reads above this share, in thousandths, are never sent twice.
    pub hedge_permille: u32,
    /// The least time before a slow read is sent to another replica too.
    pub hedge_after: Duration,
    /// The most tables that the store should hold.
    pub max_tables: usize,
}

impl CassandraOptions {
    /// The defaults, for a cluster that is reached at these nodes.
    pub fn new(contact_points: impl IntoIterator<Item = impl Into<String>>) -> Self {
        CassandraOptions {
            contact_points: contact_points.into_iter().map(Into::into).collect(),
            keyspace_prefix: "anabranch".to_owned(),
            shared_keyspace: BTreeSet::new(),
            replication: Replication::Simple(3),
            write_consistency: Level::LocalQuorum,
            read_consistency: Level::LocalQuorum,
            local_datacenter: None,
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            schema_timeout: Duration::from_secs(30),
            metadata_timeout: Duration::from_secs(10),
            max_batch_bytes: 1 << 20,
            hedge_permille: 50,
            hedge_after: Duration::from_millis(20),
            max_tables: 400,
        }
    }

    /// Refuses what can't work, or can't keep the store's promises.
    pub fn check(&self) -> Result<(), ConnectError> {
        let refuse = |reason: String| Err(ConnectError::Options { reason });
        if self.contact_points.is_empty() {
            return refuse("no node is named".to_owned());
        }
        let prefix = &self.keyspace_prefix;
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = prefix.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || prefix.len() > MAX_PREFIX || !prefix.chars().all(letters) {
            return refuse(format!("`{prefix}` is not 1 to {MAX_PREFIX} of a-z, 0-9 and _, beginning with a letter"));
        }
        self.check_levels(self.replication.is_in_several())?;
        self.replication.check()
    }

    /// Refuses levels at which a read may miss what was acknowledged (W1). `several`: rows are kept in more than one data centre.
    pub(crate) fn check_levels(&self, several: bool) -> Result<(), ConnectError> {
        let refuse = |reason: String| Err(ConnectError::Options { reason });
        let (write, read) = (self.write_consistency, self.read_consistency);
        if !write.is_seen_by(read, several) {
            let (place, advice) = match several {
                true => (
                    " where rows are kept in several data centres",
                    "take the same level for both, LOCAL_QUORUM or QUORUM",
                ),
                false => ("", "raise one of them"),
            };
            return refuse(format!("reads at {read} may miss rows written at {write}{place}: {advice}"));
        }
        // Without one, each call may be at home in another.
        match [write, read].into_iter().find(|level| level.is_local()) {
            Some(level) if several && self.local_datacenter.is_none() => refuse(format!(
                "rows are kept in several data centres, and {level} asks those of one: name it (local_datacenter)"
            )),
            _ => Ok(()),
        }
    }

    /// The levels of reads and of writes that hold in every data centre: such reads meet every write that was acknowledged
    /// anywhere at the write level, and such writes are met by every read at the read level. `docs/decisions` has the sums.
    pub(crate) fn levels_everywhere(&self) -> (Level, Level) {
        let (write, read) = (self.write_consistency, self.read_consistency);
        let changes = if read.is_one() { Level::All } else { Level::EachQuorum };
        let reads = if write.is_one() || read.is_one() { Level::All } else { Level::EachQuorum };
        (reads, changes)
    }
}

/// How often each row is kept, and where. As text `3`, or `east:3,west:2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Replication {
    /// So often, wherever: for one data centre.
    Simple(u8),
    /// So often in each of these data centres.
    PerDatacenter(BTreeMap<String, u8>),
}

impl Replication {
    fn check(&self) -> Result<(), ConnectError> {
        let refuse = |reason: String| Err(ConnectError::Options { reason });
        match self {
            Replication::Simple(0) => refuse("no replica would keep a row".to_owned()),
            Replication::PerDatacenter(places) if places.values().all(|copies| *copies == 0) => {
                refuse("no replica would keep a row".to_owned())
            }
            Replication::PerDatacenter(places) => match places.keys().find(|name| name.contains('\'')) {
                Some(name) => refuse(format!("`{name}` is not the name of a data centre")),
                None => Ok(()),
            },
            Replication::Simple(_) => Ok(()),
        }
    }

    /// Whether rows are kept in more than one data centre.
    fn is_in_several(&self) -> bool {
        match self {
            Replication::Simple(_) => false,
            Replication::PerDatacenter(places) => places.values().filter(|copies| **copies > 0).count() > 1,
        }
    }

    /// As `CREATE KEYSPACE` takes it.
    pub(crate) fn to_cql(&self) -> String {
        match self {
            Replication::Simple(copies) => format!("{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"),
            Replication::PerDatacenter(places) => {
                let places: String = places.iter().map(|(name, copies)| format!(", '{name}': {copies}")).collect();
                format!("{{'class': 'NetworkTopologyStrategy'{places}}}")
            }
        }
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replication::Simple(copies) => copies.fmt(f),
            Replication::PerDatacenter(places) => {
                let places: Vec<String> = places.iter().map(|(name, copies)| format!("{name}:{copies}")).collect();
                f.write_str(&places.join(","))
            }
        }
    }
}

impl FromStr for Replication {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(copies) = text.trim().parse() {
            return Ok(Replication::Simple(copies));
        }
        let wrong = || {
            format!("`{text}` is neither a number of copies, as `3`, nor one for each data centre, as `east:3,west:2`")
        };
        let place = |place: &str| {
            let (name, copies) = place.trim().split_once(':')?;
            Some((name.trim().to_owned(), copies.trim().parse().ok()?))
        };
        let places: Option<Vec<(String, u8)>> = text.split(',').map(place).collect();
        let places = places.filter(|places| places.iter().all(|(name, _)| !name.is_empty())).ok_or_else(wrong)?;
        let mut copies = BTreeMap::new();
        for (name, number) in places {
            if copies.insert(name.clone(), number).is_some() {
                return Err(format!("`{text}` names the data centre `{name}` twice"));
            }
        }
        Ok(Replication::PerDatacenter(copies))
    }
}

/// How many replicas take part in a read or a write. As text it is spelt as in CQL: `LOCAL_QUORUM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Level {
    /// Any one.
    One,
    /// One of the local data centre.
    LocalOne,
    /// More than half of those of the local data centre.
    LocalQuorum,
    /// More than half of all.
    Quorum,
    /// More than half in every data centre; of clients only for writes.
    EachQuorum,
    /// All of them: none may be away.
    All,
}

impl Level {
    const ALL: [Level; 6] =
        [Level::One, Level::LocalOne, Level::LocalQuorum, Level::Quorum, Level::EachQuorum, Level::All];

    fn is_one(self) -> bool {
        matches!(self, Level::One | Level::LocalOne)
    }

    pub(crate) fn is_local(self) -> bool {
        matches!(self, Level::LocalOne | Level::LocalQuorum)
    }

    /// Whether a read at `read`, in the same data centre, is sure to see what was written at this level (W1). Where rows are kept in
    /// several, one quorum of all and one of the local ones may have no replica in common.
    fn is_seen_by(self, read: Level, several: bool) -> bool {
        let is_quorum = |level| matches!(level, Level::LocalQuorum | Level::Quorum | Level::EachQuorum);
        if self == Level::All || read == Level::All {
            return true;
        }
        let quorums = is_quorum(self) && is_quorum(read) && read != Level::EachQuorum;
        quorums && (!several || self == read || self == Level::EachQuorum)
    }

    pub(crate) fn to_driver(self) -> Consistency {
        match self {
            Level::One => Consistency::One,
            Level::LocalOne => Consistency::LocalOne,
            Level::LocalQuorum => Consistency::LocalQuorum,
            Level::Quorum => Consistency::Quorum,
            Level::EachQuorum => Consistency::EachQuorum,
            Level::All => Consistency::All,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::One => "ONE",
            Level::LocalOne => "LOCAL_ONE",
            Level::LocalQuorum => "LOCAL_QUORUM",
            Level::Quorum => "QUORUM",
            Level::EachQuorum => "EACH_QUORUM",
            Level::All => "ALL",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = Level::ALL.into_iter().find(|level| level.to_string().eq_ignore_ascii_case(text.trim()));
        level.ok_or_else(|| {
            let known = Level::ALL.map(|level| level.to_string()).join(", ");
            format!("`{text}` is no consistency level; there are {known}")
        })
    }
}

/// Types that a configuration says as text.
macro_rules! said_as_text {
    ($($type:ty),+) => { $(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    )+ };
}

said_as_text!(Level, Replication);

/// A name and its password.
#[derive(Clone)]
pub struct Credentials {
    /// Who.
    pub user: String,
    /// Never shown.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, ...)", self.user)
    }
}

/// Files in PEM. The certificate of a node must name its IP address: that is what the driver checks.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Whose signatures under the nodes' certificates are trusted.
    pub ca: PathBuf,
    /// The client's own certificate and its key, where the cluster wants one.
    pub client: Option<(PathBuf, PathBuf)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut CassandraOptions)) -> String {
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        options.check().unwrap();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn levels_that_could_hide_an_acknowledged_row_are_refused() {
        for (write, read) in [
            (Level::One, Level::One),
            (Level::LocalOne, Level::LocalQuorum),
            (Level::LocalQuorum, Level::LocalOne),
            (Level::Quorum, Level::EachQuorum),
        ] {
            let text = refusal(|options| (options.write_consistency, options.read_consistency) = (write, read));
            assert!(text.contains(&write.to_string()) && text.contains(&read.to_string()), "{text}");
        }
        for (write, read) in [
            (Level::One, Level::All),
            (Level::All, Level::One),
            (Level::EachQuorum, Level::LocalQuorum),
            (Level::Quorum, Level::Quorum),
        ] {
            assert!(write.is_seen_by(read, false), "{write} {read}");
        }
    }

    fn in_two_data_centres(options: &mut CassandraOptions) {
        options.replication = "east:3,west:3".parse().unwrap();
        options.local_datacenter = Some("east".to_owned());
    }

    /// W1: each pair of levels that is let through, added up for two data centres with three copies each; and none is refused in vain.
    #[test]
    fn in_several_data_centres_exactly_the_levels_that_meet_are_let_through() {
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        in_two_data_centres(&mut options);
        for (write, read) in Level::ALL.into_iter().flat_map(|write| Level::ALL.map(|read| (write, read))) {
            (options.write_consistency, options.read_consistency) = (write, read);
            let met = meet(&least(write), &least(read));
            // Cassandra's drivers and nodes take EACH_QUORUM for reads, but one data centre away stops them all.
            let wanted = met && (read != Level::EachQuorum || write == Level::All);
            assert_eq!(options.check().is_ok(), wanted, "{write} {read}: {:?}", options.check());
        }
    }

    #[test]
    fn with_several_data_centres_a_local_level_needs_to_know_which_is_local() {
        let error = refusal(|options| {
            in_two_data_centres(options);
            options.local_datacenter = None;
        });
        assert!(error.contains("local_datacenter") && error.contains("LOCAL_QUORUM"), "{error}");
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        in_two_data_centres(&mut options);
        (options.write_consistency, options.read_consistency) = (Level::Quorum, Level::Quorum);
        options.local_datacenter = None;
        options.check().unwrap();
        options.replication = "east:3,west:0".parse().unwrap();
        (options.write_consistency, options.read_consistency) = (Level::LocalQuorum, Level::Quorum);
        options.check().unwrap();
    }

    /// Replicas that a call at this level may do with, of two data centres with three each; local ones are the first's.
    fn least(level: Level) -> Vec<[usize; 2]> {
        match level {
            Level::One => vec![[1, 0], [0, 1]],
            Level::LocalOne => vec![[1, 0]],
            Level::LocalQuorum => vec![[2, 0]],
            Level::Quorum => vec![[3, 1], [2, 2], [1, 3]],
            Level::EachQuorum => vec![[2, 2]],
            Level::All => vec![[3, 3]],
        }
    }

    fn meet(writes: &[[usize; 2]], reads: &[[usize; 2]]) -> bool {
        let all = writes.iter().flat_map(|write| reads.iter().map(move |read| (write, read)));
        all.into_iter().all(|(write, read)| (0..2).any(|place| write[place] + read[place] > 3))
    }

    fn in_the_other(places: &[[usize; 2]]) -> Vec<[usize; 2]> {
        places.iter().map(|[here, there]| [*there, *here]).collect()
    }

    /// S2, in every data centre: what a split is made from is all that was acknowledged anywhere, and what it is made
    /// into is seen by every read.
    #[test]
    fn what_holds_everywhere_meets_every_read_and_write_in_both_data_centres() {
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        in_two_data_centres(&mut options);
        let mut tried = 0;
        for (write, read) in Level::ALL.into_iter().flat_map(|write| Level::ALL.map(|read| (write, read))) {
            (options.write_consistency, options.read_consistency) = (write, read);
            if options.check().is_err() {
                continue;
            }
            tried += 1;
            let (reads, changes) = options.levels_everywhere();
            for acknowledged in [least(write), in_the_other(&least(write))] {
                assert!(meet(&acknowledged, &least(reads)), "a source read at {reads} may miss a write at {write}");
            }
            for asked in [least(read), in_the_other(&least(read))] {
                assert!(meet(&least(changes), &asked), "a read at {read} may miss a piece written at {changes}");
            }
            assert!(meet(&least(changes), &least(reads)), "{changes} {reads}");
        }
        assert!(tried > 10, "{tried}");
    }

    #[test]
    fn what_can_not_work_is_refused_before_anything_is_connected() {
        refusal(|options| options.contact_points.clear());
        for prefix in ["", "1a", "A", "a-b", "abcdefghijklmnopq"] {
            assert!(refusal(|options| options.keyspace_prefix = prefix.to_owned()).contains(prefix));
        }
        refusal(|options| options.replication = Replication::Simple(0));
        refusal(|options| options.replication = Replication::PerDatacenter(BTreeMap::from([("a'b".to_owned(), 3)])));
    }

    #[test]
    fn levels_and_replication_are_read_as_they_are_shown() {
        for level in Level::ALL {
            assert_eq!(level.to_string().to_lowercase().parse(), Ok(level));
        }
        assert!("LOCAL".parse::<Level>().unwrap_err().contains("LOCAL_QUORUM"));
        for text in ["3", "east:3,west:2"] {
            assert_eq!(text.parse::<Replication>().unwrap().to_string(), text);
        }
        for text in ["", "three", "east", "east:x", ":3", "300", "east:3,east:2"] {
            assert!(text.parse::<Replication>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let credentials = Credentials { user: "reader".to_owned(), password: "secret".to_owned() };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("reader") && !shown.contains("secret"));
    }

    #[test]
    fn replication_is_told_as_cassandra_wants_it() {
        assert_eq!(Replication::Simple(3).to_cql(), "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        let places = BTreeMap::from([("east".to_owned(), 3), ("west".to_owned(), 2)]);
        let cql = Replication::PerDatacenter(places).to_cql();
        assert_eq!(cql, "{'class': 'NetworkTopologyStrategy', 'east': 3, 'west': 2}");
    }
}
