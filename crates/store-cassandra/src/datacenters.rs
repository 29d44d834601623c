//! What only the cluster can tell of the options: whether the data centres that they name are there, and where rows lie that are
//! there already.

use std::collections::BTreeSet;

use scylla::cluster::{ClusterState, metadata::Strategy};

use crate::{CassandraOptions, ConnectError, Replication, names::is_keyspace_of};

/// What a connection has found.
pub(crate) struct Found {
    /// Where nodes are.
    datacenters: BTreeSet<String>,
    /// A keyspace of rows that lies in several data centres.
    in_several: Option<String>,
}

impl Found {
    pub(crate) fn of(state: &ClusterState, options: &CassandraOptions) -> Self {
        let prefix = &options.keyspace_prefix;
        // That of documents holds rows only where it is shared.
        let holds_rows =
            |name: &str| is_keyspace_of(prefix, name) && (name != prefix || !options.shared_keyspace.is_empty());
        let several = |strategy: &Strategy| {
            matches!(strategy, Strategy::NetworkTopologyStrategy { datacenter_repfactors }
                if datacenter_repfactors.values().filter(|copies| **copies > 0).count() > 1)
        };
        Found {
            datacenters: state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect(),
            in_several: state
                .keyspaces_iter()
                .find(|(name, keyspace)| holds_rows(name) && several(&keyspace.strategy))
                .map(|(name, _)| name.to_owned()),
        }
    }

    /// Refuses what could only be waited for in vain, and levels that don't fit what is there.
    pub(crate) fn check(&self, options: &CassandraOptions) -> Result<(), ConnectError> {
        let known: Vec<&str> = self.datacenters.iter().map(String::as_str).collect();
        let known = known.join(", ");
        let named = options.local_datacenter.iter().map(|name| ("local_datacenter", name));
        let kept = match &options.replication {
            Replication::Simple(_) => None,
            Replication::PerDatacenter(places) => Some(places.keys().map(|name| ("replication", name))),
        };
        for (setting, name) in named.chain(kept.into_iter().flatten()) {
            if !known.is_empty() && !self.datacenters.contains(name) {
                let reason = format!("{setting} names the data centre `{name}`, where no node is; there are: {known}");
                return Err(ConnectError::Options { reason });
            }
        }
        self.check_local(options)?;
        let Some(keyspace) = &self.in_several else { return Ok(()) };
        options.check_levels(true).map_err(|error| match error {
            ConnectError::Options { reason } => {
                ConnectError::Options { reason: format!("{reason} (see the keyspace {keyspace})") }
            }
            other => other,
        })
    }

    /// Refuses namespaces that a level of one data centre could never serve, or only some of their partitions.
    fn check_local(&self, options: &CassandraOptions) -> Result<(), ConnectError> {
        let levels = [options.write_consistency, options.read_consistency];
        let Some(level) = levels.into_iter().find(|level| level.is_local()) else { return Ok(()) };
        let all: Vec<&str> = self.datacenters.iter().map(String::as_str).collect();
        let all = all.join(", ");
        let refuse = |reason: String| Err(ConnectError::Options { reason });
        match (&options.replication, &options.local_datacenter) {
            _ if self.datacenters.len() < 2 => Ok(()),
            (Replication::Simple(copies), _) => refuse(format!(
                "there are several data centres ({all}), and replication = {copies} keeps copies in any of them, which {level} may \
                 not find in one: say how many each keeps, as `east:3,west:2`"
            )),
            (_, None) => refuse(format!(
                "there are several data centres ({all}), and {level} asks those of one: name it (local_datacenter)"
            )),
            (Replication::PerDatacenter(places), Some(local))
                if places.get(local).is_none_or(|copies| *copies == 0) =>
            {
                refuse(format!(
                    "{level} asks the data centre `{local}` (local_datacenter), and replication = {} keeps no copy there",
                    options.replication
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn found(in_several: Option<&str>) -> Found {
        Found { datacenters: ["east", "west"].map(str::to_owned).into(), in_several: in_several.map(str::to_owned) }
    }

    /// Options that fit two data centres.
    fn options() -> CassandraOptions {
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        options.replication = "east:3,west:3".parse().unwrap();
        options.local_datacenter = Some("east".to_owned());
        options
    }

    fn refusal(found: &Found, change: impl FnOnce(&mut CassandraOptions)) -> String {
        let mut options = options();
        change(&mut options);
        found.check(&options).unwrap_err().to_string()
    }

    #[test]
    fn a_data_centre_that_is_not_there_is_not_waited_for() {
        let here = found(None);
        here.check(&options()).unwrap();
        for text in [
            refusal(&here, |options| options.local_datacenter = Some("esat".to_owned())),
            refusal(&here, |options| options.replication = "east:3,esat:3".parse().unwrap()),
        ] {
            assert!(text.contains("`esat`") && text.contains("east, west"), "{text}");
        }
        let unknown = Found { datacenters: BTreeSet::new(), in_several: None };
        unknown.check(&options()).unwrap();
    }

    /// Nothing wrong would be read, but nothing at all either, and the message would be that of a node that is away.
    #[test]
    fn copies_that_a_local_level_can_not_find_are_refused() {
        let here = found(None);
        let text = refusal(&here, |options| options.replication = "west:3".parse().unwrap());
        assert!(text.contains("`east`") && text.contains("west:3"), "{text}");
        let text = refusal(&here, |options| options.replication = "east:0,west:3".parse().unwrap());
        assert!(text.contains("`east`"), "{text}");
        let text = refusal(&here, |options| options.replication = Replication::Simple(3));
        assert!(text.contains("east, west") && text.contains("replication = 3"), "{text}");
        let text = refusal(&here, |options| {
            options.replication = "east:3".parse().unwrap();
            options.local_datacenter = None;
        });
        assert!(text.contains("local_datacenter"), "{text}");
        let mut anywhere = options();
        anywhere.replication = Replication::Simple(3);
        (anywhere.write_consistency, anywhere.read_consistency) = (Level::Quorum, Level::Quorum);
        here.check(&anywhere).unwrap();
    }

    /// W1: keyspaces that are there stay as they are, whatever the option says.
    #[test]
    fn levels_are_measured_by_where_rows_lie() {
        let several = found(Some("anabranch_plays"));
        let text = refusal(&several, |options| options.write_consistency = Level::Quorum);
        assert!(text.contains("QUORUM") && text.contains("anabranch_plays"), "{text}");
        several.check(&options()).unwrap();
    }
}
