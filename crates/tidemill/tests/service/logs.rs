//! Logs of attempts, from what a job prints to what a person reads.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::server::{Server, TIDEMILL, run_job, text, until};

fn job(name: &str, command: &str, more: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!("- {{name: {name}, group: default, type: shell, command: {command}{more}}}\n")
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

fn summary(server: &Server, batch: &str) -> Value {
    server.get(&format!("/api/batches/{batch}/log/summary")).1
}

/// What a log command writes to its standard output, once all of the log is kept.
fn logs(server: &Server, batch: &str, more: &[&str]) -> String {
    until("the log is kept", || (summary(server, batch)["is_end"] == true).then_some(()));
    let output = server.run(&[&["batch", "logs", batch], more].concat());
    assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn numbered(from: u32, to: u32) -> String {
    (from..=to).map(|number| format!("line {number}\n")).collect()
}

/// LOG-1, LOG-2, LOG-3, EXE-6: the server is killed while a job prints, and the job goes on: its log is whole, byte for byte. It
/// is still there when the worker's directory is not.
#[test]
fn log_outlives_a_killed_server_and_the_workers_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (data, go) = (dir.path().join("data"), dir.path().join("go"));
    fs::create_dir(&data).unwrap();
    let prints = |from: u32, to: u32| format!("for i in $(seq {from} {to}); do echo line $i; done; ");
    let waits = format!("until [ -e {} ]; do sleep 0.05; done; ", go.display());
    let command = format!("{}{waits}{}printf 'no \\377 text'", prints(1, 2_000), prints(2_001, 4_000));
    let mut server = Server::start(&data);
    server.apply(&format!("jobs:\n{}", job("printer", &command, "")));
    let batch = run_job(&server, "default/printer");
    until("what it has printed can be read while it runs", || {
        (summary(&server, &batch)["stdout"]["lines"] == 2_000).then_some(())
    });
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    fs::write(&go, "").unwrap();
    let server = Server::start(&data);
    assert_eq!(ended(&server, &batch)["result"], "success");
    let expected = [numbered(1, 4_000).as_bytes(), b"no \xff text"].concat();
    let whole = |server: &Server| {
        logs(server, &batch, &[]);
        let file = dir.path().join("downloaded");
        let saved = server.run(&["batch", "logs", &batch, "--download", file.to_str().unwrap()]);
        assert!(saved.status.success(), "{}", text(&saved.stderr));
        fs::read(file).unwrap()
    };
    assert!(whole(&server) == expected);
    assert_eq!(logs(&server, &batch, &["--last", "2"]), "line 4000\nno \u{fffd} text");
    assert_eq!(logs(&server, &batch, &["--line", "4000"]), "line 4000\nno \u{fffd} text");
    assert_eq!(logs(&server, &batch, &["--search", "line 399"]).lines().count(), 11);
    let moved = data.join("worker/shipped");
    until("the worker is told", || (fs::read_dir(&moved).unwrap().count() == 1).then_some(()));
    assert_eq!(server.stop(), Some(0));

    fs::remove_dir_all(data.join("worker")).unwrap();
    let server = Server::start(&data);
    assert!(whole(&server) == expected, "the store has it");
    assert_eq!(server.stop(), Some(0));
}

/// LOG-2, API-2: following a batch goes over its retries, says where each attempt begins, skips nothing and ends with the batch; the
/// job calls lead the same way by their offsets. One that prints nothing ends, too.
#[test]
fn following_goes_over_retries_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let command = "echo out $TIDEMILL_ATTEMPT; echo err $TIDEMILL_ATTEMPT >&2; sleep 0.3; echo end $TIDEMILL_ATTEMPT; exit 1";
    server.apply(&format!(
        "jobs:\n{}{}",
        job("fails", command, ", retries: 2, retry_interval_s: 1"),
        job("silent", "exit 0", "")
    ));
    let batch = run_job(&server, "default/fails");
    let followed = server.run(&["batch", "logs", &batch, "--follow", "--attempt", "1"]);
    let stdout = "out 1\nend 1\nout 2\nend 2\nout 3\nend 3\n";
    assert_eq!(text(&followed.stdout), stdout);
    let told = text(&followed.stderr);
    assert!(told.contains("==> attempt 2") && told.contains("==> attempt 3"), "{told}");
    assert_eq!(ended(&server, &batch)["result"], "failed");

    let job_id = server.json(&["job", "show", "default/fails"])["id"].clone();
    let (mut offset, mut read) = (Value::from(0), String::new());
    let key = fs::read_to_string(dir.path().join("admin.key")).unwrap();
    let (app, secret) = key.trim().split_once(':').unwrap();
    until("the last part is read", || {
        let path = format!(
            "/api/log?app_name={app}&app_key={secret}&job_id={job_id}&type=1&offset={offset}&lines=1"
        );
        let (status, part) = server.get(&path);
        assert_eq!(status, 200, "{part}");
        read += part["log"].as_str().unwrap();
        offset = part["offset"].clone();
        (part["is_end"] == true).then_some(())
    });
    assert_eq!(read, stdout);

    let batch = run_job(&server, "default/silent");
    let followed = server.run(&["batch", "logs", &batch, "--follow"]);
    assert_eq!((text(&followed.stdout), followed.status.success()), (String::new(), true));
    assert_eq!(server.stop(), Some(0));
}

/// LOG-1, LOG-2: what the worker does to an attempt stands in a stream of its own; values of variables that are named are in no
/// stream, also where they are printed in two pieces or in base64.
#[test]
fn worker_says_what_it_did_and_secrets_are_masked() {
    const SECRET: &str = "correct-horse-battery";
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(TIDEMILL);
    command.env("DATABASE_PASSWORD", SECRET);
    let server = Server::begin(command, dir.path(), &[("EXECUTOR__MASK_ENV", "DATABASE_PASSWORD")]);
    let prints = format!(
        "printf 'a {0}'; sleep 0.1; echo '{1} z'; echo {SECRET} >&2; printf %s {SECRET} | base64; exec sleep 1000",
        &SECRET[..9],
        &SECRET[9..]
    );
    server.apply(&format!("jobs:\n{}", job("sleeper", &prints, "")));
    let batch = run_job(&server, "default/sleeper");
    until("it has printed", || (summary(&server, &batch)["stdout"]["lines"] == 2).then_some(()));
    server.json(&["batch", "kill", &batch, "--reason", "enough"]);
    assert_eq!(ended(&server, &batch)["result"], "killed");
    assert_eq!(logs(&server, &batch, &[]), "a *** z\n***\n");
    assert_eq!(logs(&server, &batch, &["--stderr"]), "***\n");
    let told = logs(&server, &batch, &["--worker"]);
    assert!(told.contains("kill") && told.lines().all(|line| line.starts_with("20")), "{told}");
    assert!(!contains(dir.path(), SECRET.as_bytes()), "nowhere below the worker or the store");
    assert_eq!(server.stop(), Some(0));
}

/// Whether a file of an attempt's output, or of the store, has these bytes.
fn contains(data: &Path, bytes: &[u8]) -> bool {
    let mut directories = vec![data.join("worker"), data.join("logs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else if name != "script.sh" && fs::read(entry.path()).is_ok_and(|file| has(&file, bytes)) {
                return true;
            }
        }
    }
    false
}

fn has(file: &[u8], bytes: &[u8]) -> bool {
    file.windows(bytes.len()).any(|window| window == bytes)
}
