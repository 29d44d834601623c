//! The server: gRPC and HTTP/JSON over one engine, on the embedded store or on a cluster; limits, configuration, wiring.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | [`Config`]: what a configuration file may say, with its rules |
//! | [`start`] | [`Server`]: starting, where it listens, stopping without losing anything |
//! | `backend` | the store and the bus that are configured; waiting for those that are away |
//! | [`worker`] | [`Worker`]: splits wide partitions on a shared store, and serves nobody |
//! | [`tail`] | [`Tail`]: watching detections pass on Kafka |
//! | `doors` | what is answered while a server waits for its store |
//! | `listen`, `tls` | sockets, TLS, connections, and their graceful end |
//! | `limits` | how many requests are worked on at once; panics become errors |
//! | `operations` | every rpc once, whoever asks: messages in, messages out |
//! | `convert` | messages to what the engine takes, and back |
//! | `failure` | an error with all that any protocol may tell of it |
//! | `grpc` | the services, and failures as a status with details |
//! | `http` | the routes, and failures as JSON |
//! | `dashboard` | the pages for people at `/` and `/ui/`, drawn by the server |
//! | `observe` | what is counted, and `/metrics` |
//! | [`traces`] | [`Traces`]: spans of requests and splits, sent to a collector |
//! | `timed_store` | what calls of the store take |

mod backend;
pub mod config;
mod convert;
mod dashboard;
mod doors;
mod failure;
mod grpc;
mod http;
mod limits;
mod listen;
mod observe;
mod operations;
pub mod start;
pub mod tail;
mod timed_store;
mod tls;
pub mod traces;
pub mod worker;

pub use backend::cluster_options;
pub use config::{BusUrl, ByteSize, Config, ConfigError, Field, Kind, LogFormat, Problem, StoreUrl};
pub use start::{Server, StartError};
pub use tail::{PassingDetection, Tail};
pub use traces::Traces;
pub use worker::Worker;
