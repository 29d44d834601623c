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
        let Some(keyspace) = &self.in_several else { return Ok(()) };
        options.check_levels(true).map_err(|error| match error {
            ConnectError::Options { reason } => {
                ConnectError::Options { reason: format!("{reason} (see the keyspace {keyspace})") }
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn found(in_several: Option<&str>) -> Found {
        Found { datacenters: ["east", "west"].map(str::to_owned).into(), in_several: in_several.map(str::to_owned) }
    }

    fn refusal(found: &Found, change: impl FnOnce(&mut CassandraOptions)) -> String {
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        change(&mut options);
        found.check(&options).unwrap_err().to_string()
    }

    #[test]
    fn a_data_centre_that_is_not_there_is_not_waited_for() {
        let here = found(None);
        here.check(&CassandraOptions::new(["127.0.0.1:9042"])).unwrap();
        for text in [
            refusal(&here, |options| options.local_datacenter = Some("esat".to_owned())),
            refusal(&here, |options| options.replication = "east:3,esat:3".parse().unwrap()),
        ] {
            assert!(text.contains("`esat`") && text.contains("east, west"), "{text}");
        }
        let unknown = Found { datacenters: BTreeSet::new(), in_several: None };
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        options.local_datacenter = Some("east".to_owned());
        unknown.check(&options).unwrap();
    }

    /// W1: keyspaces that are there stay as they are, whatever the option says.
    #[test]
    fn levels_are_measured_by_where_rows_lie() {
        let several = found(Some("anabranch_plays"));
        let text = refusal(&several, |_| ());
        assert!(text.contains("local_datacenter") && text.contains("anabranch_plays"), "{text}");
        let text = refusal(&several, |options| {
            options.local_datacenter = Some("east".to_owned());
            options.write_consistency = Level::Quorum;
        });
        assert!(text.contains("QUORUM") && text.contains("anabranch_plays"), "{text}");
        let mut options = CassandraOptions::new(["127.0.0.1:9042"]);
        options.local_datacenter = Some("east".to_owned());
        several.check(&options).unwrap();
    }
}
