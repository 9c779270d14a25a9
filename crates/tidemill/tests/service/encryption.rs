//! The real program on encrypted listeners, and its commands as their clients (OPS-10).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::authority::{Authority, Pair};
use crate::server::{Server, TIDEMILL, code, json, run_job, text, until};

/// Settings of a process with its own certificate for everything.
fn settings<'a>(ca: &'a Path, api: &'a Pair, roles: &'a Pair) -> Vec<(&'static str, &'a str)> {
    let named = [
        ("TLS__CA_FILE", ca),
        ("TLS__API__CERTIFICATE_FILE", &api.certificate),
        ("TLS__API__KEY_FILE", &api.key),
        ("TLS__ROLES__CERTIFICATE_FILE", &roles.certificate),
        ("TLS__ROLES__KEY_FILE", &roles.key),
    ];
    named.map(|(name, path)| (name, path.to_str().unwrap())).to_vec()
}

/// What the listener says to a plain request.
fn plain(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn told(output: &Output) -> String {
    text(&output.stderr)
}

/// OPS-10: everything of a standalone is encrypted: commands that trust its authority do their work, a job's log comes over
/// the encrypted port of its worker, and the job is told the encrypted address.
#[test]
fn standalone_works_encrypted_for_those_who_trust_its_authority() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let (api, roles) = (ours.issues_for("api", "DNS:localhost"), ours.issues("roles"));
    let (ca, other_ca) = (ours.file(), others.file());
    let mut settings = settings(&ca, &api, &roles);
    settings.push(("TLS__API__HOST", "localhost"));
    let server = Server::start_with(data.path(), &settings);
    let address = fs::read_to_string(data.path().join("api.address")).unwrap();
    let port = address.trim().strip_prefix("https://localhost:").unwrap().to_owned();

    let jobs = data.path().join("jobs.yaml");
    fs::write(&jobs, "jobs: [{name: a, group: default, type: shell, command: 'echo api $TIDEMILL_API'}]")
        .unwrap();
    let ca = ca.to_str().unwrap();
    json(data.path(), &["job", "apply", "-f", jobs.to_str().unwrap(), "--ca-file", ca]);
    let run = json(data.path(), &["job", "run", "default/a", "--ca-file", ca]);
    let batch = run["batch"].to_string();
    until("the batch ends", || {
        let shown = json(data.path(), &["batch", "show", &batch, "--ca-file", ca]);
        (shown["state"] == "finished").then(|| assert_eq!(shown["result"], "success", "{shown:#}"))
    });
    let logs = server.run(&["batch", "logs", &batch, "--ca-file", ca]);
    assert_eq!(text(&logs.stdout), format!("api https://localhost:{port}\n"), "{}", told(&logs));

    let unknown = server.run(&["status"]);
    assert_eq!(code(&unknown), 5, "{}", told(&unknown));
    assert!(told(&unknown).contains("no authority that is trusted") && told(&unknown).contains("--ca-file"));
    let wrong = server.run(&["status", "--ca-file", other_ca.to_str().unwrap()]);
    assert_eq!(code(&wrong), 5, "{}", told(&wrong));
    assert!(told(&wrong).contains("no authority that is trusted"), "{}", told(&wrong));
    let other_name =
        server.run(&["status", "--ca-file", ca, "--server", &format!("https://127.0.0.1:{port}")]);
    assert!(told(&other_name).contains("for another name"), "{}", told(&other_name));
    let by_http = server.run(&["status", "--server", &format!("http://127.0.0.1:{port}")]);
    assert_eq!(code(&by_http), 2, "{}", told(&by_http));
    assert!(told(&by_http).contains("https://"), "{}", told(&by_http));

    let workers = json(data.path(), &["worker", "ls", "--ca-file", ca]);
    let worker = workers["items"][0]["address"].as_str().unwrap();
    for address in [format!("127.0.0.1:{port}"), worker.to_owned()] {
        let answer = plain(&address);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https_expected"), "{answer}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// OPS-10: a command that is told https of a plain server says that the server does not speak it.
#[test]
fn plain_server_is_told_from_an_encrypted_one() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ours = Authority::new(dir.path(), "ours");
    let server = Server::start(data.path());
    let address = fs::read_to_string(data.path().join("api.address")).unwrap();
    let url = format!("https://{}", address.trim());
    let output = server.run(&["status", "--server", &url, "--ca-file", ours.file().to_str().unwrap()]);
    assert_eq!(code(&output), 5, "{}", told(&output));
    assert!(
        told(&output).contains("does not speak TLS") && told(&output).contains("http://"),
        "{}",
        told(&output)
    );
    let output = server.run(&["status", "--server", &url, "--ca-file", "/none.pem"]);
    assert_eq!(code(&output), 2, "{}", told(&output));
    assert!(
        told(&output).contains("/none.pem") && told(&output).contains("does not exist"),
        "{}",
        told(&output)
    );
    // A file that a plain server does not need changes nothing.
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    run_job(&server, "default/a");
    assert_eq!(server.stop(), Some(0));
}

/// OPS-10: a role whose files cannot be used does not start, and says which setting, which file, why, and what to do.
#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let (good, stranger) = (ours.issues("good"), others.issues("stranger"));
    let ca = ours.file();
    let mixed = Pair { certificate: good.certificate.clone(), key: stranger.key.clone() };
    let missing = Pair { certificate: dir.path().join("none.pem"), key: good.key.clone() };
    let refused = |role: &str, settings: &[(&str, &str)], says: &[&str]| {
        let output = Command::new("timeout")
            .args(["60", TIDEMILL, role, "--data"])
            .arg(data.path())
            .envs(settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)))
            .output()
            .unwrap();
        assert_eq!(code(&output), 2, "{role}: {}", told(&output));
        for part in says {
            assert!(told(&output).contains(part), "{role} does not say {part:?}: {}", told(&output));
        }
    };
    refused(
        "standalone",
        &settings(&ca, &mixed, &good),
        &["tls.api.key_file", "stranger.key", "is not the key of", "hint: "],
    );
    refused("standalone", &settings(&ca, &good, &missing), &["tls.roles.certificate_file", "does not exist"]);
    refused(
        "standalone",
        &settings(&ca, &good, &stranger),
        &["tls.roles.certificate_file", "none of the authorities", "hint: "],
    );
    assert!(!data.path().join("log").exists(), "nothing was begun");
    for role in ["dispatcher", "api", "executor", "producers"] {
        let mut all = settings(&ca, &good, &missing);
        all.extend([("LOG__BACKEND", "kafka"), ("LOG__BROKERS", "127.0.0.1:1")]);
        refused(role, &all, &["tls.roles.certificate_file", "none.pem", "does not exist"]);
    }
    let half = [("TLS__API__CERTIFICATE_FILE", good.certificate.to_str().unwrap())];
    refused("standalone", &half, &["tls.api.certificate_file", "good.pem", "needs tls.api.key_file"]);
}
