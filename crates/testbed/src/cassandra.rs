//! A ring of real Cassandra nodes on loopback: node N listens on `127.0.0.N`, all on the same ports, which are
//! chosen when the ring starts.

mod certificates;
mod files;

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

pub use certificates::Authority;
use serde::{Deserialize, Serialize};

use crate::{
    cache,
    disk::SmallDisk,
    error::{TestbedError, cannot},
    java,
    maven::Jars,
    ports,
    process::ServerProcess,
    watchdog::Watchdog,
};

/// Which Cassandra.
pub const JARS: Jars = Jars {
    name: "cassandra-5.0.9",
    artifacts: &["org.apache.cassandra:cassandra-all:5.0.9"],
    sha256: "1a9f2968d1b7c3e85249cb365983ec626aff3d07186da41cd211174ffe3a6328",
};

/// A node answers within 10 s on an idle machine, within a minute on a busy one.
const START_PATIENCE: Duration = Duration::from_secs(180);
/// An OPTIONS request of protocol version 4, and how its answer begins: SUPPORTED.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
const SUPPORTED: u8 = 6;
/// What a node says when the first login is there, which is a moment after it answers.
const FIRST_LOGIN: &str = "Created default superuser role";
const AUTHORITY: &str = "authority";

/// What a node may use for its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Enough for tests, and no more at the beginning than it needs.
    Little,
    /// So many MiB from the beginning on, and all else that concerns Java as Cassandra ships it.
    AsShipped(u32),
}

/// What a ring is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many nodes each data centre has. A lone one is called `datacenter1`, several `dc1`, `dc2` and so on.
    pub datacenters: Vec<u8>,
    /// Whether clients have to say who they are; the first is `cassandra` with the password `cassandra`.
    pub logins: bool,
    /// Who has to show a certificate when a client connects.
    pub tls: Tls,
    /// Whether a node keeps what another one missed and hands it over later.
    pub hints: bool,
    /// What each node may use for its objects.
    pub memory: Memory,
    /// The size of the last node's disk, in MiB, where it is to have one of its own: [`CassandraNode::disk`].
    pub small_disk_mib: Option<u32>,
}

impl Shape {
    /// So many nodes in one data centre, for everyone.
    pub fn of_nodes(nodes: u8) -> Self {
        Shape {
            datacenters: vec![nodes],
            logins: false,
            tls: Tls::Off,
            hints: true,
            memory: Memory::Little,
            small_disk_mib: None,
        }
    }

    fn nodes(&self) -> u8 {
        self.datacenters.iter().sum()
    }

    /// The data centre of a node, from 1 on, where there are several.
    fn datacenter(&self, number: u8) -> Option<String> {
        let ends = self.datacenters.iter().scan(0, |end, nodes| {
            *end += nodes;
            Some(*end)
        });
        let place = ends.take_while(|end| *end < number).count() + 1;
        (self.datacenters.len() > 1).then(|| format!("dc{place}"))
    }
}

/// Who shows a certificate when a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tls {
    /// Nobody: nothing is encrypted.
    Off,
    /// Each node, signed by the ring's own authority: [`Ring::authority`].
    Nodes,
    /// Clients too, signed by the authority whose certificate is in this PEM file.
    Clients(PathBuf),
}

/// Where the nodes of a ring are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ring {
    /// Fresh for each, so that no node of another run joins.
    pub name: String,
    /// Holds a folder per node.
    pub directory: PathBuf,
    /// For clients.
    pub cql_port: u16,
    /// Between nodes.
    pub storage_port: u16,
    /// For `nodetool`, one for each node.
    pub jmx_ports: Vec<u16>,
    /// What it is like.
    pub shape: Shape,
}

impl Ring {
    fn new(shape: Shape) -> Result<Self, TestbedError> {
        let nodes = shape.nodes();
        if !(1..=3).contains(&nodes) || shape.datacenters.contains(&0) {
            return Err(TestbedError::Refused(format!("a ring has 1 to 3 nodes, not {:?}", shape.datacenters)));
        }
        let directory = cache::fresh_directory("cassandra")?;
        let addresses: Vec<Ipv4Addr> = (1..=nodes).map(ports::loopback).collect();
        let [cql_port, storage_port, jmx_one, jmx_two, jmx_three] = ports::free(&addresses)?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let jmx_ports = [jmx_one, jmx_two, jmx_three][..usize::from(nodes)].to_vec();
        Ok(Ring { name, directory, cql_port, storage_port, jmx_ports, shape })
    }

    /// Where clients reach a node.
    pub fn address(&self, number: u8) -> SocketAddr {
        (ports::loopback(number), self.cql_port).into()
    }

    /// The certificate of the authority that signs those of the nodes, in PEM; there when they speak TLS.
    pub fn authority(&self) -> PathBuf {
        self.directory.join(format!("{AUTHORITY}.pem"))
    }

    fn node_directory(&self, number: u8) -> PathBuf {
        self.directory.join(format!("node{number}"))
    }

    /// Where a node keeps its data, and the size of the disk there if it is one of its own.
    fn storage(&self, number: u8) -> (PathBuf, Option<u32>) {
        let directory = self.node_directory(number);
        match self.shape.small_disk_mib {
            Some(mib) if number == self.shape.nodes() => (directory.join("disk"), Some(mib)),
            _ => (directory, None),
        }
    }
}

