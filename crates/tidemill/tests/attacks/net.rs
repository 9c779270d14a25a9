//! What connections and streams can do to the service: OPS-7, OPS-10, API-5.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, run_job, text, until};

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that may have so many files open: at its start, and at most.
fn limited(data: &Path, soft: u32, hard: u32, settings: &[(&str, &str)]) -> Server {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={soft}:{hard}")).arg(TIDEMILL);
    Server::begin(command, data, settings)
}

fn address(server: &Server) -> String {
    fs::read_to_string(server.data.join("api.address")).unwrap().trim().to_owned()
}

fn logs_address(server: &Server) -> String {
    until("the worker is listed", || {
        server.json(&["worker", "ls"])["items"][0]["address"].as_str().map(str::to_owned)
    })
}

fn admin(server: &Server) -> String {
    fs::read_to_string(server.data.join("admin.key")).unwrap().trim().to_owned()
}

/// A socket as an attacker uses it.
struct Raw(TcpStream);

impl Raw {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// One that is closed already takes nothing more.
    fn send(&mut self, text: &str) -> bool {
        self.0.write_all(text.as_bytes()).is_ok()
    }

    fn get(address: &str, path: &str, key: &str) -> Self {
        let mut raw = Self::connect(address);
        raw.send(&format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {key}\r\n\r\n"));
        raw
    }

    /// An answer that goes on; with its end the connection ends.
    fn stream(address: &str, path: &str, key: &str) -> Self {
        let mut raw = Self::connect(address);
        let close = "connection: close\r\n";
        raw.send(&format!("GET {path} HTTP/1.1\r\nhost: t\r\n{close}authorization: Bearer {key}\r\n\r\n"));
        raw
    }

    /// The head of a request whose body is to come.
    fn post(address: &str, path: &str, headers: &str, length: usize) -> Self {
        let mut raw = Self::connect(address);
        raw.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n"
        ));
        raw
    }

    /// The status of the answer, and its head.
    fn status(&mut self) -> (u16, String) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            let read = self.0.read(&mut byte).unwrap();
            assert_eq!(read, 1, "it was closed after {:?}", text(&head));
            head.push(byte[0]);
        }
        let head = text(&head);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head)
    }

    /// Waits for the other side to close it; what came before that.
    fn until_closed(&mut self) -> String {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it stays open: {error}; came {:?}", text(&all)),
        }
        text(&all)
    }
}

fn health(server: &Server) -> u16 {
    let mut raw = Raw::get(&address(server), "/healthz", "none:none");
    raw.status().0
}

fn ends_well(server: &Server, batch: &str) {
    let ended = until("the batch ends", || {
        let shown = server.json(&["batch", "show", batch]);
        (shown["state"] == "finished").then_some(shown)
    });
    assert_eq!(ended["result"], "success", "{ended:#}");
}

/// Makes a key, or gives it other rights; what its owner shows.
fn key(server: &Server, name: &str, role: &str, groups: &[&str]) -> String {
    let secret = "open-sesame-open-sesame";
    let body = json!({"app": name, "secret": secret, "role": role, "groups": groups});
    let (status, answer) = server.post("/api/keys", &format!("{name} {role} {groups:?}"), &body);
    assert_eq!(status, 200, "{answer}");
    let position = answer["position"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/keys?at_least={position}")).0, 200);
    format!("{name}:{secret}")
}

/// OPS-7, OPS-10: silent connections, heads and bodies that never end, without a key and more than the process may have
/// files: health, calls with a key and jobs go on, and logs are read.
#[test]
fn connections_without_a_key_leave_health_calls_and_jobs_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = limited(dir.path(), 200, 200, &[]);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'echo fine'}]");
    let api = address(&server);
    let logs = logs_address(&server);
    let mut held = Vec::new();
    for turn in 0..5 {
        for _ in 0..40 {
            held.push(Raw::connect(&api));
            let mut head = Raw::connect(&api);
            head.send("GET /healthz HTTP/1.1\r\nhost: t\r\nx-slow: ");
            held.push(head);
            held.push(Raw::post(&api, "/api/job/submit", "", 1_000));
            held.push(Raw::connect(&logs));
        }
        assert_eq!(health(&server), 200, "turn {turn}");
        assert_eq!(server.get("/api/status").0, 200);
        let batch = run_job(&server, "default/a");
        ends_well(&server, &batch);
        assert_eq!(text(&server.run(&["batch", "logs", &batch]).stdout), "fine\n");
    }
    drop(held);
    assert_eq!(server.stop(), Some(0));
}

