//! TLS for both addresses, by rustls with ring.

use std::{path::Path, sync::Arc};

use thiserror::Error;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};

use crate::config::Listen;

/// Why TLS can't be offered.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file can't be read, or isn't PEM.
    #[error("{setting} = {file}: {source}; it must be a PEM file that this process may read")]
    File {
        /// Which setting names it.
        setting: &'static str,
        /// Which file.
        file: String,
        /// What is wrong.
        source: pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error(
        "listen.tls_certificate = {file} holds no certificate; it must hold the server's own, then those that vouch for it"
    )]
    Empty {
        /// Which file.
        file: String,
    },
    /// Certificate and key can't be used together.
    #[error("the certificate and the key can't be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// What a configuration asks for; `None` when it doesn't ask for TLS. `protocols` are offered in this order.
pub(crate) fn acceptor(listen: &Listen, protocols: &[&[u8]]) -> Result<Option<TlsAcceptor>, TlsError> {
    let (Some(certificate), Some(key)) = (&listen.tls_certificate, &listen.tls_key) else { return Ok(None) };
    let certificates = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| failed("listen.tls_key", key, source))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let setting = "listen.tls_certificate";
    let found = CertificateDer::pem_file_iter(file).map_err(|source| failed(setting, file, source))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|source| failed(setting, file, source))?;
    if found.is_empty() { Err(TlsError::Empty { file: file.display().to_string() }) } else { Ok(found) }
}

fn failed(setting: &'static str, file: &Path, source: pem::Error) -> TlsError {
    TlsError::File { setting, file: file.display().to_string(), source }
}
