//! The real provider: the one that all tests share, and one of a test's own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tidemill_oidc::Provider;

use super::provider;

fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `deploy/dev/services start oidc`, then `eval \"$(deploy/dev/services env)\"`")
    })
}

/// The issuer that all tests share.
pub(crate) fn issuer() -> String {
    from_environment("TIDEMILL_TEST_OIDC")
}

/// One of its clients, with tables for what it says of people.
pub(crate) fn client(issuer: &str, client_id: &str, secret: Option<&str>) -> Provider {
    let more: Value = json!({
        "client_id": client_id,
        "client_secret": secret,
        "role_claim": "realm_access.roles",
        "roles": {"reader": "viewer", "operator": "administrator"},
        "department_claim": "groups",
        "departments": {"analytics": "analytics", "risk": "market-risk"},
    });
    provider(issuer, &more)
}

pub(crate) fn secret(client_id: &str) -> String {
    format!("secret of {client_id}: 100% & more")
}

/// A provider that ends with the test.
pub(crate) struct Own {
    process: Child,
    /// A program whose output nobody takes ends at its next line.
    _output: BufReader<ChildStdout>,
    pub(crate) issuer: String,
}

impl Own {
    /// One that takes secrets in this way only.
    pub(crate) fn start(directory: &Path, method: &str) -> Self {
        let program = from_environment("TIDEMILL_TEST_OIDC_PROGRAM");
        let mut process = Command::new("node")
            .args([program.as_str(), "0", directory.to_str().unwrap(), method])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut lines = output.by_ref().lines().map(Result::unwrap);
        let issuer = lines.find_map(|line| line.strip_prefix("issuer ").map(str::to_owned));
        let issuer = issuer.expect("the provider begins to serve");
        Self { process, _output: output, issuer }
    }

    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.end();
    }
}
