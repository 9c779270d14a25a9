//! A Redis server's encrypted port: `TIDEMILL_TEST_REDIS_TLS` names it, `TIDEMILL_TEST_CERTIFICATES` has who signed its
//! certificate.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidemill_store::hints::{Life, RedisHints};

use super::conformance::{Asker, place, prepared};

/// Twice the time that a connection may take.
const BOUND: Duration = Duration::from_secs(10);
const USER: &str = "tidemill:correct-horse@";

fn service(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `deploy/dev/services start redis`, then `eval \"$(deploy/dev/services env)\"`")
    })
}

fn url(user: &str) -> String {
    format!("rediss://{user}{}", service("TIDEMILL_TEST_REDIS_TLS"))
}

fn certificate(name: &str) -> PathBuf {
    Path::new(&service("TIDEMILL_TEST_CERTIFICATES")).join(name)
}

/// What it says, with its causes, and that it says so in time and without the password.
fn refused(url: &str, ca_file: Option<&Path>) -> String {
    let begun_at = Instant::now();
    let error = RedisHints::open(url, ca_file, "log-1").err().expect("it is refused");
    assert!(begun_at.elapsed() < BOUND, "{:?}", begun_at.elapsed());
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        told.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    assert!(!told.contains("secret") && !told.contains("correct-horse"), "{told}");
    told
}

/// OPS-10: hints are kept and found through an encrypted connection with user and password.
#[test]
fn hints_are_kept_through_an_encrypted_connection() {
    let hints = RedisHints::open(&url(USER), Some(&certificate("ca.pem")), Life::draw().as_str()).unwrap();
    prepared(&hints, &["ann"]);
    assert!(Asker::new(&hints).counts(&place("ann")));
}

/// OPS-10: a server whose certificate somebody else has signed is told nothing, with a file and without one.
#[test]
fn server_of_an_unknown_authority_is_refused() {
    for ca_file in [Some(certificate("client.pem")), None] {
        let told = refused(&url(USER), ca_file.as_deref());
        assert!(told.contains("invalid peer certificate: UnknownIssuer"), "{told}");
    }
}

/// OPS-10: a wrong password is refused at once, not tried again.
#[test]
fn wrong_password_is_refused() {
    let told = refused(&url("tidemill:secret@"), Some(&certificate("ca.pem")));
    assert!(told.contains("authentication failed"), "{told}");
}

/// OPS-10: a file without certificates is refused by its name, before anything is connected.
#[test]
fn file_without_certificates_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    assert!(refused("rediss://127.0.0.1:1", Some(&file)).contains("ca.pem: No such file"));
    std::fs::write(&file, "no certificate").unwrap();
    assert!(refused("rediss://127.0.0.1:1", Some(&file)).contains("there is no certificate in it"));
}

/// PUL-6: a server that is not there yet keeps nobody from starting.
#[test]
fn server_that_is_not_there_is_waited_for() {
    RedisHints::open("rediss://127.0.0.1:1", Some(&certificate("ca.pem")), "log-1").unwrap();
}
