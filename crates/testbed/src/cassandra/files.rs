//! What a node is started with: `cassandra.yaml`, the log's configuration and the options of its Java.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::{AUTHORITY, Authority, Memory, Ring, Tls, certificates};
use crate::{
    error::{TestbedError, cannot},
    ports,
};

const EXPORTS: &[&str] = &[
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.compiler/com.sun.tools.javac.file",
];

const OPENS: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.rmi/sun.rmi.transport.tcp",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
    "jdk.naming.dns/com.sun.jndi.dns",
];

/// For speed of start, but for the last two: on one machine there is no ring to wait for.
const PROPERTIES: &[&str] = &[
    "-Dcassandra.ring_delay_ms=2000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.size_recorder_interval=2",
    "-Dcassandra-foreground=yes",
    "-Djava.net.preferIPv4Stack=true",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
];

/// Three nodes are to fit on a small machine.
const LITTLE_MEMORY: &[&str] = &["-Xms128m", "-Xmx512m", "-Xss512k"];

/// What `jvm-server.options` and `jvm17-server.options` say in Cassandra 5.0. Answers of half a mebibyte count as huge
/// in regions of one, and each would have the collector look for room.
const AS_SHIPPED: &[&str] = &[
    "-ea",
    "-da:net.openhft...",
    "-Xss256k",
    "-XX:+UseThreadPriorities",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseTLAB",
    "-XX:+ResizeTLAB",
    "-XX:+UseNUMA",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1RSetUpdatingPauseTimePercent=5",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
];

const LOGBACK: &str = "\
<configuration>
  <appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%date{HH:mm:ss.SSS} %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level=\"INFO\"><appender-ref ref=\"OUT\"/></root>
</configuration>
";

/// Writes the configuration of a node below its folder.
pub(super) fn write(ring: &Ring, number: u8, directory: &Path) -> Result<(), TestbedError> {
    let conf = directory.join("conf");
    fs::create_dir_all(&conf).map_err(cannot(format!("make {}", conf.display())))?;
    let yaml = yaml(ring, number) + &encryption(ring, number, &conf)?;
    let mut files = vec![("cassandra.yaml", yaml), ("logback.xml", LOGBACK.to_owned())];
    if let Some(datacenter) = ring.shape.datacenter(number) {
        files.push(("cassandra-rackdc.properties", format!("dc={datacenter}\nrack=rack1\n")));
    }
    for (name, text) in files {
        let file = conf.join(name);
        fs::write(&file, text).map_err(cannot(format!("write {}", file.display())))?;
    }
    Ok(())
}

/// Makes what a node needs to speak TLS, and says where it is.
fn encryption(ring: &Ring, number: u8, conf: &Path) -> Result<String, TestbedError> {
    if ring.shape.tls == Tls::Off {
        return Ok(String::new());
    }
    let authority = Authority::there(&ring.directory, AUTHORITY);
    let keystore = authority.keystore_for(ports::loopback(number), conf)?;
    let (keystore, password) = (keystore.display(), certificates::PASSWORD);
    let mut options = format!(
        "\
client_encryption_options:
  enabled: true
  optional: false
  store_type: PKCS12
  keystore: '{keystore}'
  keystore_password: {password}
"
    );
    if let Tls::Clients(certificate) = &ring.shape.tls {
        let truststore = conf.join("truststore.p12");
        certificates::trust(&truststore, certificate)?;
        let _ = write!(
            options,
            "  require_client_auth: true\n  truststore: '{}'\n  truststore_password: {password}\n",
            truststore.display()
        );
    }
    Ok(options)
}