/// One node.
#[derive(Debug)]
pub struct CassandraNode {
    number: u8,
    ring: Ring,
    process: ServerProcess,
    disk: Option<SmallDisk>,
}

impl CassandraNode {
    /// Writes its configuration and starts it. Doesn't wait.
    fn start(ring: &Ring, number: u8) -> Result<Self, TestbedError> {
        let directory = ring.node_directory(number);
        let (storage, mib) = ring.storage(number);
        let disk = mib.map(|mib| SmallDisk::mount(&storage, mib)).transpose()?;
        files::write(ring, number, &directory)?;
        let process = Self::launch(ring, number, &directory)?;
        Ok(CassandraNode { number, ring: ring.clone(), process, disk })
    }

    fn launch(ring: &Ring, number: u8, directory: &Path) -> Result<ServerProcess, TestbedError> {
        let (jars, java) = (JARS.fetch()?, java::java()?);
        let mut command = Command::new(java);
        command.args(files::java_options(ring, number, directory, &jars)?);
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        ServerProcess::start(&format!("Cassandra node {number}"), directory, &mut command)
    }

    /// One that another process started.
    pub fn attach(ring: &Ring, number: u8, pid: u32) -> Self {
        let process = ServerProcess::attach(&format!("Cassandra node {number}"), &ring.node_directory(number), pid);
        CassandraNode { number, ring: ring.clone(), process, disk: None }
    }

    /// Its number, from 1 on.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its process.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }

    /// The disk of its own, where its ring's shape gives it one.
    pub fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// Starts it again, with the data that it had. It must have ended.
    pub fn restart(&mut self) -> Result<(), TestbedError> {
        if self.process.is_running() {
            return Err(TestbedError::Refused(format!("node {} is running", self.number)));
        }
        self.process = Self::launch(&self.ring, self.number, &self.ring.node_directory(self.number))?;
        self.wait_until_ready()
    }

    /// Waits until it answers clients.
    pub fn wait_until_ready(&mut self) -> Result<(), TestbedError> {
        let (ring, number) = (self.ring.clone(), self.number);
        self.process.wait_until(START_PATIENCE, || is_ready(&ring, number))
    }

    /// Whether it answers clients now.
    pub fn is_ready(&self) -> bool {
        is_ready(&self.ring, self.number)
    }
}

/// A ring that ends with this value, or with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Cassandra {
    ring: Ring,
    nodes: Vec<CassandraNode>,
    /// Dropped last: what the nodes left is its to delete.
    watchdog: Watchdog,
}

impl Cassandra {
    /// Starts nodes of one data centre.
    pub fn start(nodes: u8) -> Result<Self, TestbedError> {
        Self::start_as(Shape::of_nodes(nodes))
    }

    /// Starts nodes one after another and waits until all of them answer.
    pub fn start_as(shape: Shape) -> Result<Self, TestbedError> {
        let nodes = shape.nodes();
        // Before anything is made: these fail with advice.
        java::java()?;
        JARS.fetch()?;
        let ring = Ring::new(shape)?;
        let watchdog = Watchdog::over(&ring.directory)?;
        if ring.shape.tls != Tls::Off {
            Authority::new(&ring.directory, AUTHORITY)?;
        }
        let mut cassandra = Cassandra { ring, nodes: Vec::new(), watchdog };
        for number in 1..=nodes {
            let mut node = CassandraNode::start(&cassandra.ring, number)?;
            let ready = node.wait_until_ready();
            cassandra.nodes.push(node);
            ready?;
        }
        Ok(cassandra)
    }

    /// Where its nodes are.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Where clients reach its nodes.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| self.ring.address(node.number)).collect()
    }

    /// A node, from 1 on.
    pub fn node(&mut self, number: u8) -> &mut CassandraNode {
        &mut self.nodes[usize::from(number) - 1]
    }

    /// Lets the nodes outlive this process. Their ids, from node 1 on.
    pub fn detach(mut self) -> (Ring, Vec<u32>) {
        let pids = self.nodes.iter().map(|node| node.process.pid()).collect();
        self.nodes.clear();
        self.watchdog.call_off();
        (self.ring, pids)
    }
}

fn is_ready(ring: &Ring, number: u8) -> bool {
    let log = || fs::read_to_string(ServerProcess::log_path(&ring.node_directory(number))).unwrap_or_default();
    // The first node makes the login for all.
    answers_cql(ring.address(number), &ring.shape.tls)
        && (!ring.shape.logins || number > 1 || log().contains(FIRST_LOGIN))
}

fn answers_cql(address: SocketAddr, tls: &Tls) -> bool {
    let patience = Duration::from_secs(1);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else { return false };
    // What is encrypted can't be asked from here. A node listens for clients once it is ready for them.
    if *tls != Tls::Off {
        return true;
    }
    let mut header = [0; 9];
    stream.set_read_timeout(Some(patience)).is_ok()
        && stream.write_all(&OPTIONS).is_ok()
        && stream.read_exact(&mut header).is_ok()
        && header[4] == SUPPORTED
}

/// Deletes the data of a ring that has ended.
pub(crate) fn delete(ring: &Ring) -> Result<(), TestbedError> {
    match fs::remove_dir_all(&ring.directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot(format!("delete {}", ring.directory.display()))(error))
        }
        _ => Ok(()),
    }
}
