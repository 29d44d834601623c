//! How a client connects, how long it waits, and how often it tries again.

use std::time::Duration;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long one attempt of a request may take, before the next server is asked; the server hears of it. Streams have no limit of
    /// their own.
    pub request_timeout: Duration,
    /// After so long without a word from a server of which something is awaited, it is asked whether it is there. When it doesn't
    /// say so for twice as long, the connection is given up for lost.
    pub keep_alive: Duration,
    /// What is tried again, and how often.
    pub retry: RetryPolicy,
    /// The largest answer that is taken.
    pub max_message_bytes: usize,
    /// Encrypts the connection; needed for addresses that begin with `https://`.
    pub tls: Option<TlsOptions>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(5),
            retry: RetryPolicy::default(),
            max_message_bytes: 64 << 20,
            tls: None,
        }
    }
}

/// Whom to trust over TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Certificates of the authorities that may vouch for the server, as PEM.
    pub ca_certificates: Vec<u8>,
    /// The name in the server's certificate, where it isn't the host of the address.
    pub server_name: Option<String>,
}

/// How often a request is sent, and how long to wait in between: each wait is drawn between half and the whole of a time
/// that doubles from `first_delay` up to `max_delay`, and is never shorter than what the server asked for.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often a request is sent at most; 1 means never again.
    pub attempts: u32,
    /// The wait before the second attempt.
    pub first_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// Sends everything once only.
    pub const NEVER: RetryPolicy = RetryPolicy { attempts: 1, first_delay: Duration::ZERO, max_delay: Duration::ZERO };
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { attempts: 5, first_delay: Duration::from_millis(50), max_delay: Duration::from_secs(2) }
    }
}