fn yaml(ring: &Ring, number: u8) -> String {
    let (name, storage_port, cql_port) = (&ring.name, ring.storage_port, ring.cql_port);
    let (address, seed) = (ports::loopback(number), ports::loopback(1));
    let (storage, hints) = (ring.storage(number).0, ring.shape.hints);
    let data = storage.display();
    let snitch = match ring.shape.datacenter(number) {
        Some(_) => "GossipingPropertyFileSnitch",
        None => "SimpleSnitch",
    };
    let logins = match ring.shape.logins {
        true => "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n",
        false => "",
    };
    // `group`: an acknowledged write survives a kill, as it would with replicas on other machines; the default loses
    // the last seconds of a lone node. Time-outs are those of a machine that also builds.
    format!(
        "\
cluster_name: '{name}'
num_tokens: 16
allocate_tokens_for_local_replication_factor: 3
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: {snitch}
{logins}seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: '{seed}:{storage_port}'
listen_address: {address}
rpc_address: {address}
storage_port: {storage_port}
start_native_transport: true
native_transport_port: {cql_port}
data_file_directories: ['{data}/data']
commitlog_directory: '{data}/commitlog'
saved_caches_directory: '{data}/saved_caches'
hints_directory: '{data}/hints'
cdc_raw_directory: '{data}/cdc_raw'
commitlog_sync: group
commitlog_sync_group_window: 5ms
auto_snapshot: false
materialized_views_enabled: false
hinted_handoff_enabled: {hints}
memtable_allocation_type: heap_buffers
concurrent_compactors: 2
compaction_throughput: 0MiB/s
read_request_timeout: 10s
range_request_timeout: 20s
write_request_timeout: 10s
cas_contention_timeout: 5s
request_timeout: 20s
"
    )
}

/// The arguments of `java`, without the class to run.
pub(super) fn java_options(
    ring: &Ring,
    number: u8,
    directory: &Path,
    jars: &Path,
) -> Result<Vec<String>, TestbedError> {
    let (data, jmx_port) = (directory.display(), ring.jmx_ports[usize::from(number) - 1]);
    let agent = agent(jars)?;
    let mut options = vec![
        format!("-javaagent:{}", agent.display()),
        "-XX:+UseG1GC".to_owned(),
        "-XX:+ExitOnOutOfMemoryError".to_owned(),
        format!("-Dcassandra.jmx.local.port={jmx_port}"),
        format!("-Dcassandra.storagedir={data}"),
        format!("-Dcassandra.logdir={data}/logs"),
        format!("-Dcassandra.config=file://{data}/conf/cassandra.yaml"),
        format!("-Dlogback.configurationFile={data}/conf/logback.xml"),
    ];
    let memory = match ring.shape.memory {
        Memory::Little => LITTLE_MEMORY,
        Memory::AsShipped(mib) => {
            options.extend([format!("-Xms{mib}m"), format!("-Xmx{mib}m")]);
            AS_SHIPPED
        }
    };
    options.extend(memory.iter().chain(PROPERTIES).map(|&option| option.to_owned()));
    options.extend(EXPORTS.iter().map(|package| format!("--add-exports={package}=ALL-UNNAMED")));
    options.extend(OPENS.iter().map(|package| format!("--add-opens={package}=ALL-UNNAMED")));
    options.extend(["-cp".to_owned(), format!("{data}/conf:{}/*", jars.display())]);
    Ok(options)
}

/// Cassandra measures its objects with this one.
fn agent(jars: &Path) -> Result<PathBuf, TestbedError> {
    let entries = fs::read_dir(jars).map_err(cannot(format!("list {}", jars.display())))?;
    let mut names = entries.flatten().map(|entry| entry.path());
    let is_agent = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jamm-"));
    names.find(is_agent).ok_or_else(|| TestbedError::Refused(format!("{} has no jamm: delete it", jars.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassandra::Shape;

    #[test]
    fn every_node_has_its_own_address_and_all_share_their_ports_and_seed() {
        let ring = Ring {
            name: "ring-1".to_owned(),
            directory: "runs/ring-1".into(),
            cql_port: 1000,
            storage_port: 2000,
            jmx_ports: vec![3001, 3002],
            shape: Shape::of_nodes(2),
        };
        let two = yaml(&ring, 2);
        for line in [
            "cluster_name: 'ring-1'",
            "listen_address: 127.0.0.2",
            "      - seeds: '127.0.0.1:2000'",
            "native_transport_port: 1000",
            "commitlog_directory: 'runs/ring-1/node2/commitlog'",
        ] {
            assert!(two.lines().any(|found| found == line), "{line} is not in\n{two}");
        }
    }

    #[test]
    fn nodes_are_dealt_to_data_centres_in_their_order() {
        let shape = Shape { datacenters: vec![1, 2], ..Shape::of_nodes(3) };
        let places: Vec<_> = (1..=3).map(|number| shape.datacenter(number).unwrap()).collect();
        assert_eq!(places, ["dc1", "dc2", "dc2"]);
        assert_eq!(Shape::of_nodes(3).datacenter(2), None);
    }
}
