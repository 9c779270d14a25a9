//! The real program on a Kafka that asks for a name and password and a Redis with one, through TLS. The ports are beside the
//! open ones of the same servers: `TIDEMILL_TEST_KAFKA_LOGIN`, `TIDEMILL_TEST_REDIS_TLS`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidemill_model::Timestamp;

use crate::clients::Clients;
use crate::kit::{Cluster, service};
use crate::pulling::all_hinted;

const BEGIN: Timestamp = Timestamp::constant(1_704_067_200);
/// Kafka's client goes on trying for 10 s; then the start is given up.
const BOUND: Duration = Duration::from_secs(30);
const PASSWORD: &str = "correct-horse";

fn certificate(name: &str) -> String {
    format!("{}/{name}", service("TIDEMILL_TEST_CERTIFICATES"))
}

fn password_file(dir: &Path, password: &str) -> PathBuf {
    let file = dir.join("kafka.password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    file
}

/// Settings of a protected Kafka, by the names of their variables.
fn kafka(password_file: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("LOG__BROKERS", service("TIDEMILL_TEST_KAFKA_LOGIN")),
        ("LOG__SECURITY__PROTOCOL", "sasl_ssl".to_owned()),
        ("LOG__SECURITY__USER", "tidemill".to_owned()),
        ("LOG__SECURITY__PASSWORD_FILE", password_file.display().to_string()),
        ("LOG__SECURITY__CA_FILE", certificate("ca.pem")),
    ]
}

