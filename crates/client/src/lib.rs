//! The Rust client of Anabranch: the messages of [`anabranch_api::v1`] over gRPC, with time limits and retries of what
//! is safe to send again. Knows nothing of the server but its interface.
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | [`Client`]: connecting, writes, single pages, namespaces, backfills |
//! | [`history`] | whole histories: page after page, or as one stream that survives lost connections |
//! | [`options`] | [`ClientOptions`]: time limits, TLS, retries |
//! | [`error`] | [`ClientError`], told apart by what the caller has to do |
//! | `origin` | what a server said, told from what befell the connection |
//! | `retry` | which failures are tried again, and when |
//! | `wait` | the one place that waits |

pub mod client;
pub mod error;
pub mod history;
pub mod options;
mod origin;
mod retry;
mod wait;

pub use anabranch_api::v1;
pub use client::Client;
pub use error::{ClientError, ErrorKind, FieldViolation};
pub use options::{ClientOptions, RetryPolicy, TlsOptions};