/// OPS-10: nobody may take for ever over a head, or hold a silent connection, on any listener.
#[test]
fn heads_and_silence_have_an_end_on_every_listener() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("HTTP__HEADER_TIMEOUT_MS", "2000"), ("HTTP__IDLE_TIMEOUT_MS", "3000")];
    let server = Server::start_with(dir.path(), &settings);
    let logs = logs_address(&server);
    for listener in [address(&server), logs] {
        let mut silent = Raw::connect(&listener);
        let mut head = Raw::connect(&listener);
        head.send("GET /healthz HTTP/1.1\r\nhost: t\r\nx-slow: ");
        let mut after = Raw::get(&listener, "/none", "none:none");
        assert!(after.status().0 >= 400);
        assert_eq!(silent.until_closed(), "");
        assert!(!head.until_closed().contains("200"));
        after.until_closed();
        // Byte by byte is no better.
        let mut drops = Raw::connect(&listener);
        drops.send("GET /healthz HTTP/1.1\r\nx-slow: ");
        until("a head byte by byte is ended", || (!drops.send("x")).then_some(()));
    }
    assert_eq!(health(&server), 200);
}

/// OPS-10: a body that comes drop by drop is ended by its rate, long before its time is over.
#[test]
fn a_body_drop_by_drop_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("API__READ_TIMEOUT_MS", "600000")]);
    let bearer = format!("authorization: Bearer {}\r\n", admin(&server));
    let mut body = Raw::post(&address(&server), "/api/jobs/apply", &bearer, 100_000);
    body.send("{");
    let (status, head) = body.status();
    assert_eq!(status, 408, "{head}");
    assert!(body.until_closed().contains("bytes per second"));
}

/// OPS-7: bodies that do not come hold no place that a request needs, whether their senders have a key or not.
#[test]
fn slow_bodies_leave_room_for_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("API__MAX_REQUESTS", "4")]);
    let api = address(&server);
    let secret = admin(&server);
    let (app, app_key) = secret.split_once(':').unwrap();
    let viewer = key(&server, "slow", "user", &[]);
    let bearer = format!("authorization: Bearer {viewer}\r\n");
    let (mut unknown, mut keyed) = (Vec::new(), Vec::new());
    for turn in 0_usize..8 {
        unknown.push(Raw::post(&api, "/api/job/submit", "", 1_000));
        keyed.push(Raw::post(&api, "/api/jobs/apply", &bearer, 1_000));
        // One that gives up says that another one waits in its place. On a slow machine its time may be over first.
        let before =
            [turn.checked_sub(1).map(|it| &mut unknown[it]), turn.checked_sub(2).map(|it| &mut keyed[it])];
        for body in before.into_iter().flatten() {
            let (status, head) = body.status();
            assert!([408, 429].contains(&status), "{head}");
        }
    }
    assert_eq!(server.get("/api/jobs").0, 200);
    let job = json!({"job_name": "a", "user": "ann", "job_type": "shell", "command": "true", "group_id": 1});
    let (status, answer) = server.post("/api/job/submit", "1", &job);
    assert_eq!((status, &answer["accept"]), (200, &json!(true)), "{answer}");
    let mut with_key = job;
    with_key["job_name"] = "b".into();
    with_key["app_name"] = app.into();
    with_key["app_key"] = app_key.into();
    let body = with_key.to_string();
    let mut by_body = Raw::post(&api, "/api/job/submit", "", body.len());
    by_body.send(&body);
    assert_eq!(by_body.status().0, 200);
}

