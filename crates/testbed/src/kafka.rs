//! One real Kafka broker on loopback, its own controller (KRaft).

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    cache,
    error::{TestbedError, cannot},
    java,
    maven::Jars,
    ports,
    process::ServerProcess,
    watchdog::Watchdog,
};

/// Which Kafka. Without the bridge from slf4j it runs and logs nothing.
pub const JARS: Jars = Jars {
    name: "kafka-4.3.1",
    artifacts: &["org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"],
    sha256: "6953bfc4d23c24004ed3d44b741c7a4538a923f476f85ff7cf086e87ead4b49c",
};

/// 5 s on an idle machine.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// Any 16 bytes in base64: there is one broker.
const CLUSTER_ID: &str = "YW5hYnJhbmNoLXRlc3QtMQ";
const MEMORY: [&str; 3] = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"];

const LOG4J: &str = "\
<Configuration status=\"ERROR\">
  <Appenders><Console name=\"OUT\"><PatternLayout pattern=\"%d{HH:mm:ss.SSS} %-5p %c{1} %m%n\"/></Console></Appenders>
  <Loggers><Root level=\"INFO\"><AppenderRef ref=\"OUT\"/></Root></Loggers>
</Configuration>
";

/// Where a broker is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broker {
    /// Holds the broker's folder.
    pub directory: PathBuf,
    /// For clients.
    pub port: u16,
    /// Between it and its controller, which is itself.
    pub controller_port: u16,
    /// Who may come in, where that is asked: a name and a password.
    #[serde(default)]
    pub user: Option<(String, String)>,
}

impl Broker {
    fn new() -> Result<Self, TestbedError> {
        let directory = cache::fresh_directory("kafka")?;
        let [port, controller_port] = ports::free(&[ports::loopback(1)])?;
        Ok(Broker { directory, port, controller_port, user: None })
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        (ports::loopback(1), self.port).into()
    }

    fn home(&self) -> PathBuf {
        self.directory.join("broker1")
    }

    /// Its process, started by another one.
    pub fn attach(&self, pid: u32) -> ServerProcess {
        ServerProcess::attach("Kafka broker", &self.home(), pid)
    }

    fn write_files(&self) -> Result<(), TestbedError> {
        let home = self.home();
        fs::create_dir_all(&home).map_err(cannot(format!("make {}", home.display())))?;
        for (name, text) in [("server.properties", self.properties()), ("log4j2.xml", LOG4J.to_owned())] {
            let file = home.join(name);
            fs::write(&file, text).map_err(cannot(format!("write {}", file.display())))?;
        }
        Ok(())
    }

    /// The short times make a broker that was killed come back in a second, and consumers rejoin as soon.
    fn properties(&self) -> String {
        let (port, controller, data) = (self.port, self.controller_port, self.home().join("data"));
        let (protocol, login) = match &self.user {
            None => ("PLAINTEXT", String::new()),
            Some((user, password)) => ("SASL_PLAINTEXT", login(user, password)),
        };
        format!(
            "\
process.roles=broker,controller
node.id=1
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:{protocol},CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
{login}\
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={}
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=1500
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
",
            data.display()
        )
    }

    fn java(&self) -> Result<Command, TestbedError> {
        let (jars, home) = (JARS.fetch()?, self.home());
        let mut command = Command::new(java::java()?);
        command.args(MEMORY).arg(format!("-Dlog4j2.configurationFile={}/log4j2.xml", home.display()));
        command.arg("-cp").arg(format!("{}/*", jars.display()));
        Ok(command)
    }

    fn format(&self) -> Result<(), TestbedError> {
        let mut command = self.java()?;
        command.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]).arg(self.properties_path());
        let output = command.output().map_err(cannot("format the broker's folder"))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(TestbedError::Start { server: "Kafka".to_owned(), reason: "its folder wasn't formatted".to_owned(), log })
    }

    fn launch(&self) -> Result<ServerProcess, TestbedError> {
        let mut command = self.java()?;
        command.arg("kafka.Kafka").arg(self.properties_path());
        ServerProcess::start("Kafka broker", &self.home(), &mut command)
    }

    fn properties_path(&self) -> PathBuf {
        self.home().join("server.properties")
    }

    fn is_up(&self, log: &Path) -> bool {
        let started = fs::read_to_string(log).is_ok_and(|text| text.contains("Kafka Server started"));
        started && TcpStream::connect_timeout(&self.address(), Duration::from_secs(1)).is_ok()
    }
}

/// Lets in this user, and the broker itself by the same name.
fn login(user: &str, password: &str) -> String {
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    format!(
        "\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config={module} required username=\"{user}\" password=\"{password}\" user_{user}=\"{password}\";
"
    )
}

/// A broker that ends with this value, or with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Kafka {
    broker: Broker,
    process: ServerProcess,
    /// Dropped last: what the broker left is its to delete.
    watchdog: Watchdog,
}

impl Kafka {
    /// Starts a broker with no topics and waits until it answers.
    pub fn start() -> Result<Self, TestbedError> {
        Kafka::launch(None)
    }

    /// The same for one that lets in only those who know a name and a password (SASL, PLAIN).
    pub fn start_with_user(user: &str, password: &str) -> Result<Self, TestbedError> {
        Kafka::launch(Some((user.to_owned(), password.to_owned())))
    }

    fn launch(user: Option<(String, String)>) -> Result<Self, TestbedError> {
        java::java()?;
        JARS.fetch()?;
        let broker = Broker { user, ..Broker::new()? };
        let watchdog = Watchdog::over(&broker.directory)?;
        broker.write_files()?;
        broker.format()?;
        let process = broker.launch()?;
        let mut kafka = Kafka { broker, process, watchdog };
        kafka.wait_until_ready()?;
        Ok(kafka)
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.broker.address()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }

    /// Starts it again, with the topics that it had. It must have ended.
    pub fn restart(&mut self) -> Result<(), TestbedError> {
        if self.process.is_running() {
            return Err(TestbedError::Refused("the broker is running".to_owned()));
        }
        let log = ServerProcess::log_path(&self.broker.home());
        fs::rename(&log, log.with_extension("before.log")).map_err(cannot("put the old log aside"))?;
        self.process = self.broker.launch()?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), TestbedError> {
        let (broker, log) = (self.broker.clone(), ServerProcess::log_path(&self.broker.home()));
        self.process.wait_until(START_PATIENCE, || broker.is_up(&log))
    }

    /// Lets the broker outlive this process.
    pub fn detach(self) -> (Broker, u32) {
        let pid = self.process.pid();
        self.watchdog.call_off();
        (self.broker, pid)
    }
}
