//! The encrypted ports of the broker: `TIDEMILL_TEST_KAFKA_LOGIN` asks for a name and password,
//! `TIDEMILL_TEST_KAFKA_CERTIFICATE` for a certificate; `TIDEMILL_TEST_CERTIFICATES` has those.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidemill_log::{
    From, KafkaCertificate, KafkaConfig, KafkaLog, KafkaLogin, KafkaMechanism, KafkaSecurity, KafkaTls, Log,
    Readers, Topic,
};

use super::Topics;
use crate::conformance::fixture::{append, read};

/// Within this a start has ended that cannot succeed.
const BOUND: Duration = Duration::from_secs(20);

fn service(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `deploy/dev/services start kafka`, then `eval \"$(deploy/dev/services env)\"`")
    })
}

fn certificate(name: &str) -> PathBuf {
    PathBuf::from(service("TIDEMILL_TEST_CERTIFICATES")).join(name)
}

fn tls(own: Option<KafkaCertificate>) -> KafkaTls {
    KafkaTls { ca_file: Some(certificate("ca.pem")), own }
}

fn login(mechanism: KafkaMechanism, password: &str) -> KafkaLogin {
    KafkaLogin { mechanism, user: "tidemill".to_owned(), password: password.to_owned() }
}

fn config(topics: &Topics, port: &str, security: KafkaSecurity) -> KafkaConfig {
    KafkaConfig { brokers: service(port), security, ..topics.0.clone() }
}

const LOGIN: &str = "TIDEMILL_TEST_KAFKA_LOGIN";
const CERTIFICATE: &str = "TIDEMILL_TEST_KAFKA_CERTIFICATE";

/// OPS-10: the log is written and read through TLS, by a name and password in each way that there is, and by a
/// certificate.
#[test]
fn log_is_written_and_read_through_every_protected_connection() {
    let topics = Topics::make();
    let own = KafkaCertificate { file: certificate("client.pem"), key_file: certificate("client.key") };
    let mut ways: Vec<_> = [KafkaMechanism::ScramSha256, KafkaMechanism::ScramSha512, KafkaMechanism::Plain]
        .map(|mechanism| {
            let login = Some(login(mechanism, "correct-horse"));
            config(&topics, LOGIN, KafkaSecurity { tls: Some(tls(None)), login })
        })
        .into();
    ways.push(config(&topics, CERTIFICATE, KafkaSecurity { tls: Some(tls(Some(own))), login: None }));
    for (way, offset) in ways.iter().zip(0..) {
        let log = KafkaLog::open(way).unwrap();
        let value = format!("{:?}", way.security);
        assert_eq!(append(&*log.producer().unwrap(), Topic::Commands, 0, &*value).unwrap(), offset);
        let mut reader = log.reader(Topic::Commands, 0, From::Offset(offset)).unwrap();
        assert_eq!(&*read(reader.as_mut(), 1)[0].value, value.as_bytes());
    }
}

/// OPS-10: what the broker does not take, or what it is not taken for, ends the start within its bound and with the
/// reason; no password is told.
#[test]
fn connection_that_cannot_be_protected_is_refused_with_the_reason() {
    let topics = Topics::make();
    let scram = KafkaMechanism::ScramSha512;
    let unknown = KafkaTls { ca_file: Some(certificate("client.pem")), own: None };
    let with = |tls, login| KafkaSecurity { tls, login };
    let good = || Some(login(scram, "correct-horse"));
    let wrong = |port, security, reason: &'static str| (config(&topics, port, security), reason);
    let tries = [
        wrong(LOGIN, with(Some(tls(None)), Some(login(scram, "sesame"))), "invalid credentials"),
        wrong(
            LOGIN,
            with(Some(tls(None)), Some(login(KafkaMechanism::Plain, "sesame"))),
            "Authentication failed",
        ),
        wrong(LOGIN, with(Some(unknown), good()), "certificate verify failed"),
        wrong(LOGIN, with(None, good()), "where its port is encrypted, the security protocol has to be ssl"),
        wrong(LOGIN, with(None, None), "where its port is encrypted, the security protocol has to be ssl"),
        wrong(CERTIFICATE, with(Some(tls(None)), None), "bad certificate"),
        wrong(
            "TIDEMILL_TEST_KAFKA",
            with(Some(tls(None)), None),
            "where its port is not encrypted, the security protocol has to be plaintext",
        ),
    ];
    std::thread::scope(|scope| {
        for (config, reason) in &tries {
            scope.spawn(move || {
                let begun_at = Instant::now();
                for error in [
                    KafkaLog::open(config).err().expect("it is refused"),
                    KafkaLog::create_topics(config).expect_err("it is refused"),
                ] {
                    let told = format!("{error}: {}", std::error::Error::source(&error).unwrap());
                    assert!(told.contains(reason) && told.contains(&config.brokers), "{reason}: {told}");
                    assert!(!told.contains("sesame") && !told.contains("correct-horse"), "{told}");
                }
                assert!(begun_at.elapsed() < 2 * BOUND, "{:?}", begun_at.elapsed());
            });
        }
    });
}
