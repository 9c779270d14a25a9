//! API-6: what commands show is shown again when it changes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::server::{Server, TIDEMILL, code, run_job, text, until};

/// A job that ends when there is a file.
fn waiting_job(flag: &Path) -> String {
    format!(
        "jobs:\n- {{name: waits, group: default, type: shell, command: 'until [ -e {} ]; do sleep 0.1; done; exit 3'}}\n",
        flag.display()
    )
}

/// A command that goes on, with pipes.
fn begun(data: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("timeout");
    command.args(["120", TIDEMILL]).args(arguments).arg("--data").arg(data);
    command.env_remove("TIDEMILL_SERVER").env_remove("TIDEMILL_KEY");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// API-6: without a terminal each new state comes after a line; JSON is a document each; the watch ends with the batch, by its code.
#[test]
fn watch_shows_each_state_and_ends_with_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let flag = dir.path().join("go");
    server.apply(&waiting_job(&flag));
    let batch = run_job(&server, "default/waits");
    until("it runs", || (server.json(&["batch", "show", &batch])["state"] == "running").then_some(()));

    let mut table = begun(dir.path(), &["batch", "show", &batch, "--watch=1h"]);
    let mut lines = begun(dir.path(), &["batch", "show", &batch, "--watch=1s", "-o", "json"]);
    let mut shown = BufReader::new(table.stdout.take().unwrap());
    let mut documents = BufReader::new(lines.stdout.take().unwrap());
    let (mut first, mut state) = (String::new(), String::new());
    shown.read_line(&mut first).unwrap();
    assert_eq!(first, "--- 1\n");
    documents.read_line(&mut state).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&state).unwrap()["state"], "running");
    fs::write(&flag, "").unwrap();

    let (mut rest, mut more) = (String::new(), String::new());
    documents.read_to_string(&mut more).unwrap();
    let states: Vec<Value> = more.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(states.last().unwrap()["result"], "failed", "{more}");
    assert_eq!(lines.wait().unwrap().code(), Some(10));
    // An hour is too long to wait for: the feed says that it has changed.
    shown.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\n--- 2\n") && rest.contains("failed"), "{rest}");
    assert_eq!(table.wait().unwrap().code(), Some(10));
    assert_eq!(server.stop(), Some(0));
}

/// API-6: on a terminal it is drawn in place, no mode is changed, and Ctrl-C ends it.
#[test]
fn watch_on_a_terminal_draws_in_place_and_ends_by_an_interrupt() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let command =
        format!("stty rows 20 cols 60; exec {TIDEMILL} worker ls --watch --data {}", dir.path().display());
    let mut terminal = Command::new("timeout")
        .args(["120", "script", "-qefc", &command, "/dev/null"])
        .env_remove("TIDEMILL_SERVER")
        .env_remove("TIDEMILL_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut drawn = Vec::new();
    let mut output = terminal.stdout.take().unwrap();
    let mut piece = [0_u8; 4096];
    // The worker may register after the first picture.
    while !text(&drawn).contains("live") {
        let count = output.read(&mut piece).unwrap();
        assert!(count > 0, "it ended: {}", text(&drawn));
        drawn.extend_from_slice(&piece[..count]);
    }
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    output.read_to_end(&mut drawn).unwrap();
    let drawn = text(&drawn);
    assert!(drawn.contains("\u{1b}[H") && drawn.contains("\u{1b}[J"), "{drawn}");
    assert!(!drawn.contains("\u{1b}[?"), "a mode stays changed: {drawn:?}");
    assert_eq!(terminal.wait().unwrap().code(), Some(128 + 2));
    assert_eq!(server.stop(), Some(0));
}

/// API-6: what cannot be watched is refused, and nothing is done; a server that was never there ends the watch.
#[test]
fn watch_is_for_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for command in [
        &["job", "run", "default/x", "--watch"][..],
        &["events", "tail", "--watch"],
        &["whoami", "--watch"],
        &["config", "show", "--watch"],
    ] {
        let refused = server.run(command);
        assert_eq!(code(&refused), 2, "{command:?}");
        assert!(text(&refused.stderr).contains("--watch"), "{command:?}: {}", text(&refused.stderr));
    }
    for interval in ["--watch=0", "--watch=2h", "--watch=soon"] {
        assert_eq!(code(&server.run(&["worker", "ls", interval])), 2, "{interval}");
    }
    assert_eq!(code(&server.run(&["worker", "show", "nobody", "--watch"])), 4);
    let absent = server.run(&["worker", "ls", "--watch", "--server", "http://127.0.0.1:1", "--key", "a:b"]);
    assert_eq!(code(&absent), 5);
    assert_eq!(server.stop(), Some(0));
}
