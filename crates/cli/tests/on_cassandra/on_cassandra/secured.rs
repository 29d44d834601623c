//! A server on a node that wants a login and speaks TLS only, by its configuration.

use std::{fs, path::Path, time::Duration};

use anabranch_runtime::Env;
use anabranch_testbed::{Authority, Cassandra, Shape, Tls};
use tempfile::TempDir;

use crate::program::Program;

const PATIENCE: Duration = Duration::from_secs(120);
/// Much shorter than a server waits for a store that is away, which is for ever.
const AT_ONCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

fn configuration(password: &Path, ca: Option<&Path>) -> String {
    let tls = ca.map(|ca| format!("tls_ca = '{}'\n", ca.display())).unwrap_or_default();
    let login = format!("user = 'cassandra'\npassword_file = '{}'\n", password.display());
    format!("[cassandra]\nreplication = '1'\n{login}{tls}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_the_right_login_and_certificates_serves_and_any_other_ends_and_says_what_to_do() {
    let env = Env::system();
    let shape = Shape { logins: true, tls: Tls::Nodes, ..Shape::of_nodes(1) };
    let ring = env.blocking(move || Cassandra::start_as(shape)).await.expect("no panic");
    let ring = ring.unwrap_or_else(|error| panic!("{error}"));
    let (store, ca) = (format!("cassandra://{}", ring.addresses()[0]), ring.ring().authority());
    let place = TempDir::new().unwrap();
    let [right, wrong] = [("right", "cassandra\n"), ("wrong", "guessed\n")].map(|(name, password)| {
        let file = place.path().join(name);
        fs::write(&file, password).unwrap();
        file
    });
    let stranger = Authority::new(place.path(), "stranger").unwrap();

    let mut server = Program::serve(&["--store", &store], &configuration(&right, Some(&ca)));
    server.wait_until(PATIENCE, "/readyz", |status, _| status == 200);
    assert_eq!(server.http("/healthz").unwrap(), (200, "ok\n".to_owned()));
    for (command, shown) in [
        (&["namespace", "create", "plays"][..], "created the namespace `plays`"),
        (&["write", "plays", "--series", "a", "--item", "k=v"], "stored event"),
        (&["read", "plays", "a"], "k=v"),
    ] {
        let (done, output, errors) = server.run(command);
        assert!(done && output.contains(shown), "{command:?}: {output}{errors}");
    }

    for (config, told) in [
        (configuration(&wrong, Some(&ca)), "correct cassandra.user, or the password in the file"),
        (configuration(&right, None), "it speaks TLS only"),
        (configuration(&right, Some(stranger.certificate())), "its certificate isn't trusted"),
    ] {
        let mut refused = Program::serve(&["--store", &store], &config);
        let begun = env.monotonic();
        while refused.is_running() {
            assert!(env.monotonic() - begun < AT_ONCE, "it waits for what never comes: {}", refused.log());
            env.sleep(POLL).await;
        }
        let log = refused.log();
        assert!(log.contains(told) && !log.contains("guessed"), "{log}");
    }
}
