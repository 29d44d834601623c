//! What every command has: the clock, the server's address, and how to print.

use std::{fs, time::Duration};

use anabranch_client::{Client, ClientError, ClientOptions, ErrorKind, RetryPolicy, TlsOptions};
use anabranch_model::Timestamp;
use anabranch_runtime::Env;

use crate::{
    args::{Global, OutputChoice},
    failure::{Exit, Failure, Outcome},
    output::{Colors, Format},
    times::show_count,
};

/// Violations that are printed; the rest is counted.
pub(crate) const MOST_DETAILS: usize = 20;

/// One run of the command.
pub(crate) struct Session {
    pub(crate) env: Env,
    pub(crate) global: Global,
    pub(crate) format: Format,
    pub(crate) colors: Colors,
}

impl Session {
    pub(crate) fn new(global: Global) -> Self {
        let format = match global.output {
            // Commands that don't print TOML are refused before they begin.
            OutputChoice::Table | OutputChoice::Toml => Format::Table,
            OutputChoice::Json => Format::Json,
            OutputChoice::Jsonl => Format::Jsonl,
        };
        Session { env: Env::system(), format, colors: Colors::decide(global.color), global }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// A connection to the server.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        self.connect_with(RetryPolicy::default()).await
    }

    /// A connection whose requests may take at least so long.
    pub(crate) async fn connect_patiently(&self, patience: Duration) -> Outcome<Client> {
        self.connect_for(self.global.timeout.max(patience), RetryPolicy::default()).await
    }

    /// A connection that tries requests again as `retry` says.
    pub(crate) async fn connect_with(&self, retry: RetryPolicy) -> Outcome<Client> {
        self.connect_for(self.global.timeout, retry).await
    }

    async fn connect_for(&self, timeout: Duration, retry: RetryPolicy) -> Outcome<Client> {
        let tls = match &self.global.tls_ca {
            Some(path) => {
                let ca_certificates = fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
                Some(TlsOptions { ca_certificates, server_name: None })
            }
            None => None,
        };
        let options = ClientOptions {
            connect_timeout: timeout.min(ClientOptions::default().connect_timeout),
            request_timeout: timeout,
            retry,
            tls,
            ..ClientOptions::default()
        };
        Client::connect_with(&self.global.server, options).await.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &ClientError) -> Failure {
        if error.kind() == ErrorKind::Address {
            let failure = Failure::usage(error.message());
            return match self.global.server.starts_with("https://") {
                true => failure.hint("--tls-ca FILE names the certificates to trust"),
                false => failure,
            };
        }
        // The hint says it better.
        let message = error.message().split("; is `anabranch serve`").next().unwrap_or_default();
        Failure::new(Exit::Unavailable, message)
            .hint("start one with `anabranch serve`, or name another with --server URL")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Address => Exit::Usage,
            ErrorKind::Invalid
            | ErrorKind::OutOfRange
            | ErrorKind::AlreadyExists
            | ErrorKind::Denied
            | ErrorKind::FailedPrecondition => Exit::Refused,
            ErrorKind::Conflict | ErrorKind::Overloaded | ErrorKind::Timeout | ErrorKind::Unavailable => {
                Exit::Unavailable
            }
            ErrorKind::Broken => Exit::Failure,
        };
        let violations = error.violations();
        // What a gRPC client makes of an answer in JSON.
        if error.message().contains("invalid compression flag") {
            return Failure::new(exit, "something answers there, but it doesn't speak gRPC")
                .hint("--server needs the gRPC address of a server, port 7400 by default; HTTP is on another one");
        }
        if violations.is_empty() {
            return Failure::new(exit, error.message());
        }
        let listed = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.reason));
        refusal(exit, listed.collect(), violations.len() as u64)
    }
}

/// Everything that is wrong, one line each, as far as a person would read it. `reasons` may be only the first of `count`.
pub(crate) fn refusal(exit: Exit, reasons: Vec<String>, count: u64) -> Failure {
    if let [reason] = reasons.as_slice() {
        return Failure::new(exit, reason);
    }
    let mut failure = Failure::new(exit, format!("refused for {} reasons", show_count(count)));
    failure.details = reasons;
    failure.details.truncate(MOST_DETAILS);
    match count - failure.details.len() as u64 {
        0 => failure,
        more => failure.detail(format!("and {} more", show_count(more))),
    }
}