fn redis(password: &str) -> [(&'static str, String); 2] {
    let url = format!("rediss://tidemill:{password}@{}", service("TIDEMILL_TEST_REDIS_TLS"));
    [("REDIS__URL", url), ("REDIS__CA_FILE", certificate("ca.pem"))]
}

/// OPS-10: every role works through TLS, with passwords: a job runs, hints of pulls stand in Redis, tables and journal are
/// as they have to be, and no line of any role has a password in it.
#[test]
fn cluster_works_through_protected_connections() {
    let secrets = TempDir::new().unwrap();
    let mut settings = kafka(&password_file(secrets.path(), PASSWORD));
    settings.extend(redis(PASSWORD));
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut cluster = Cluster::start_with(&settings);
    cluster.start_executor("executor-1", 1_000);
    cluster.apply("jobs: [{name: says, group: demo, type: shell, command: \"echo done\"}]");
    let job = cluster.json(&["job", "show", "demo/says"])["id"].clone();
    cluster.run_job(&job, BEGIN);
    cluster.succeeded("group=demo", 1);

    let (server, key) = cluster.api();
    let clients = Clients::new(&server, &key, "demo");
    let users: Vec<_> = (0..3).map(|n| format!("user-{n}")).collect();
    clients.assign(&users);
    all_hinted(&clients, &users, &*cluster.log());

    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
    for name in ["dispatcher-1", "dispatcher-2", "projector", "api", "executor-1"] {
        let lines = cluster.role(name).lines();
        assert!(!lines.contains(PASSWORD), "{name}: {lines}");
    }
}

/// A role's start with these settings, from a directory of its own.
fn start(role: &str, settings: &[(&'static str, String)]) -> (Output, Duration) {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    command.arg(role).current_dir(dir.path()).env("TIDEMILL_DATA", dir.path().join("data"));
    for variable in ["TIDEMILL_CONFIG", "TIDEMILL_KEY"] {
        command.env_remove(variable);
    }
    command.env("TIDEMILL__LOG__BACKEND", "kafka").env("TIDEMILL__LOG__SINGLE_BROKER", "true");
    command.env("TIDEMILL__LOG__PREFIX", "nothing");
    command.envs(settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
    let begun_at = Instant::now();
    (command.output().unwrap(), begun_at.elapsed())
}

/// Starts it, which has to end with this exit code and these words, and without a password.
fn refused(settings: &[(&'static str, String)], exit: i32, words: &[&str]) {
    let (output, took) = start("dispatcher", settings);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{told}");
    assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
    assert!(!told.contains("sesame") && !told.contains(PASSWORD), "{told}");
    assert!(took < BOUND, "{took:?}");
}

fn changed(
    settings: &[(&'static str, String)],
    changes: &[(&'static str, Option<&str>)],
) -> Vec<(&'static str, String)> {
    let is_changed = |name: &str| changes.iter().any(|(changed, _)| *changed == name);
    let mut settings: Vec<_> = settings.iter().filter(|(name, _)| !is_changed(name)).cloned().collect();
    settings.extend(changes.iter().filter_map(|(name, value)| Some((*name, (*value)?.to_owned()))));
    settings
}

/// OPS-10: a role that Kafka does not take, or that does not take Kafka for whom it says it is, ends with the reason and
/// exit code 1; settings that cannot be used end it at once, with field, value, rule and exit code 2.
#[test]
fn start_ends_with_the_reason_where_kafka_cannot_be_reached_as_configured() {
    let secrets = TempDir::new().unwrap();
    let wrong = TempDir::new().unwrap();
    let good = kafka(&password_file(secrets.path(), PASSWORD));
    let wrong = password_file(wrong.path(), "sesame").display().to_string();
    let other = certificate("client.pem");
    let plain = [
        ("LOG__SECURITY__PROTOCOL", None),
        ("LOG__SECURITY__USER", None),
        ("LOG__SECURITY__PASSWORD_FILE", None),
        ("LOG__SECURITY__CA_FILE", None),
    ];
    let reached = "log.brokers and log.security say how Kafka is reached";
    let none = secrets.path().join("none").display().to_string();
    let empty = secrets.path().join("empty").display().to_string();
    std::fs::write(&empty, "").unwrap();
    let cases: &[(Vec<_>, i32, &[&str])] = &[
        (
            changed(&good, &[("LOG__SECURITY__PASSWORD_FILE", Some(&wrong))]),
            1,
            &["invalid credentials", reached],
        ),
        (
            changed(&good, &[("LOG__SECURITY__CA_FILE", Some(&other))]),
            1,
            &["certificate verify failed", reached],
        ),
        (
            changed(&good, &plain),
            1,
            &["where its port is encrypted, the security protocol has to be ssl", reached],
        ),
        (
            changed(&good, &[("LOG__SECURITY__CA_FILE", Some(&none))]),
            2,
            &["log.security.ca_file: ", "none: cannot be read: No such file"],
        ),
        (
            changed(&good, &[("LOG__SECURITY__PASSWORD_FILE", Some(&empty))]),
            2,
            &["log.security.password_file: ", "empty: must hold the password"],
        ),
        (
            changed(&good, &[("LOG__SECURITY__USER", None)]),
            2,
            &["log.security.user: ", "must be the name that the brokers know this process by"],
        ),
        (
            changed(&good, &[("LOG__KAFKA", Some("sasl.password=sesame"))]),
            2,
            &["log.kafka: …: sasl.password has a setting of its own"],
        ),
    ];
    thread::scope(|scope| {
        for (settings, exit, words) in cases {
            scope.spawn(move || refused(settings, *exit, words));
        }
    });
}

/// OPS-10: what starts with Redis ends with the reason where Redis does not take the password, or cannot be trusted; a port
/// that is asked in the other protocol is told, and does not keep the role from its work.
#[test]
fn start_ends_with_the_reason_where_redis_does_not_take_it() {
    let cluster = Cluster::start();
    let told = |redis: &[(&'static str, String)]| {
        let more: Vec<_> = redis.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let begun_at = Instant::now();
        let output = cluster.run_with(&["verify", "-o", "json"], &more);
        let (took, told) = (begun_at.elapsed(), String::from_utf8_lossy(&output.stderr).into_owned());
        assert!(took < BOUND, "{took:?}");
        assert!(!told.contains("sesame") && !told.contains(PASSWORD), "{told}");
        (output.status.code().unwrap(), told)
    };
    let (code, why) = told(&redis("sesame"));
    assert!(
        code == 1 && why.contains("redis.url: ") && why.contains("authentication failed"),
        "{code}: {why}"
    );
    let (code, why) =
        told(&changed(&redis(PASSWORD), &[("REDIS__CA_FILE", Some(&certificate("client.pem")))]));
    assert!(code == 1 && why.contains("UnknownIssuer") && why.contains("redis.ca_file"), "{code}: {why}");
    let open = format!("redis://{}", service("TIDEMILL_TEST_REDIS_TLS"));
    let (_, why) = told(&[("REDIS__URL", open)]);
    assert!(why.contains("where its port is encrypted, the address has to begin with rediss://"), "{why}");
}
