//! A ring that outlives the command that started it, for people and for benchmarks: what is running is written to a
//! file in the cache, and later commands find it there.

use std::{fmt, fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Cassandra, CassandraNode, Kafka, cache,
    cassandra::{self, Ring},
    error::{TestbedError, cannot},
    kafka::Broker,
    process::ServerProcess,
};

/// What is running.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cluster {
    ring: Ring,
    /// Of the nodes, from 1 on.
    pids: Vec<u32>,
    broker: Option<(Broker, u32)>,
}

impl Cluster {
    /// Starts a cluster. There must be none.
    pub fn up(nodes: u8, with_kafka: bool) -> Result<Self, TestbedError> {
        if let Some(mut there) = Self::find()? {
            if there.is_running() {
                return Err(TestbedError::Refused(
                    "a cluster is up already; `cargo xtask cluster down` ends it".to_owned(),
                ));
            }
            there.down()?;
        }
        let kafka = if with_kafka { Some(Kafka::start()?) } else { None };
        let (ring, pids) = Cassandra::start(nodes)?.detach();
        let cluster = Cluster { ring, pids, broker: kafka.map(Kafka::detach) };
        cluster.save()?;
        Ok(cluster)
    }

    /// The cluster that was started last and not ended, `None` without one.
    pub fn find() -> Result<Option<Self>, TestbedError> {
        let file = state_file()?;
        match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                TestbedError::Refused(format!("{} can't be read: {error}; delete it", file.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot(format!("read {}", file.display()))(error)),
        }
    }

    /// Ends everything and deletes its data.
    pub fn down(&mut self) -> Result<(), TestbedError> {
        for number in self.numbers() {
            self.node(number)?.process().kill()?;
        }
        cassandra::delete(&self.ring)?;
        if let Some((broker, pid)) = &self.broker {
            broker.attach(*pid).kill()?;
            let _ = fs::remove_dir_all(&broker.directory);
        }
        let file = state_file()?;
        fs::remove_file(&file).map_err(cannot(format!("delete {}", file.display())))
    }

    /// A node, from 1 on.
    pub fn node(&self, number: u8) -> Result<CassandraNode, TestbedError> {
        let pid = self.pids.get(usize::from(number).wrapping_sub(1)).copied();
        let pid =
            pid.ok_or_else(|| TestbedError::Refused(format!("there is no node {number}, only {}", self.pids.len())))?;
        Ok(CassandraNode::attach(&self.ring, number, pid))
    }

    /// Starts a node again that has ended, and notes its new id. The node outlives this process.
    pub fn restart(&mut self, number: u8) -> Result<(), TestbedError> {
        let mut node = self.node(number)?;
        node.restart()?;
        self.pids[usize::from(number) - 1] = node.process().pid();
        self.save()
    }

    /// Whether any of its processes is there.
    pub fn is_running(&mut self) -> bool {
        let nodes = self.numbers().any(|number| self.node(number).is_ok_and(|mut node| node.process().is_running()));
        nodes || self.broker.as_ref().is_some_and(|(broker, pid)| broker.attach(*pid).is_running())
    }

    fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        (1..).take(self.pids.len())
    }

    fn save(&self) -> Result<(), TestbedError> {
        let file = state_file()?;
        let text = serde_json::to_vec_pretty(self).expect("the state is plain data");
        fs::write(&file, text).map_err(cannot(format!("write {}", file.display())))
    }
}

fn state_file() -> Result<PathBuf, TestbedError> {
    Ok(cache::directory()?.join("cluster.json"))
}

/// One line for each server: where it is, and how it is; and how to use them.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pid) in (1..).zip(&self.pids) {
            let mut node = CassandraNode::attach(&self.ring, number, *pid);
            let state = match (state_of(node.process()), node.is_ready()) {
                ("running", false) => "running, not ready",
                (state, _) => state,
            };
            writeln!(f, "cassandra {number}  {}  pid {pid}  {state}", self.ring.address(number))?;
        }
        if let Some((broker, pid)) = &self.broker {
            let state = state_of(&mut broker.attach(*pid));
            writeln!(f, "kafka        {}  pid {pid}  {state}", broker.address())?;
        }
        writeln!(f, "data in {}", self.ring.directory.display())?;
        write!(f, "to use it: {}", self.line_to_type())
    }
}

impl Cluster {
    /// Starts a server on it. Rows are kept three times unless it is told otherwise, which one node can't.
    fn line_to_type(&self) -> String {
        let nodes: Vec<String> = self.numbers().map(|number| self.ring.address(number).to_string()).collect();
        let copies = if nodes.len() < 3 { "ANABRANCH_CASSANDRA_REPLICATION=1 " } else { "" };
        let (feature, bus) = match &self.broker {
            Some((broker, _)) => ("--features kafka ", format!(" --bus kafka://{}", broker.address())),
            None => ("", String::new()),
        };
        format!("{copies}cargo run --release {feature}-- serve --store cassandra://{}{bus}", nodes.join(","))
    }
}

fn state_of(process: &mut ServerProcess) -> &'static str {
    match process.is_running() {
        true if process.is_paused() => "paused",
        true => "running",
        false => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn the_line_to_type_fits_the_number_of_nodes() {
        let line = |nodes: u8| {
            let ring = Ring {
                name: "ring".to_owned(),
                directory: "runs/ring".into(),
                cql_port: 1000,
                storage_port: 2000,
                jmx_ports: Vec::new(),
                shape: Shape::of_nodes(nodes),
            };
            Cluster { ring, pids: (1..=u32::from(nodes)).collect(), broker: None }.line_to_type()
        };
        let serve = "cargo run --release -- serve --store cassandra://127.0.0.1:1000";
        assert_eq!(line(1), format!("ANABRANCH_CASSANDRA_REPLICATION=1 {serve}"));
        assert_eq!(line(3), format!("{serve},127.0.0.2:1000,127.0.0.3:1000"));
    }
}
