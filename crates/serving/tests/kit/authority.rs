//! An authority of a test's own, and certificates that it has signed; made by the `openssl` command.

#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// Signs certificates; its files are in a directory.
pub(crate) struct Authority {
    dir: PathBuf,
    name: String,
}

/// Two files in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        let this = Self { dir: dir.to_owned(), name: name.to_owned() };
        let mut command = Command::new("openssl");
        command.args(["req", "-x509"]).args(KEY).args(["-days", "2", "-subj", &format!("/CN={name}")]);
        command.arg("-keyout").arg(this.key()).arg("-out").arg(this.file());
        run(&mut command);
        this
    }

    /// The file that others trust.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join(format!("{}.pem", self.name))
    }

    fn key(&self) -> PathBuf {
        self.dir.join(format!("{}.key", self.name))
    }

    /// For servers and clients on this host.
    pub(crate) fn issues(&self, name: &str) -> Pair {
        self.issues_for(name, "IP:127.0.0.1,DNS:localhost")
    }

    /// For these names, as `subjectAltName` has them.
    pub(crate) fn issues_for(&self, name: &str, names: &str) -> Pair {
        let pair = self.pair(name);
        let mut command = Command::new("openssl");
        command.args(["req", "-x509"]).args(KEY).args(["-days", "2", "-subj", &format!("/CN={name}")]);
        command.args(["-addext", &format!("subjectAltName={names}")]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.args(["-addext", "extendedKeyUsage=serverAuth,clientAuth"]);
        command.arg("-CA").arg(self.file()).arg("-CAkey").arg(self.key());
        command.arg("-keyout").arg(&pair.key).arg("-out").arg(&pair.certificate);
        run(&mut command);
        pair
    }

    /// One whose time was over years ago.
    pub(crate) fn issued_long_ago(&self, name: &str) -> Pair {
        let (pair, at) = (self.pair(name), |suffix: &str| self.dir.join(format!("{name}.{suffix}")));
        let mut request = Command::new("openssl");
        request.args(["req", "-new"]).args(KEY).args(["-subj", &format!("/CN={name}")]);
        request.arg("-keyout").arg(&pair.key).arg("-out").arg(at("csr"));
        run(&mut request);
        fs::write(at("index"), "").unwrap();
        let dir = self.dir.display();
        let config = format!(
            "[ca]\ndefault_ca = c\n[c]\ndatabase = {dir}/{name}.index\nnew_certs_dir = {dir}\nrand_serial = yes\n\
             default_md = sha256\npolicy = p\nx509_extensions = e\n[p]\ncommonName = supplied\n\
             [e]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical,CA:FALSE\n"
        );
        fs::write(at("config"), config).unwrap();
        let mut command = Command::new("openssl");
        command.args([
            "ca",
            "-batch",
            "-notext",
            "-startdate",
            "20200101000000Z",
            "-enddate",
            "20200201000000Z",
        ]);
        command.arg("-config").arg(at("config")).arg("-in").arg(at("csr")).arg("-out").arg(&pair.certificate);
        command.arg("-cert").arg(self.file()).arg("-keyfile").arg(self.key());
        run(&mut command);
        pair
    }

    fn pair(&self, name: &str) -> Pair {
        Pair { certificate: self.dir.join(format!("{name}.pem")), key: self.dir.join(format!("{name}.key")) }
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("openssl is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
