//! The rules that a configuration must obey before the server starts.

use std::{fmt, net::SocketAddr, time::Duration};

use anabranch_model::{Bound, NamespaceName, Rules};

use super::{BusUrl, Config, StoreUrl, shared_namespaces};

/// A rule that a configuration breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting: `listen.grpc`.
    pub path: &'static str,
    /// What is wrong and what to do.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// What to do about a program that doesn't know Kafka.
pub(crate) const WITHOUT_KAFKA: &str =
    "this program was built without Kafka; build it with `cargo build --release --features kafka`";
const MIB: u64 = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);

impl Config {
    /// Every rule that this configuration breaks.
    pub fn validate(&self) -> Result<(), Vec<Problem>> {
        let problems = self.rules().problems.into_iter();
        let problems: Vec<Problem> =
            problems.map(|problem| Problem { path: problem.field, reason: problem.reason }).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The bounds of every setting, where the others are as they are here.
    pub fn bounds(&self) -> Vec<Bound> {
        self.rules().bounds
    }

    fn rules(&self) -> Rules {
        let mut check = Rules::default();
        self.check_listen(&mut check);
        self.check_store(&mut check);
        self.check_cassandra(&mut check);
        self.check_bus(&mut check);
        self.check_limits(&mut check);
        self.check_engine(&mut check);
        self.check_splits(&mut check);
        self.check_tuning(&mut check);
        self.check_traces(&mut check);
        check
    }

    fn check_listen(&self, check: &mut Rules) {
        let listen = &self.listen;
        for (path, flag, address) in [("listen.grpc", "--grpc", listen.grpc), ("listen.http", "--http", listen.http)] {
            check.that(path, listen.insecure || address.ip().to_canonical().is_loopback(), || exposed(flag, address));
        }
        let same = listen.grpc == listen.http && listen.grpc.port() != 0;
        check.that("listen.http", !same, || format!("{} is taken by listen.grpc; name another port", listen.http));
        let (certificate, key) = (listen.tls_certificate.is_some(), listen.tls_key.is_some());
        check.that("listen.tls_key", key || !certificate, || "is needed beside listen.tls_certificate".to_owned());
        check.that("listen.tls_certificate", certificate || !key, || "is needed beside listen.tls_key".to_owned());
    }

    fn check_store(&self, check: &mut Rules) {
        let store = &self.store;
        check.size("store.cache", store.cache.0, MIB, u64::MAX);
        check.size("store.memtable", store.memtable.0, 64 * 1024, 4095 * MIB);
        check.size("store.memtable_total", store.memtable_total.0, store.memtable.0, u64::MAX);
        check.size("store.journal", store.journal.0, 64 * MIB, u64::MAX);
        check.range("store.workers", store.workers, 1, 256);
        check.range("store.max_tables", store.max_tables, 1, 1_000_000);
        check.that("store.data", !store.data.as_os_str().is_empty(), || "names no directory".to_owned());
    }

    fn check_cassandra(&self, check: &mut Rules) {
        let (cassandra, second) = (&self.cassandra, Duration::from_secs(1));
        let (user, password) = (cassandra.user.is_some(), cassandra.password_file.is_some());
        check.that("cassandra.password_file", password || !user, || "is needed beside cassandra.user".to_owned());
        check.that("cassandra.user", user || !password, || "is needed beside cassandra.password_file".to_owned());
        let (certificate, key) = (cassandra.tls_certificate.is_some(), cassandra.tls_key.is_some());
        let pair = certificate == key;
        check.that("cassandra.tls_key", pair, || "goes together with cassandra.tls_certificate".to_owned());
        let trusted = cassandra.tls_ca.is_some() || !certificate;
        check.that("cassandra.tls_ca", trusted, || "is needed beside cassandra.tls_certificate".to_owned());
        for name in shared_namespaces(&cassandra.shared_keyspace) {
            let name = NamespaceName::new(name);
            check.that("cassandra.shared_keyspace", name.is_ok(), || {
                name.err().map_or_else(String::new, |e| e.to_string())
            });
        }
        check.range("cassandra.connect_timeout", cassandra.connect_timeout, second / 10, HOUR);
        check.range("cassandra.schema_timeout", cassandra.schema_timeout, second, HOUR);
        check.size("cassandra.max_batch", cassandra.max_batch.0, 4 * 1024, 8 * MIB);
        check.range("cassandra.hedge_permille", cassandra.hedge_permille, 0, 1000);
        check.range("cassandra.hedge_after", cassandra.hedge_after, second / 1000, HOUR);
        check.range("cassandra.max_tables", cassandra.max_tables, 1, 1_000_000);
        if let Some(options) = self.cassandra_options() {
            let wrong = options.check().err().map(|error| error.to_string());
            check.that("cassandra", wrong.is_none(), || wrong.unwrap_or_default());
        }
    }

    fn check_bus(&self, check: &mut Rules) {
        let kafka = &self.kafka;
        if self.bus.url != BusUrl::InProcess {
            check.that("bus.url", cfg!(feature = "kafka"), || WITHOUT_KAFKA.to_owned());
            let shared = self.store.url != StoreUrl::Embedded;
            check.that("bus.url", shared, || {
                "the embedded store is this process's alone, so nobody could work on what Kafka brings; leave `in-process`"
                    .to_owned()
            });
        }
        check.that("kafka.group", !kafka.group.is_empty(), || "names no group".to_owned());
        check.range("kafka.partitions", kafka.partitions, 1, 10_000);
        check.range("kafka.replication", kafka.replication, 1, 100);
        check.range("kafka.timeout", kafka.timeout, Duration::from_millis(100), HOUR);
        check.range("kafka.patience", kafka.patience, Duration::from_millis(100), HOUR);
    }

    fn check_limits(&self, check: &mut Rules) {
        let limits = &self.limits;
        check.size("limits.max_message", limits.max_message.0, 64 * 1024, 1 << 30);
        check.size("limits.max_body", limits.max_body.0, 64 * 1024, 1 << 30);
        check.range("limits.max_requests", limits.max_requests, 1, 1_000_000);
        check.range("limits.max_connections", limits.max_connections, 1, 1_000_000);
        check.range("limits.shutdown_grace", limits.shutdown_grace, Duration::ZERO, HOUR);
    }

    fn check_engine(&self, check: &mut Rules) {
        let engine = &self.engine;
        let ms = Duration::from_millis;
        check.size("engine.max_write_in_flight", engine.max_write_in_flight.0, MIB, 1 << 40);
        check.size("engine.queue_size", engine.queue_size.0, 64 * 1024, 1 << 40);
        check.range("engine.queue_events", engine.queue_events, 1, 1_000_000_000);
        check.range("engine.max_reads_in_flight", engine.max_reads_in_flight, 1, 1_000_000);
        check.range("engine.max_reads_waiting", engine.max_reads_waiting, 0, 1_000_000);
        check.range("engine.max_store_reads", engine.max_store_reads, 2, 65_536);
        // One less: a small read always finds a place that no whole history can take.
        check.range("engine.max_heavy_store_reads", engine.max_heavy_store_reads, 1, engine.max_store_reads.max(2) - 1);
        // One page alone must always find room.
        let page = engine.max_fan_out;
        check.range("engine.max_store_reads_waiting", engine.max_store_reads_waiting, page, 1_000_000);
        check.range("engine.max_fan_out", engine.max_fan_out, 1, 4096);
        check.range("engine.drain_timeout", engine.drain_timeout, Duration::ZERO, HOUR);
        check.range("engine.refresh_interval", engine.refresh_interval, ms(10), HOUR);
        check.range("engine.max_clock_skew", engine.max_clock_skew, Duration::ZERO, ms(60_000));
        check.range("engine.lease", engine.lease, ms(1000), HOUR);
        check.range("engine.lifecycle_interval", engine.lifecycle_interval, ms(100), HOUR);
        check.range("engine.meta_timeout", engine.meta_timeout, ms(10), ms(600_000));
        check.range("engine.table_timeout", engine.table_timeout, ms(10), ms(3_600_000));
        if !engine.orphans_after.is_zero() {
            // A table is made before its slice is recorded: it must not look left over meanwhile.
            let least = 4 * (engine.table_timeout + engine.meta_timeout);
            check.range("engine.orphans_after", engine.orphans_after, least, 720 * HOUR);
        }
        check.range("engine.delete_grace", engine.delete_grace, Duration::ZERO, 720 * HOUR);
    }

    fn check_splits(&self, check: &mut Rules) {
        let splits = &self.splits;
        let (ms, day) = (Duration::from_millis, 24 * HOUR);
        check.range("splits.workers", splits.workers, 0, 256);
        check.size("splits.bytes_per_second", splits.bytes_per_second.0, 64 * 1024, 1 << 40);
        check.size("splits.checkpoint", splits.checkpoint.0, 64 * 1024, 1 << 40);
        check.range("splits.sweep_interval", splits.sweep_interval, ms(100), day);
        check.range("splits.scrub_interval", splits.scrub_interval, ms(60_000), 3650 * day);
        check.range("splits.extend_interval", splits.extend_interval, ms(1000), 30 * day);
        check.range("splits.max_attempts", splits.max_attempts, 1, 1000);
        check.range("splits.first_retry", splits.first_retry, ms(10), splits.longest_retry);
        check.range("splits.longest_retry", splits.longest_retry, ms(10), day);
        check.range("splits.max_waiting", splits.max_waiting, 1, 1_000_000);
        check.range("splits.max_comparisons", splits.max_comparisons, 1, 1_000_000);
        check.range("splits.max_detections", splits.max_detections, 1, 1_000_000);
    }

    fn check_tuning(&self, check: &mut Rules) {
        let tuning = &self.tuning;
        let (least, most) = (Duration::from_secs(1), 30 * 24 * HOUR);
        let intervals =
            [("tuning.measure_interval", tuning.measure_interval), ("tuning.tune_interval", tuning.tune_interval)];
        for (path, interval) in intervals.into_iter().filter(|(_, interval)| !interval.is_zero()) {
            check.range(path, interval, least, most);
        }
        check.range("tuning.measure_percent", tuning.measure_percent, 1, 50);
    }

    fn check_traces(&self, check: &mut Rules) {
        let traces = &self.traces;
        let uri = traces.endpoint.parse::<axum::http::Uri>();
        let usable = uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
        check.that("traces.endpoint", traces.endpoint.is_empty() || usable, || {
            format!("`{}` is no address of a collector; write it as http://HOST:4317", traces.endpoint)
        });
        check.range("traces.one_in", traces.one_in, 1, 1_000_000);
        check.range("traces.max_spans", traces.max_spans, 1, 1_000_000);
        check.range("traces.timeout", traces.timeout, Duration::from_millis(10), Duration::from_secs(60));
    }
}

fn exposed(flag: &str, address: SocketAddr) -> String {
    format!(
        "{address} can be reached from other machines, and there is no authentication yet: anybody there could read, write \
         and delete everything (TLS hides what is said, not who says it). Listen on 127.0.0.1, or, if the network is \
         yours alone, say so: `anabranch serve {flag} {address} --insecure`, or `insecure = true` under `[listen]`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_obey_the_rules() {
        assert_eq!(Config::default().validate(), Ok(()));
    }

    #[test]
    fn every_broken_rule_is_named() {
        let text = "[listen]\ngrpc = \"0.0.0.0:7400\"\ntls_key = \"key.pem\"\n[store]\nmemtable = 1\nworkers = 0\n\
                    [limits]\nmax_requests = 0\n[engine]\nlease = \"1ms\"\n";
        let problems = Config::from_toml(text).unwrap().validate().unwrap_err();
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path).collect();
        let expected = [
            "listen.grpc",
            "listen.tls_certificate",
            "store.memtable",
            "store.workers",
            "limits.max_requests",
            "engine.lease",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn other_machines_are_let_in_only_when_told_so() {
        for (address, open) in [
            ("127.0.0.1:1", false),
            ("127.9.9.9:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("10.0.0.1:1", true),
        ] {
            let mut config = Config::default();
            config.listen.grpc = address.parse().unwrap();
            assert_eq!(config.validate().is_err(), open, "{address}");
            config.listen.insecure = true;
            assert_eq!(config.validate(), Ok(()), "{address}");
        }
        let mut config = Config::default();
        config.listen.grpc = "0.0.0.0:7400".parse().unwrap();
        insta::assert_snapshot!(config.validate().unwrap_err()[0], @"listen.grpc: 0.0.0.0:7400 can be reached from other machines, and there is no authentication yet: anybody there could read, write and delete everything (TLS hides what is said, not who says it). Listen on 127.0.0.1, or, if the network is yours alone, say so: `anabranch serve --grpc 0.0.0.0:7400 --insecure`, or `insecure = true` under `[listen]`");
    }
}
