//! What it means that no connection comes about: nobody is there, which may pass, or somebody is there and won't have
//! us, which waiting doesn't mend.

use std::{io, sync::Arc};

use anabranch_runtime::Env;
use scylla::{
    errors::{
        BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError,
        MetadataError, NewSessionError,
    },
    frame::frame_errors::FrameHeaderParseError,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, InvalidMessage, RootCertStore, crypto::ring, pki_types::ServerName},
};

use crate::{CassandraOptions, ConnectError, session::client_config};

/// How Cassandra begins when it couldn't look a login up, which is no verdict.
const NOT_LOOKED_UP: &str = "Unable to perform authentication";

/// Asks a node what it offers: version 4, no flags, stream 0, OPTIONS, nothing more.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

/// Why a node won't have us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It wants to know who this is.
    Nameless,
    /// It doesn't know the name, or not with this password.
    WrongLogin,
    /// It speaks TLS only.
    WantsTls,
    /// It doesn't speak TLS.
    NoTls,
    /// Its certificate isn't one that is trusted.
    Untrusted,
    /// It doesn't trust ours, or misses it.
    DoesNotTrustUs,
}

/// What to tell of a connection that didn't come about.
pub(crate) async fn explain(error: &NewSessionError, options: &CassandraOptions, env: &Env) -> ConnectError {
    let (nodes, reason) = (options.contact_points.join(", "), error.to_string());
    let refusal = match last_connection(error) {
        Some(last) => match refusal(last) {
            // A node that wants TLS closes what isn't; so does one that is about to end. And where a node says why, the driver may
            // not have heard it.
            None if is_broken(last) => asked_again(options, env).await,
            refusal => refusal,
        },
        None => None,
    };
    match refusal {
        Some(refusal) => ConnectError::Refused { nodes, reason, advice: advice(refusal, options) },
        None => ConnectError::Unreachable { nodes, reason },
    }
}

fn last_connection(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
        })) => Some(last_connection_error),
        _ => None,
    }
}

fn is_broken(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::BrokenConnection(_) => true,
        ConnectionError::ConnectionSetupRequestError(error) => {
            matches!(error.get_error(), ConnectionSetupRequestErrorKind::BrokenConnection(_))
        }
        _ => false,
    }
}

/// What the node, or TLS, said no to; `None` when nobody said no.
fn refusal(error: &ConnectionError) -> Option<Refusal> {
    use ConnectionSetupRequestErrorKind as Setup;
    let broken = match error {
        ConnectionError::IoError(error) => return refused_by_tls(error),
        ConnectionError::BrokenConnection(broken) => broken,
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            Setup::DbError(DbError::AuthenticationError, why) if why.starts_with(NOT_LOOKED_UP) => return None,
            Setup::DbError(DbError::AuthenticationError | DbError::Unauthorized, _) => {
                return Some(Refusal::WrongLogin);
            }
            Setup::MissingAuthentication => return Some(Refusal::Nameless),
            Setup::BrokenConnection(broken) => broken,
            _ => return None,
        },
        _ => return None,
    };
    match broken.downcast_ref::<BrokenConnectionErrorKind>()? {
        BrokenConnectionErrorKind::WriteError(error) => refused_by_tls(error),
        BrokenConnectionErrorKind::FrameHeaderParseError(FrameHeaderParseError::HeaderIoError(error)) => {
            refused_by_tls(error)
        }
        _ => None,
    }
}

fn refused_by_tls(error: &io::Error) -> Option<Refusal> {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())? {
        rustls::Error::InvalidCertificate(_) => Some(Refusal::Untrusted),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(Refusal::NoTls),
        rustls::Error::AlertReceived(_) => Some(Refusal::DoesNotTrustUs),
        _ => None,
    }
}

fn advice(refusal: Refusal, options: &CassandraOptions) -> String {
    let user = options.credentials.as_ref().map(|credentials| credentials.user.as_str()).unwrap_or_default();
    let ca = options.tls.as_ref().map(|tls| tls.ca.display().to_string()).unwrap_or_default();
    match refusal {
        Refusal::Nameless => "it wants a login: set cassandra.user and cassandra.password_file".to_owned(),
        Refusal::WrongLogin => format!(
            "it doesn't let `{user}` in: correct cassandra.user, or the password in the file that \
             cassandra.password_file names"
        ),
        Refusal::WantsTls => "it speaks TLS only: name the certificate of whoever signed the nodes' certificates in \
             cassandra.tls_ca"
            .to_owned(),
        Refusal::NoTls => {
            "it doesn't speak TLS: leave cassandra.tls_ca out, or turn on client_encryption_options of the nodes"
                .to_owned()
        }
        Refusal::Untrusted => format!(
            "its certificate isn't trusted: {ca} (cassandra.tls_ca) must hold the certificate of whoever signed it, and \
             it must be in force and name the node's IP address"
        ),
        Refusal::DoesNotTrustUs => "it doesn't accept this client's certificate: set cassandra.tls_certificate and \
             cassandra.tls_key to ones that the nodes trust"
            .to_owned(),
    }
}

/// What any of the nodes says by TLS to one who asks what it offers, and listens. Without TLS it is greeted by it all the same.
async fn asked_again(options: &CassandraOptions, env: &Env) -> Option<Refusal> {
    let config = match &options.tls {
        Some(tls) => client_config(tls).ok()?,
        // Nothing is trusted: to be shown a certificate is enough.
        None => ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth(),
    };
    let connector = TlsConnector::from(Arc::new(config));
    for node in &options.contact_points {
        let greeting = async {
            let stream = TcpStream::connect(node).await?;
            let name = ServerName::from(stream.peer_addr()?.ip());
            let mut stream = connector.connect(name, stream).await?;
            // A node that lets us in answers; one that doesn't may have closed, with its reason still to be read.
            let _ = stream.write_all(&OPTIONS).await;
            stream.read_u8().await
        };
        let Ok(Err(error)) = env.timeout(options.connect_timeout, greeting).await else { continue };
        match refused_by_tls(&error) {
            Some(Refusal::Untrusted) if options.tls.is_none() => return Some(Refusal::WantsTls),
            Some(refusal) if options.tls.is_some() => return Some(refusal),
            _ => {}
        }
    }
    None
}
