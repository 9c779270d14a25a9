//! What a job, or somebody who reaches the ports of a host, can do through logs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::{Server, run_job, text, until};

/// The whole answer to a request of these bytes.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

fn get(address: &str, path: &str, bearer: &str) -> String {
    ask(
        address,
        &format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {bearer}\r\nconnection: close\r\n\r\n"
        ),
    )
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// LOG-2, API-5: whoever reaches the store's port and guesses ids reads nothing: no key of the site opens it, a path leads nowhere
/// else, and answers do not say what is there.
#[test]
fn port_of_the_store_gives_nothing_for_a_guessed_id() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("127.0.0.1:{}", free_port());
    let server = Server::start_with(dir.path(), &[("LOGS__LISTEN", &store)]);
    server.apply("jobs:\n- {name: j, group: default, type: shell, command: 'echo the-inner-secret'}\n");
    let batch = run_job(&server, "default/j");
    until("its log is kept", || {
        let (_, summary) = server.get(&format!("/api/batches/{batch}/log/summary"));
        (summary["is_end"] == true).then_some(())
    });
    let token = server.json(&["batch", "show", &batch])["attempts"][0]["id"].to_string();
    let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap().trim().to_owned();
    let keys = [read("admin.key"), read("logs.key"), read("internal.key"), String::new(), "x".repeat(60_000)];
    for key in &keys {
        for path in ["", "/lines", "/bytes", "/search?text=secret", "/chunks"] {
            let here = get(&store, &format!("/kept/{token}{path}"), key);
            let nowhere = get(&store, &format!("/kept/999424{path}"), key);
            assert!(!here.contains("the-inner-secret"), "{path}: {here}");
            let first = |answer: &str| answer.lines().next().unwrap_or_default().to_owned();
            assert_eq!(first(&here), first(&nowhere), "an id that is there answers as one that is not");
            assert!(!first(&here).contains("200"), "{path}: {here}");
        }
    }
    for path in ["/kept/../logs.key", "/kept/..%2f..%2flogs.key", "/kept/%2e%2e/x", "/kept/1/../../x", "/"] {
        let answer = get(&store, path, &read("logs.key"));
        assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains(&read("logs.key")), "{path}: {answer}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// LOG-2, LOG-3: ranges and offsets beyond the end, and numbers that no log has, are answered and cost nothing; a foreign group's log is
/// not there for a key that may not read it.
#[test]
fn ranges_beyond_the_end_and_foreign_ids_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs:\n- {name: j, group: default, type: shell, command: 'echo hello; echo bad >&2'}\n");
    let batch = run_job(&server, "default/j");
    let log = |rest: &str| format!("/api/batches/{batch}/log{rest}");
    until("its log is kept", || (server.get(&log("/summary")).1["is_end"] == true).then_some(()));
    let most = u64::MAX;
    for rest in [
        format!("?offset={most}"),
        format!("?line={most}"),
        "?last=10000".to_owned(),
        format!("/search?text=hello&offset={most}"),
    ] {
        let (status, answer) = server.get(&log(&rest));
        assert_eq!(status, 200, "{rest}: {answer}");
    }
    for (rest, field) in [
        ("?line=0", "line"),
        ("?last=0", "last"),
        ("?offset=-1", "offset"),
        ("?lines=10001", "lines"),
        ("?type=4", "type"),
        ("?offset=1&line=1", "offset"),
        ("/search?text=", "text"),
        ("/tail?from=middle", "from"),
    ] {
        let (status, answer) = server.get(&log(rest));
        assert!((400..500).contains(&status) && answer.to_string().contains(field), "{rest}: {answer}");
    }
    let address = fs::read_to_string(dir.path().join("api.address")).unwrap().trim().to_owned();
    let admin = fs::read_to_string(dir.path().join("admin.key")).unwrap().trim().to_owned();
    for range in ["bytes=6-", "bytes=99999999999999999999-", "bytes=-0"] {
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {admin}\r\nrange: {range}\r\nconnection: close\r\n\r\n",
            log("/download")
        );
        let answer = ask(&address, &request);
        assert!(answer.starts_with("HTTP/1.1 4"), "{range}: {answer}");
    }
    server.json(&["group", "apply", "other"]);
    let foreign = server.json(&["key", "apply", "of-other", "--role", "user", "--group", "other"]);
    let foreign = foreign["key"].as_str().unwrap_or_default().to_owned();
    assert!(!foreign.is_empty());
    for rest in ["", "/download", "/search?text=hello", "/summary", "/tail"] {
        let answer = get(&address, &log(rest), &foreign);
        assert!(answer.starts_with("HTTP/1.1 40") && !answer.contains("hello"), "{rest}: {answer}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// LOG-2: a job that puts a FIFO, a device or a link in the place of its output neither stops the worker nor has another file shown.
#[test]
fn job_that_swaps_its_output_shows_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let swap =
        |what: &str| format!("echo before; cd ..; rm -f stdout stderr times worker; {what}; echo after >&2");
    let secret = dir.path().join("logs.key");
    let swaps = [
        ("fifo", swap("mkfifo stdout stderr times worker")),
        ("link", swap(&format!("ln -s {0} stdout; ln -s {0} times; ln -s {0} worker", secret.display()))),
        ("device", swap("mknod stdout c 1 5; mknod stderr c 1 5")),
    ];
    let jobs = swaps.iter().map(|(name, command)| {
        let command = serde_json::to_string(command).unwrap();
        format!("- {{name: {name}, group: default, type: shell, command: {command}}}\n")
    });
    server.apply(&format!("jobs:\n{}", jobs.collect::<String>()));
    for (name, _) in &swaps {
        let batch = run_job(&server, &format!("default/{name}"));
        until("the batch ends", || {
            (server.json(&["batch", "show", &batch])["state"] == "finished").then_some(())
        });
        let followed = server.run(&["batch", "logs", &batch, "--follow"]);
        let told = text(&followed.stdout);
        assert!(["", "before\n"].contains(&told.as_str()), "{name}: {told}");
    }
    // The worker goes on, and ships what others print.
    server.apply("jobs:\n- {name: fine, group: default, type: shell, command: 'echo fine'}\n");
    let batch = run_job(&server, "default/fine");
    assert_eq!(text(&server.run(&["batch", "logs", &batch, "--follow"]).stdout), "fine\n");
    assert_eq!(server.stop(), Some(0));
}
