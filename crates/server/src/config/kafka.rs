//! What Kafka is connected with, and the file of settings that are handed to librdkafka as they are.

use std::collections::BTreeMap;

use anabranch_bus::{KafkaOptions, Unusable};

use super::{Config, Problem};
use crate::StartError;

const FILE: &str = "kafka.settings_file";

impl Config {
    /// What Kafka is connected with.
    pub(crate) fn kafka_options(&self, brokers: &[String], topic: Option<&str>) -> Result<KafkaOptions, StartError> {
        let kafka = &self.kafka;
        let mut options = KafkaOptions::new(brokers);
        if let Some(topic) = topic {
            options.topic = topic.to_owned();
            options.dead_letter_topic = format!("{topic}.dead");
        }
        options.group.clone_from(&kafka.group);
        options.partitions = i32::try_from(kafka.partitions).unwrap_or(i32::MAX);
        options.replication = i32::try_from(kafka.replication).unwrap_or(i32::MAX);
        options.capacity = self.splits.max_detections;
        (options.timeout, options.patience) = (kafka.timeout, kafka.patience);
        if let Some(file) = &kafka.settings_file {
            options.settings = settings(&crate::backend::read(FILE, file)?).map_err(StartError::Config)?;
        }
        Ok(options)
    }

    /// Why a start is refused over what librdkafka said.
    pub(crate) fn kafka_refused(&self, unusable: &Unusable) -> StartError {
        let path = if self.kafka.settings_file.is_some() { FILE } else { "kafka" };
        StartError::Config(vec![Problem { path, reason: unusable.to_string() }])
    }
}

/// The settings in a file, `name=value` a line. What can never work is refused, since waiting for the broker wouldn't help.
fn settings(text: &str) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let mut settings = BTreeMap::new();
    let mut problems = Vec::new();
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    for (line, number) in lines {
        let mut wrong =
            |reason: &str| problems.push(Problem { path: FILE, reason: format!("line {number}: {reason}") });
        let Some((name, value)) = line.split_once('=') else {
            wrong("is not `name=value`");
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if let Some(reason) = not_built_in(name, value) {
            wrong(&format!("`{name}={value}` {reason}"));
        }
        settings.insert(name.to_owned(), value.to_owned());
    }
    let has = |name: &str| settings.contains_key(name);
    let sasl = settings.get("security.protocol").filter(|value| value.to_ascii_uppercase().starts_with("SASL"));
    if let Some(protocol) = sasl
        && !has("sasl.mechanism")
        && !has("sasl.mechanisms")
    {
        let reason = format!(
            "`security.protocol={protocol}` needs `sasl.mechanism=PLAIN` beside it: GSSAPI, the default, isn't built in"
        );
        problems.push(Problem { path: FILE, reason });
    }
    if problems.is_empty() { Ok(settings) } else { Err(problems) }
}

/// Why a setting can't be fulfilled, if it can't: TLS, and every way to say who one is but PLAIN, need libraries that aren't built in.
/// docs/decisions/0008 has the reasons.
fn not_built_in(name: &str, value: &str) -> Option<&'static str> {
    let value = value.to_ascii_uppercase();
    let tls = name.starts_with("ssl.") || name == "security.protocol" && value.ends_with("SSL");
    let mechanism = matches!(name, "sasl.mechanism" | "sasl.mechanisms") && value != "PLAIN";
    if tls {
        return Some(
            "needs TLS towards Kafka, which isn't built in; on a network of your own take SASL_PLAINTEXT or PLAINTEXT",
        );
    }
    mechanism.then_some("isn't built in; PLAIN is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_line_by_line() {
        let text = "# who we are\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\nsasl.username=a=b\n";
        let found = settings(text).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [("sasl.mechanism", "PLAIN"), ("sasl.username", "a=b"), ("security.protocol", "SASL_PLAINTEXT")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_login_needs_a_mechanism_that_is_built_in() {
        let problems = settings("security.protocol=SASL_PLAINTEXT\nsasl.username=a\n").unwrap_err();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(problems.join("\n"), @"kafka.settings_file: `security.protocol=SASL_PLAINTEXT` needs `sasl.mechanism=PLAIN` beside it: GSSAPI, the default, isn't built in");
    }

    /// Without a broker anywhere near.
    #[test]
    fn what_librdkafka_does_not_know_is_refused_by_name() {
        for (text, named) in
            [("sesion.timeout.ms=1\n", "`sesion.timeout.ms`"), ("session.timeout.ms=soon\n", "`session.timeout.ms`")]
        {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("kafka.properties");
            std::fs::write(&file, text).unwrap();
            let mut config = Config::default();
            config.kafka.settings_file = Some(file);
            let options = config.kafka_options(&["127.0.0.1:1".to_owned()], None).unwrap();
            let unusable = anabranch_bus::KafkaBus::open(options, anabranch_runtime::Env::system()).err().unwrap();
            let told = config.kafka_refused(&unusable).to_string();
            assert!(told.contains("kafka.settings_file: ") && told.contains(named), "{told}");
        }
    }

    #[test]
    fn what_can_never_work_is_refused_with_its_line() {
        let text = "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nssl.ca.location=ca.pem\nretries\n";
        let problems = settings(text).unwrap_err();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(problems.join("\n"), @r"
        kafka.settings_file: line 1: `security.protocol=sasl_ssl` needs TLS towards Kafka, which isn't built in; on a network of your own take SASL_PLAINTEXT or PLAINTEXT
        kafka.settings_file: line 2: `sasl.mechanism=SCRAM-SHA-512` isn't built in; PLAIN is
        kafka.settings_file: line 3: `ssl.ca.location=ca.pem` needs TLS towards Kafka, which isn't built in; on a network of your own take SASL_PLAINTEXT or PLAINTEXT
        kafka.settings_file: line 4: is not `name=value`
        ");
    }
}
