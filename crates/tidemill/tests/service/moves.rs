//! JOB-9: a job goes to another group, through the command line and REST, and is the same job.

use crate::server::{Server, code, text, until};
use serde_json::{Value, json};

/// Group `default` has a worker; what runs in `lake` completes by itself.
const JOBS: &str = "jobs:\n\
    - {name: load, group: default, type: anchor, schedule: {period: hour, zone: UTC}}\n\
    - {name: long, group: default, type: shell, command: 'exec sleep 1000'}\n\
    - {name: first, group: default, type: anchor}\n\
    - {name: second, group: default, type: anchor, parents: [first]}\n";
const TIME: &str = "2026-03-01T00:00:00.000Z";

fn fixture(dir: &std::path::Path) -> Server {
    let server = Server::start(&dir.join("data"));
    server.json(&["group", "apply", "lake"]);
    server.apply(JOBS);
    server
}

fn run(server: &Server, job: &str, more: &[&str]) -> String {
    let arguments = [&["job", "run", job, "--concurrent", "--logical-time", TIME], more].concat();
    server.json(&arguments)["batch"].to_string()
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// JOB-9, GEN-10: `job move` keeps id and next fire; the batches of before stay with their group and are shown; a rerun
/// of one runs in the new group with its parameters and the next run number; a mark of one is refused, and says why. The
/// same after a restart, which folds the journals anew.
#[test]
fn moved_job_is_the_same_job_in_another_group() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let before = server.json(&["job", "show", "default/load"]);
    let first = run(&server, "default/load", &["--param", "day=1"]);
    assert_eq!(ended(&server, &first)["result"], "success");

    let moved = server.run(&["job", "move", "default/load", "lake"]);
    assert_eq!(code(&moved), 0, "{}", text(&moved.stderr));
    assert!(text(&moved.stdout).contains("moved to group lake"), "{}", text(&moved.stdout));
    let shown = server.json(&["job", "show", "lake/load"]);
    assert_eq!((&shown["id"], &shown["version"]), (&before["id"], &json!(2)), "{shown}");
    assert_eq!(shown["next_fire_at"], before["next_fire_at"], "{shown}");
    assert_eq!(code(&server.run(&["job", "show", "default/load"])), 4, "the old name means nothing");
    assert_eq!(server.json(&["batch", "show", &first])["group"], "default");

    let again = server.json(&["batch", "rerun", &first])["batch"].to_string();
    let again = ended(&server, &again);
    assert_eq!((&again["group"], &again["run"]), (&json!("lake"), &json!(2)), "{again}");
    assert_eq!(again["parameters"], json!({"day": "1"}), "{again}");
    let refused = server.run(&["batch", "mark", &first, "failed", "--reason", "as seen"]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 2, "{told}");
    for part in ["stays with the group that ran it", "lake", "run it again"] {
        assert!(told.contains(part), "{part}: {told}");
    }

    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&dir.path().join("data"));
    let third = run(&server, "lake/load", &[]);
    assert_eq!(ended(&server, &third)["run"], 3);
    let runs = server.json(&["batch", "ls", "--job", "lake/load"]);
    let groups: Vec<&Value> = runs["items"].as_array().unwrap().iter().map(|batch| &batch["group"]).collect();
    assert_eq!(groups.iter().filter(|group| **group == "default").count(), 1, "{groups:?}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// JOB-9: what is unfinished, a child, and a group that is not there are named, and the job is as it was.
#[test]
fn move_is_refused_by_what_stands_in_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let batch = run(&server, "default/long", &[]);
    let table = [
        ("default/long", "lake", 3, vec!["unfinished batches", batch.as_str()]),
        ("default/first", "lake", 3, vec!["is a parent of default/second"]),
        ("default/second", "lake", 3, vec!["disable it first"]),
        ("default/load", "nowhere", 2, vec!["group", "nowhere", "no such group"]),
    ];
    for (job, to, expected, parts) in table {
        let refused = server.run(&["job", "move", job, to]);
        let told = text(&refused.stderr);
        assert_eq!(code(&refused), expected, "{told}");
        for part in parts {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(server.json(&["job", "show", job])["version"], 1, "{job}");
    }
    let id = server.json(&["job", "show", "default/load"])["id"].to_string();
    let (status, refused) = server.post(&format!("/api/jobs/{id}/move"), "m", &json!({"group": "a/b"}));
    assert_eq!(status, 422, "{refused}");
    server.json(&["job", "disable", "default/second"]);
    assert_eq!(code(&server.run(&["job", "move", "default/second", "lake"])), 0, "its parent may stay");
    assert_eq!(server.json(&["job", "show", "lake/second"])["parents"][0]["name"], "default/first");
}

/// JOB-9: files that name the job in another group and delete it where it was are told how to keep it; once it has moved,
/// they change nothing.
#[test]
fn files_that_name_another_group_are_told_how_to_move() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let id = server.json(&["job", "show", "default/load"])["id"].clone();
    let file = dir.path().join("jobs.yaml");
    std::fs::write(&file, JOBS.replace("load, group: default", "load, group: lake")).unwrap();
    let apply = |more: &[&str]| {
        let arguments =
            [&["job", "apply", "-f", file.to_str().unwrap(), "--prune", "default"], more].concat();
        let applied = server.run(&arguments);
        assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
        text(&applied.stdout) + &text(&applied.stderr)
    };
    let planned = apply(&["--dry-run"]);
    assert!(planned.contains("tidemill job move default/load lake"), "{planned}");
    assert_eq!(code(&server.run(&["job", "move", "default/load", "lake"])), 0);
    let again = apply(&[]);
    assert!(again.contains("Nothing to change"), "{again}");
    assert_eq!(server.json(&["job", "show", "lake/load"])["id"], id);
}
