//! EXE-10: jobs outlive the process that started them, and the next one takes them over.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{Server, TIDEMILL, run_job, text, until};

const SLOTS: (&str, &str) = ("EXECUTOR__SLOTS", "shell=60");
const JOBS: usize = 50;

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || Some(shown(server, batch)).filter(|shown| shown["state"] == "finished"))
}

/// Processes with this in their environment.
fn processes_of(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("environ")));
    let has_mark =
        |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
    entries.filter_map(|file| fs::read(file).ok()).filter(|it| has_mark(it.clone())).count()
}

/// EXE-10, OPS-2: a server is killed with fifty running jobs, and started from another file: each job goes on as the attempt that it
/// was, with its output and exit code, one that ended meanwhile is reported, one is killed, and nothing of any is left.
#[test]
fn server_of_another_binary_takes_over_fifty_running_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let (data, go, early) = (dir.path().join("data"), dir.path().join("go"), dir.path().join("early"));
    fs::create_dir(&data).unwrap();
    let mark = format!("TIDEMILL_PARAM_MARK={}", dir.path().display());
    let mut server = Server::start_with(&data, &[SLOTS]);
    let job = |name: &str, file: &std::path::Path, code: u32| {
        let wait = format!(
            "echo before; until [ -e {} ]; do sleep 0.1; done; echo after; exit {code}",
            file.display()
        );
        let parameters = format!("{{mark: '{}'}}", dir.path().display());
        format!(
            "- {{name: {name}, group: default, type: shell, command: '{wait}', parameters: {parameters}, max_concurrent: 60}}\n"
        )
    };
    let sleeper = "- {name: sleeper, group: default, type: shell, command: 'exec sleep 1000'}\n";
    server.apply(&format!("jobs:\n{}{}{sleeper}", job("long", &go, 0), job("early", &early, 0)));
    let early_batch = run_job(&server, "default/early");
    let sleeping = run_job(&server, "default/sleeper");
    let batches: Vec<String> = (0..JOBS).map(|_| run_job(&server, "default/long")).collect();
    for batch in batches.iter().chain([&early_batch, &sleeping]) {
        until("it runs", || (shown(&server, batch)["state"] == "running").then_some(()));
    }

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    fs::write(&early, "").unwrap();
    let early_shims = data.join("worker").join("attempts");
    until("one ends while nobody is there", || {
        let mut attempts = fs::read_dir(&early_shims).ok()?.filter_map(Result::ok);
        attempts.any(|attempt| attempt.path().join("exit.json").exists()).then_some(())
    });
    assert!(processes_of(&mark) >= JOBS, "they go on");

    let program = dir.path().join("another-tidemill");
    assert!(Command::new("cp").arg(TIDEMILL).arg(&program).status().unwrap().success());
    let server = Server::start_program(&program, &data, &[SLOTS]);
    let begun_at = Instant::now();
    assert_eq!(ended(&server, &early_batch)["result"], "success");
    server.json(&["batch", "kill", &sleeping]);
    let killed = ended(&server, &sleeping);
    assert_eq!((&killed["result"], killed["attempts"].as_array().unwrap().len()), (&"killed".into(), 1));
    assert!(begun_at.elapsed() < Duration::from_secs(60), "it waits for no lease");
    assert!(batches.iter().all(|batch| shown(&server, batch)["state"] == "running"));
    fs::write(&go, "").unwrap();
    for batch in batches.iter().chain([&early_batch]) {
        let shown = ended(&server, batch);
        assert_eq!(
            (&shown["result"], shown["attempts"].as_array().unwrap().len()),
            (&"success".into(), 1),
            "{shown}"
        );
        assert_eq!(text(&server.run(&["batch", "logs", batch]).stdout), "before\nafter\n");
    }
    assert_eq!(processes_of(&mark), 0);
    assert_eq!(server.stop(), Some(0));
}

/// EXE-10: in a container, where everything ends with the first process, nothing is left to be taken over: the next server reports the
/// attempt as lost, says why, and the batch runs again.
#[test]
fn what_ends_with_its_container_is_lost_and_runs_again() {
    let dir = tempfile::tempdir().unwrap();
    let (data, go) = (dir.path().join("data"), dir.path().join("go"));
    let mark = format!("TIDEMILL_PARAM_MARK={}", dir.path().display());
    let container = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", TIDEMILL]);
        command
    };
    let mut server = Server::begin(container(), &data, &[]);
    server.apply(&format!(
        "jobs: [{{name: long, group: default, type: shell, retries: 1, retry_interval_s: 0, parameters: {{mark: '{}'}},\n\
         command: 'echo begins; until [ -e {} ]; do sleep 0.1; done'}}]",
        dir.path().display(),
        go.display()
    ));
    let batch = run_job(&server, "default/long");
    until("it runs", || {
        (shown(&server, &batch)["state"] == "running" && processes_of(&mark) > 0).then_some(())
    });
    let log =
        |server: &Server, attempt| text(&server.run(&["batch", "logs", &batch, "--attempt", attempt]).stdout);
    until("its log", || (log(&server, "1") == "begins\n").then_some(()));

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    until("all of it ends with it", || (processes_of(&mark) == 0).then_some(()));
    let server = Server::begin(container(), &data, &[]);
    until("it runs again", || (processes_of(&mark) > 0).then_some(()));
    fs::write(&go, "").unwrap();
    let shown = ended(&server, &batch);
    let [first, second] = &shown["attempts"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&first["result"], &second["result"]), (&"lost".into(), &"success".into()), "{shown}");
    let message = first["message"].as_str().unwrap();
    assert!(
        message.starts_with("its shim was killed") && message.contains("nothing of it runs any more"),
        "{message}"
    );
    assert_eq!(log(&server, "1"), "begins\n");
}