/// API-5: a wrong key is answered before a byte of the body is read.
#[test]
fn a_wrong_key_is_answered_before_the_body() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let api = address(&server);
    for path in ["/api/job/submit", "/api/worker/status"] {
        let mut raw = Raw::post(&api, path, "x-app-name: admin\r\nx-app-key: wrong\r\n", 1_000);
        assert_eq!(raw.status().0, 401, "{path}");
    }
    for path in ["/api/jobs/apply", "/api/pull", "/api/attempts/1/code", "/api/admin/rebuild"] {
        let mut raw = Raw::post(&api, path, "authorization: Bearer admin:wrong\r\n", 1_000);
        assert_eq!(raw.status().0, 401, "{path}");
    }
}

/// API-5: an open event stream ends with its key.
#[test]
fn an_event_stream_ends_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let viewer = key(&server, "watcher", "viewer", &[]);
    let mut stream = Raw::stream(&address(&server), "/api/events?from=start", &viewer);
    assert_eq!(stream.status().0, 200);
    let revoked = server.run(&["key", "delete", "watcher"]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    stream.until_closed();
}

/// API-5: an open event stream shows what its key reaches now, not what it reached at its beginning.
#[test]
fn an_event_stream_follows_the_groups_of_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let defined = server.run(&["group", "apply", "other"]);
    assert!(defined.status.success(), "{}", text(&defined.stderr));
    server.apply("jobs: [{name: a, group: default, type: noop}, {name: b, group: other, type: noop}]");
    let viewer = key(&server, "watcher", "viewer", &["default"]);
    let path = "/api/events?type=batch.generated";
    let mut stream = Raw::stream(&address(&server), path, &viewer);
    assert_eq!(stream.status().0, 200);
    let mut lines = BufReader::new(stream.0).lines();
    let mut next = || loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(event) = line.strip_prefix("data: ") {
            return serde_json::from_str::<Value>(event).unwrap()["subject"].as_str().unwrap().to_owned();
        }
    };
    let run = |job: &str| format!("batch/{}", run_job(&server, job));
    let first = run("default/a");
    assert_eq!(next(), first);
    key(&server, "watcher", "viewer", &["other"]);
    // Until the change is seen the old group shows.
    let mut new = Vec::new();
    until("the stream shows the new group", || {
        run("default/a");
        new.push(run("other/b"));
        new.contains(&next()).then_some(())
    });
    let (hidden, shown) = (run("default/a"), run("other/b"));
    let seen: Vec<_> = std::iter::from_fn(|| Some(next()).filter(|subject| *subject != shown)).collect();
    assert!(!seen.contains(&hidden), "{seen:?}");
}

/// OPS-7: event streams of one key leave streams for others, and streams hold no thread that calls need.
#[test]
fn event_streams_leave_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("API__MAX_STREAMS", "2000"), ("API__MAX_STREAMS_PER_KEY", "700")];
    let server = Server::start_with(dir.path(), &settings);
    let api = address(&server);
    let viewer = key(&server, "watcher", "viewer", &[]);
    let mut open: Vec<_> = (0..701).map(|_| Raw::get(&api, "/api/events", &viewer)).collect();
    let refused: Vec<_> = open.iter_mut().map(Raw::status).filter(|(status, _)| *status != 200).collect();
    assert_eq!(refused.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [429]);
    let mut others = Raw::get(&api, "/api/events", &admin(&server));
    assert_eq!(others.status().0, 200);
    let mut ready = Raw::get(&api, "/readyz", "none:none");
    assert_eq!(ready.status().0, 200);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'true'}]");
    ends_well(&server, &run_job(&server, "default/a"));
}

/// API-5: a download of a log breaks off with its key.
#[test]
fn a_download_ends_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("API__KEY_CACHE_MS", "0")]);
    let size = 128 << 20;
    server.apply(&format!(
        "jobs: [{{name: a, group: default, type: shell, command: 'head -c {size} /dev/zero'}}]"
    ));
    let batch = run_job(&server, "default/a");
    ends_well(&server, &batch);
    let viewer = key(&server, "reader", "viewer", &[]);
    let mut download = Raw::stream(&address(&server), &format!("/api/batches/{batch}/log/download"), &viewer);
    assert_eq!(download.status().0, 200);
    assert!(server.run(&["key", "delete", "reader"]).status.success());
    until("the key is known to be revoked", || {
        (Raw::get(&address(&server), "/api/jobs", &viewer).status().0 == 401).then_some(())
    });
    assert!(download.until_closed().len() < size);
}

