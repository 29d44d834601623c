//! Nodes that want a login and speak TLS only: who has what they want is served, and who hasn't is told what to do, at
//! once, and never waits for something that doesn't come.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anabranch_runtime::Env;
use anabranch_store::{
    CasOutcome, MetaKey, Store,
    suite::fixture::{contents, make_table, partition, row, write},
};
use anabranch_store_cassandra::{CassandraOptions, CassandraStore, ConnectError, Credentials, Replication, TlsOptions};
use anabranch_testbed::{Authority, Cassandra, Shape, Tls};
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use scylla::client::{
    session::{Session, TlsContext},
    session_builder::SessionBuilder,
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{faults::TURN, fixture};

/// A refusal comes at once; a node on a busy machine takes a while to say anything.
const AT_ONCE: Duration = Duration::from_secs(30);

async fn start(tls: Tls) -> Cassandra {
    let shape = Shape { logins: true, tls, ..Shape::of_nodes(1) };
    let started = Env::system().blocking(move || Cassandra::start_as(shape)).await.expect("no panic");
    started.unwrap_or_else(|error| panic!("{error}"))
}

fn login(user: &str, password: &str) -> Option<Credentials> {
    Some(Credentials { user: user.to_owned(), password: password.to_owned() })
}

fn trusting(ca: &Path) -> Option<TlsOptions> {
    Some(TlsOptions { ca: ca.to_owned(), client: None })
}

/// What is right for such a node.
fn options(ring: &Cassandra) -> CassandraOptions {
    let mut options = CassandraOptions::new(ring.addresses().iter().map(ToString::to_string));
    options.replication = Replication::Simple(1);
    options.credentials = login("cassandra", "cassandra");
    options.tls = trusting(&ring.ring().authority());
    options
}

/// The contract in short: what is acknowledged is read back (W1), and a document is changed by compare-and-set.
async fn is_served(options: CassandraOptions) {
    let store = Box::pin(CassandraStore::connect(options, Env::system())).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap_or_else(|error| panic!("{error}")));
    let table = make_table(&store, "data_20260328").await;
    let (here, key) = (partition("s", 0, 0), MetaKey::new("scope", "name"));
    let rows = [row(2, "e", "k", "v"), row(1, "e", "k", "v")];
    write(&store, &table, &here, &rows).await;
    assert_eq!(contents(&store, &table, &here).await.len(), rows.len());
    let changed = store.compare_and_set(&key, None, Some(Bytes::from_static(b"x"))).await.unwrap();
    assert!(matches!(changed, CasOutcome::Applied(_)), "{changed:?}");
    store.drop_table(&table).await.unwrap();
}

/// What a client that isn't let in is told.
async fn is_refused(options: CassandraOptions) -> String {
    let connected = Env::system().timeout(AT_ONCE, Box::pin(CassandraStore::connect(options, Env::system()))).await;
    match connected.expect("a refusal comes at once").map(drop) {
        Err(error @ ConnectError::Refused { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn owner(ring: &Cassandra) -> Session {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(ring.ring().authority()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(trusted).with_no_client_auth();
    let builder = SessionBuilder::new().known_node(ring.addresses()[0].to_string()).user("cassandra", "cassandra");
    builder.tls_context(Some(TlsContext::Rustls023(Arc::new(config)))).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_and_a_trusted_certificate_let_in_and_what_is_wrong_is_told_with_what_to_do() {
    let _turn = TURN.lock().await;
    let ring = start(Tls::Nodes).await;
    let right = options(&ring);
    is_served(right.clone()).await;

    let place = tempfile::tempdir().unwrap();
    let stranger = Authority::new(place.path(), "stranger").unwrap();
    let strangers = stranger.certificate().display().to_string();
    let with = |change: &dyn Fn(&mut CassandraOptions)| {
        let mut options = right.clone();
        change(&mut options);
        options
    };
    for (wrong, told) in [
        (with(&|options| options.credentials = login("cassandra", "wrong")), "doesn't let `cassandra` in"),
        (with(&|options| options.credentials = login("nobody", "cassandra")), "doesn't let `nobody` in"),
        (with(&|options| options.credentials = None), "set cassandra.user and cassandra.password_file"),
        (with(&|options| options.tls = None), "it speaks TLS only"),
        (with(&|options| options.tls = trusting(stranger.certificate())), "its certificate isn't trusted"),
        (with(&|options| options.tls = trusting(stranger.certificate())), strangers.as_str()),
    ] {
        let refusal = is_refused(wrong).await;
        assert!(refusal.contains(told), "{refusal}");
        assert!(refusal.contains("cassandra.") && refusal.contains(&right.contact_points[0]), "{refusal}");
        assert!(!refusal.contains("wrong"), "a password is never shown: {refusal}");
    }

    // A role needs one right, and is told so when it hasn't.
    let owner = owner(&ring).await;
    for cql in [
        "CREATE ROLE narrow WITH PASSWORD = 'secret' AND LOGIN = true",
        "CREATE ROLE anabranch WITH PASSWORD = 'secret' AND LOGIN = true",
        "GRANT CREATE ON ALL KEYSPACES TO anabranch",
    ] {
        owner.query_unpaged(cql, ()).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }
    let role = |name: &str| {
        with(&|options| {
            options.credentials = login(name, "secret");
            options.keyspace_prefix = "role".to_owned();
        })
    };
    let refusal = is_refused(role("narrow")).await;
    assert!(refusal.contains("GRANT CREATE ON ALL KEYSPACES"), "{refusal}");
    is_served(role("anabranch")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_where_a_node_speaks_none_is_refused() {
    let mut options = fixture::options(&fixture::fresh_prefix()).await;
    let place = tempfile::tempdir().unwrap();
    options.tls = trusting(Authority::new(place.path(), "somebody").unwrap().certificate());
    let refusal = is_refused(options).await;
    assert!(refusal.contains("it doesn't speak TLS: leave cassandra.tls_ca out"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate_to_nodes_that_want_one() {
    let _turn = TURN.lock().await;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut authority = named("clients");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let clients = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let ours = named("ours").signed_by(&key, &clients).unwrap();
    fs::write(at("clients.pem"), clients.pem()).unwrap();
    fs::write(at("ours.pem"), ours.pem()).unwrap();
    fs::write(at("ours.key"), key.serialize_pem()).unwrap();

    let ring = start(Tls::Clients(at("clients.pem"))).await;
    let mut options = options(&ring);
    // The node says why after the handshake, and closes: the driver doesn't always hear it.
    for _ in 0..50 {
        let refusal = is_refused(options.clone()).await;
        assert!(refusal.contains("set cassandra.tls_certificate and cassandra.tls_key"), "{refusal}");
    }
    options.tls.as_mut().unwrap().client = Some((at("ours.pem"), at("ours.key")));
    is_served(options).await;
}
