//! The connection to the cluster: who we are, whom we ask first, and what is tried again by itself.

use std::{path::Path, sync::Arc, time::Duration};

use anabranch_runtime::Env;
use anabranch_store::hedge::Hedge;
use scylla::{
    client::{
        execution_profile::{ExecutionProfile, ExecutionProfileBuilder, ExecutionProfileHandle},
        session::{Session, TlsContext},
        session_builder::SessionBuilder,
    },
    policies::{
        load_balancing::DefaultPolicy,
        retry::{DefaultRetryPolicy, FallthroughRetryPolicy},
    },
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{CassandraOptions, ConnectError, Level, TlsOptions, hedge::SlowReads, refusal};

/// A node that stands still without closing its connections is noticed after this, and left out.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// The ways to send a statement.
#[derive(Debug)]
pub(crate) struct Profiles {
    /// Reads: they change nothing, so the driver may try them again.
    pub(crate) reads: ExecutionProfileHandle,
    /// Reads that may be sent twice.
    pub(crate) hedged_reads: ExecutionProfileHandle,
    /// Everything that changes something. Each attempt is ours to judge: the driver tells only of its last one, and
    /// "not available" after a time-out must not read as "nothing was changed".
    pub(crate) changes: ExecutionProfileHandle,
    /// Reads that see what was acknowledged in any data centre.
    pub(crate) reads_everywhere: ExecutionProfileHandle,
    /// Changes that reads in every data centre see.
    pub(crate) changes_everywhere: ExecutionProfileHandle,
}

/// Connects, and makes the profiles.
pub(crate) async fn connect(
    options: &CassandraOptions,
    hedge: &Arc<Hedge>,
    env: &Env,
) -> Result<(Session, Profiles), ConnectError> {
    let profiles = profiles(options, hedge);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        // A request isn't held back for others to join it: somebody waits for most of them.
        .write_coalescing(false)
        .schema_agreement_interval(Duration::from_millis(50))
        .schema_agreement_timeout(options.schema_timeout)
        .default_execution_profile_handle(profiles.changes.clone());
    if let Some(credentials) = &options.credentials {
        builder = builder.user(&credentials.user, &credentials.password);
    }
    if let Some(tls) = &options.tls {
        builder = builder.tls_context(Some(TlsContext::Rustls023(Arc::new(client_config(tls)?))));
    }
    match builder.build().await {
        Ok(session) => Ok((session, profiles)),
        Err(error) => Err(refusal::explain(&error, options, env).await),
    }
}

fn profiles(options: &CassandraOptions, hedge: &Arc<Hedge>) -> Profiles {
    let mut balancing = DefaultPolicy::builder().token_aware(true).permit_dc_failover(false);
    if let Some(datacenter) = &options.local_datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    let balancing = balancing.build();
    // A request without a deadline of its own isn't sent: every statement sets one.
    let profile = || -> ExecutionProfileBuilder {
        ExecutionProfile::builder()
            .load_balancing_policy(balancing.clone())
            .request_timeout(Some(options.metadata_timeout))
            .consistency(options.read_consistency.to_driver())
    };
    let reads = || profile().retry_policy(Arc::new(DefaultRetryPolicy::new()));
    let changes = |level: Level| {
        profile()
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .consistency(level.to_driver())
            .build()
            .into_handle()
    };
    let (reads_everywhere, changes_everywhere) = options.levels_everywhere();
    Profiles {
        reads: reads().build().into_handle(),
        hedged_reads: reads()
            .speculative_execution_policy(Some(Arc::new(SlowReads(hedge.clone()))))
            .build()
            .into_handle(),
        changes: changes(options.write_consistency),
        reads_everywhere: reads().consistency(reads_everywhere.to_driver()).build().into_handle(),
        changes_everywhere: changes(changes_everywhere),
    }
}

pub(crate) fn client_config(options: &TlsOptions) -> Result<ClientConfig, ConnectError> {
    let unusable = |path: &Path, reason: String| ConnectError::Tls { path: path.to_owned(), reason };
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, ConnectError> {
        let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let found = found.map_err(|error| unusable(path, error.to_string()))?;
        if found.is_empty() { Err(unusable(path, "it holds no certificate".to_owned())) } else { Ok(found) }
    };
    let mut trusted = RootCertStore::empty();
    for certificate in certificates(&options.ca)? {
        trusted.add(certificate).map_err(|error| unusable(&options.ca, error.to_string()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&options.ca, error.to_string()))?
        .with_root_certificates(trusted);
    let Some((certificate, key)) = &options.client else { return Ok(builder.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error.to_string()))?;
    builder
        .with_client_auth_cert(certificates(certificate)?, private)
        .map_err(|error| unusable(certificate, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_certificate_is_named() {
        let options = TlsOptions { ca: "no-such-file.pem".into(), client: None };
        let error = client_config(&options).unwrap_err().to_string();
        assert!(error.contains("no-such-file.pem"), "{error}");
    }
}
