//! Certificates for nodes that speak TLS, made by Java's `keytool` when a ring starts: an authority, and a keystore
//! that it has signed. They are good for two days.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{TestbedError, cannot},
    java,
};

/// Of keystores that last as long as a test.
pub(super) const PASSWORD: &str = "changeit";
const DAYS: &str = "2";

/// Whoever signs certificates: a keystore of its own, and its certificate as a PEM file.
#[derive(Debug)]
pub struct Authority {
    keystore: PathBuf,
    certificate: PathBuf,
}

impl Authority {
    /// A new one, its files in `directory` and called after `name`.
    pub fn new(directory: &Path, name: &str) -> Result<Self, TestbedError> {
        let authority = Authority::there(directory, name);
        let subject = format!("CN={name}");
        authority.own(&[
            "-genkeypair",
            "-keyalg",
            "EC",
            "-dname",
            &subject,
            "-validity",
            DAYS,
            "-ext",
            "bc=ca:true",
        ])?;
        authority.own(&["-exportcert", "-rfc", "-file", &authority.certificate.to_string_lossy()])?;
        Ok(authority)
    }

    /// One that was made before.
    pub(super) fn there(directory: &Path, name: &str) -> Self {
        let [keystore, certificate] = ["p12", "pem"].map(|ending| directory.join(format!("{name}.{ending}")));
        Authority { keystore, certificate }
    }

    /// What its signatures are checked with.
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// A keystore for a node at this address: its key, and a certificate that names the address, signed by this authority.
    pub(super) fn keystore_for(&self, address: Ipv4Addr, directory: &Path) -> Result<PathBuf, TestbedError> {
        let (keystore, name) = (directory.join("keystore.p12"), format!("san=ip:{address}"));
        let [request, signed] =
            ["node.csr", "node.pem"].map(|file| directory.join(file).to_string_lossy().into_owned());
        let node = |args: &[&str]| keytool(&keystore, "node", args);
        node(&["-genkeypair", "-keyalg", "EC", "-dname", "CN=node", "-validity", DAYS])?;
        node(&["-certreq", "-file", &request])?;
        self.own(&["-gencert", "-rfc", "-infile", &request, "-outfile", &signed, "-ext", &name, "-validity", DAYS])?;
        trust(&keystore, &self.certificate)?;
        node(&["-importcert", "-file", &signed])?;
        Ok(keystore)
    }

    fn own(&self, args: &[&str]) -> Result<(), TestbedError> {
        keytool(&self.keystore, "authority", args)
    }
}

/// Adds an authority's certificate to a keystore, which is made when it isn't there.
pub(super) fn trust(keystore: &Path, certificate: &Path) -> Result<(), TestbedError> {
    keytool(keystore, "trusted", &["-importcert", "-noprompt", "-file", &certificate.to_string_lossy()])
}

/// Runs `keytool` on one entry of a keystore.
fn keytool(keystore: &Path, alias: &str, args: &[&str]) -> Result<(), TestbedError> {
    let mut command = Command::new(java::java()?.with_file_name("keytool"));
    command.args(args).args(["-alias", alias, "-storetype", "PKCS12", "-storepass", PASSWORD]);
    let output = command.arg("-keystore").arg(keystore).output().map_err(cannot("start keytool"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Err(TestbedError::Refused(format!("keytool {} {}: {}", args[0], keystore.display(), said.trim())))
}