/// OPS-10: a client that takes nothing of its answer holds no place for ever.
#[test]
fn an_answer_that_nobody_takes_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("HTTP__WRITE_TIMEOUT_MS", "1000"), ("API__MAX_STREAMS_PER_KEY", "1")];
    let server = Server::start_with(dir.path(), &settings);
    let size = 128 << 20;
    server.apply(&format!(
        "jobs: [{{name: a, group: default, type: shell, command: 'head -c {size} /dev/zero'}}]"
    ));
    let batch = run_job(&server, "default/a");
    ends_well(&server, &batch);
    let path = format!("/api/batches/{batch}/log/download");
    let download = || Raw::stream(&address(&server), &path, &admin(&server));
    let mut first = download();
    assert_eq!(first.status().0, 200);
    assert_eq!(download().status().0, 429);
    until("the first download is over", || (download().status().0 == 200).then_some(()));
    assert!(first.until_closed().len() < size);
}

/// OPS-7: the limit on open files is raised for the service and not for its jobs, some of which break where it is large.
#[test]
fn the_service_raises_its_limit_on_open_files_and_jobs_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let server = limited(dir.path(), 300, 4_096, &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let own = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(own.split_whitespace().nth(3), Some("4096"), "{own}");
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'ulimit -Sn; ulimit -Hn'}]");
    let batch = run_job(&server, "default/a");
    ends_well(&server, &batch);
    assert_eq!(text(&server.run(&["batch", "logs", &batch]).stdout), "300\n4096\n");
}

/// OPS-7: too low a limit on open files is said at the start, and one that leaves nothing to work with is refused.
#[test]
fn too_low_a_limit_on_open_files_is_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Command::new("timeout")
        .args([
            "60",
            "prlimit",
            "--nofile=100:100",
            TIDEMILL,
            "standalone",
            "--listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("limit on open files is 100") && said.contains("LimitNOFILE"), "{said}");
    let mut low = Command::new("prlimit");
    let lines = dir.path().join("stderr");
    low.args(["--nofile=200:200", TIDEMILL]).stderr(fs::File::create(&lines).unwrap());
    let server = Server::begin(low, &dir.path().join("data"), &[]);
    assert_eq!(server.stop(), Some(0));
    let said = fs::read_to_string(lines).unwrap();
    assert_eq!(said.lines().filter(|line| line.contains("limit on open files is 200")).count(), 1, "{said}");
}

/// The most memory that the server has had, KiB.
fn peak_memory(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// OPS-7: a body of small values is read value by value, and refused at the first one too many. As a whole it took a hundred
/// times its size.
#[test]
fn body_of_small_values_takes_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (address, key) = (address(&server), admin(&server));
    let headers = format!("authorization: Bearer {key}\r\n");
    let before = peak_memory(&server);
    let bytes = 15 << 20;
    for (path, begin, value, end, bytes) in [
        ("/api/jobs/apply", "{\"jobs\":[", "0", "]}", bytes),
        (
            "/api/jobs/apply",
            "{\"jobs\":[{\"name\":\"a\",\"group\":\"g\",\"parents\":[",
            "{\"a\":0}",
            "]}]}",
            bytes,
        ),
        ("/api/jobs/apply", "{\"jobs\":[],\"prune\":[", "{\"a\":0}", "]}", bytes),
        ("/api/bulk", "{\"action\":[", "{\"a\":0}", "]}", 1_000_000),
    ] {
        let body = format!("{begin}{}{value}{end}", format!("{value},").repeat(bytes / (value.len() + 1)));
        let mut raw = Raw::post(&address, path, &headers, body.len());
        raw.send(&body);
        let (status, head) = raw.status();
        assert!((400..500).contains(&status), "{path}: {head}");
        let taken = peak_memory(&server) - before;
        assert!(taken < 200 << 10, "{path} with {} bytes of {value} takes {taken} KiB", body.len());
    }
    run_job_named(&server, "after");
}

fn run_job_named(server: &Server, name: &str) {
    server.apply(&json!({"jobs": [{"name": name, "group": "default", "type": "noop"}]}).to_string());
    run_job(server, &format!("default/{name}"));
}
