//! ZMB-2: a process that cannot be killed, through the command line and the feed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::disks::Frozen;
use crate::server::{Server, run_job, until};

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn worker(server: &Server) -> Value {
    let listed = server.json(&["worker", "ls"]);
    server.json(&["worker", "show", listed["items"][0]["id"].as_str().unwrap()])
}

/// A job that writes to the disk once it may, and hangs there.
fn hangs(server: &Server, dir: &Path, disk: &Path) -> (String, u32) {
    let (main, go) = (dir.join("main"), dir.join("go"));
    let command = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; until [ -e {1} ]; do sleep 0.05; done; exec touch {2}/file",
        main.display(),
        go.display(),
        disk.display()
    );
    server.apply(&format!(
        "jobs:\n\
        - {{name: stuck, group: default, type: shell, retries: 2, command: '{command}'}}\n\
        - {{name: next, group: default, type: shell, command: 'true'}}\n"
    ));
    let batch = run_job(server, "default/stuck");
    let process = until("it runs", || fs::read_to_string(&main).ok()).trim().parse().unwrap();
    (batch, process)
}

/// ZMB-2, MON-7, EXE-12: what hangs in a file system and cannot be killed makes its host unready, with an alarm that names the process;
/// nothing starts there, and the batch holds until a person vouches for it. Once the process is gone the host goes on by itself.
#[test]
fn process_in_state_d_makes_its_host_unready_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    until("level 3 stands", || (server.json(&["level", "show"])["level"].as_u64() >= Some(3)).then_some(()));
    let disk = Frozen::mount(&dir.path().join("disk"));
    let (batch, process) = hangs(&server, dir.path(), disk.path());
    let frozen = disk.freeze();
    fs::write(dir.path().join("go"), "").unwrap();
    let stat = format!("/proc/{process}/stat");
    // A process that reads its program from the disk waits in the same state, and not for long.
    let mut looks = 0;
    until("it hangs", || {
        looks = if fs::read_to_string(&stat).ok()?.contains("(touch) D ") { looks + 1 } else { 0 };
        (looks > 20).then_some(())
    });

    server.json(&["batch", "kill", &batch]);
    let unready =
        until("its host is unready", || worker(&server)["unready_reason"].as_str().map(str::to_owned));
    let reason = format!("process {process} (touch), state D");
    assert!(unready.starts_with(&reason) && unready.ends_with("cannot be killed"), "{unready}");
    let alarm = &server.events("alarm.raised", 1)[0];
    assert_eq!(alarm["kind"], "worker_unready");
    assert!(alarm["message"].as_str().unwrap().contains(&unready), "{alarm}");
    let next = run_job(&server, "default/next");
    let why = server.json(&["batch", "why", &next]);
    assert!(why.to_string().contains("unready"), "{why}");
    let held = shown(&server, &batch);
    assert_eq!((&held["state"], held["attempts"].as_array().map(Vec::len)), (&json!("running"), Some(1)));

    let attempt = held["attempts"][0]["id"].to_string();
    server.json(&["batch", "vouch", &batch, "--attempt", &attempt, "--reason", "the disk is switched off"]);
    until("it ends", || (shown(&server, &batch)["result"] == "killed").then_some(()));
    assert!(
        worker(&server)["unready_reason"].as_str().is_some_and(|why| why.starts_with(&reason)),
        "the host is what it is"
    );
    assert_eq!(shown(&server, &next)["state"], "waiting");

    drop(frozen);
    until("its host is ready", || worker(&server)["unready_reason"].is_null().then_some(()));
    until("the next one runs", || (shown(&server, &next)["result"] == "success").then_some(()));
    assert!(!Path::new(&stat).exists());
    assert_eq!(server.stop(), Some(0));
}
