//! Task logs to a server that is reached by https:// only (PUL-12).

use crate::kit::encrypted::Encrypted;
use crate::kit::{Crowded, Fixture, until};
use tidemill_sinks::{Config, openers};

/// PUL-12: the certificates of the given file are trusted, and those that the machine trusts without it: what comes from
/// an unknown server is refused, and told, and it is sent nothing.
#[test]
fn only_a_server_with_a_trusted_certificate_is_told() {
    let (mut fixture, crowded, directory) = (Fixture::new(31), Crowded::open(), tempfile::tempdir().unwrap());
    let encrypted = Encrypted::open(crowded.address, directory.path());
    let mut config = Config::default();
    config.elasticsearch.url = Some(format!("https://127.0.0.1:{}", encrypted.port));
    config.elasticsearch.retry_pause_ms = 1;
    config.check().unwrap();
    fixture.works(20);
    let running = fixture.start(openers(&config).unwrap());
    until("the unknown certificate is told", || {
        let all = running.partitions();
        all.len() == fixture.ends.len() && all.iter().all(|it| it.error.is_some() && !it.stopped)
    });
    let told = running.partitions().remove(0).error.unwrap();
    running.stop().unwrap();
    assert!(told.contains("cannot make the index") && told.contains("certificate"), "{told}");
    assert!(crowded.told().documents.is_empty());

    config.elasticsearch.ca_file = Some(encrypted.certificate.to_str().unwrap().to_owned());
    config.check().unwrap();
    let running = fixture.start(openers(&config).unwrap());
    running.catch_up(&fixture);
    running.stop().unwrap();
    assert!(crowded.told().documents.keys().copied().eq(fixture.grants().into_keys()));
}

/// PUL-12: a file without a certificate is refused before anything is connected.
#[test]
fn file_without_certificates_is_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    let mut config = Config::default();
    config.elasticsearch.url = Some("https://127.0.0.1:1".to_owned());
    config.elasticsearch.ca_file = Some(file.to_str().unwrap().to_owned());
    config.check().unwrap();
    let refused = |config: &Config| openers(config).map(drop).unwrap_err().to_string();
    assert!(refused(&config).contains("ca.pem refuses to be the file of trusted certificates"));
    std::fs::write(&file, "no certificate").unwrap();
    assert!(refused(&config).contains("sinks.elasticsearch.ca_file"));
}
