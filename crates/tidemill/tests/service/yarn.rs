//! EXE-13: applications of a real YARN, started, found and ended by the commands of its clients.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, run_job, until, until_within};

/// A virtual machine starts for each command, and two for each application.
const PATIENCE: Duration = Duration::from_secs(240);

/// The directory of `yarn` and `hadoop`.
fn commands() -> String {
    std::env::var("TIDEMILL_TEST_YARN").expect(
        "TIDEMILL_TEST_YARN names a service: run `deploy/dev/services start`, then `eval \"$(deploy/dev/services env)\"`",
    )
}

/// What `yarn application` prints.
fn yarn(arguments: &[&str]) -> String {
    let yarn = Path::new(&commands()).join("yarn");
    let output = Command::new(yarn).arg("application").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn final_state(id: &str) -> String {
    let report = yarn(&["-status", id]);
    let state = report.lines().find_map(|line| line.trim().strip_prefix("Final-State :"));
    state.unwrap_or_else(|| panic!("{report}")).trim().to_owned()
}

fn ended(server: &Server, batch: &str) -> Value {
    until_within(PATIENCE, "the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// EXE-13, JOB-2: an application that a job of the built-in type `mapreduce` starts carries the tag of its attempt, is found by it, and is
/// killed with the batch, which ends once YARN says so; the application of somebody else runs on. What ends by itself is left to.
#[test]
fn application_of_a_killed_batch_is_killed_in_yarn() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", commands(), std::env::var("PATH").unwrap());
    let mut program = Command::new(TIDEMILL);
    program.env("PATH", path);
    let settings = [("EXECUTOR__SLOTS", r#"{"shell": 2, "mapreduce": 2, "spark": 1}"#)];
    let server = Server::begin(program, dir.path(), &settings);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 3).then_some(()));
    let worker = until("the worker is there", || server.json(&["worker", "ls"])["items"].get(0).cloned());
    assert_eq!(worker["types"]["mapreduce"], json!({"slots": 2}), "{worker}");
    assert_eq!(worker["types"]["spark"]["problem"], json!("spark-submit is not in PATH"), "{worker}");
    let job = |name: &str, ms: u32| {
        format!(
            "- {{name: {name}, group: default, type: mapreduce, program: /unused.jar, class: org.apache.hadoop.mapreduce.SleepJob, \
             arguments: ['-m', '1', '-r', '0', '-mt', '{ms}']}}\n"
        )
    };
    let jobs = [job("long", 3_600_000), job("other", 3_600_000), job("short", 100)];
    server.apply(&format!("jobs:\n{}", jobs.concat()));
    let started = |job: &str| {
        let batch = run_job(&server, job);
        let id = until_within(PATIENCE, "its application is found", || {
            let shown = server.json(&["batch", "show", &batch]);
            shown["attempts"].get(0)?["external_work"].get(0)?.as_str().map(str::to_owned)
        });
        (batch, id)
    };
    let (long, of_long) = started("default/long");
    let (other, of_other) = started("default/other");
    assert_ne!(of_long, of_other);
    assert_eq!(final_state(&of_long), "UNDEFINED");
    server.json(&["batch", "kill", &long, "--reason", "enough"]);
    let shown = ended(&server, &long);
    assert_eq!((&shown["result"], final_state(&of_long).as_str()), (&json!("killed"), "KILLED"), "{shown}");
    assert_eq!(shown["attempts"][0]["external_work_unconfirmed"], json!(false), "{shown}");
    assert_eq!(final_state(&of_other), "UNDEFINED");
    server.json(&["batch", "kill", &other, "--reason", "enough"]);
    ended(&server, &other);
    assert_eq!(final_state(&of_other), "KILLED");

    let (short, of_short) = started("default/short");
    let shown = ended(&server, &short);
    assert_eq!(
        (&shown["result"], final_state(&of_short).as_str()),
        (&json!("success"), "SUCCEEDED"),
        "{shown}"
    );
    assert_eq!(server.stop(), Some(0));
}
