//! OPS-9: a data directory of one level is opened by a newer process, raised, and refused by an older one.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, json as answer, text, until};

const BEATS: [(&str, &str); 2] = [("PROCESS__HEARTBEAT_MS", "200"), ("PROCESS__EXPIRE_AFTER_MS", "2000")];

/// A server that reads up to this level.
fn start(data: &Path, reads: &str) -> Server {
    Server::start_with(data, &[BEATS[0], BEATS[1], ("PROCESS__READS", reads)])
}

fn level(server: &Server) -> Value {
    server.json(&["level", "show"])
}

/// One that is expected not to come up.
fn try_start(data: &Path, reads: &str) -> Output {
    Command::new("timeout")
        .args(["120", TIDEMILL, "standalone", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .env("TIDEMILL__PROCESS__READS", reads)
        .output()
        .unwrap()
}

/// The records of the journal, as a copy has them.
fn records(data: &Path) -> Value {
    let file = data.join("copy.journal");
    let copied = answer(data, &["journal", "export", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
    copied["records"].clone()
}

/// OPS-9: a hold keeps the level for a newer process, a release raises it, and an older process then says which level the
/// journal goes on with, and changes nothing.
#[test]
fn newer_process_raises_the_level_and_an_older_one_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = start(data, "1");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let registered = until("the process is registered", || {
        let state = level(&server);
        (state["processes"].as_array().unwrap().len() == 1).then_some(state)
    });
    assert_eq!((&registered["level"], &registered["readable"]), (&json!(1), &json!(1)), "{registered}");
    assert_eq!(registered["processes"][0]["roles"], json!(["standalone"]));
    let (status, _) = server.put("/api/level/hold", &json!({"reason": ""}));
    assert_eq!(status, 422);
    server.run(&["level", "hold", "--reason", "we may go back"]);
    let (status, state) = server.get("/api/level");
    assert_eq!((status, &state["hold"]["reason"]), (200, &json!("we may go back")), "{state}");
    assert_eq!(server.stop(), Some(0));

    let server = start(data, "2");
    let held = until("only the newer process is registered", || {
        let state = level(&server);
        (state["readable"] == 2).then_some(state)
    });
    assert_eq!(held["level"], 1, "{held}");
    assert_eq!(server.stop(), Some(0));
    let server = start(data, "1");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.stop(), Some(0), "while the level is held the older version can be gone back to");

    let server = start(data, "2");
    let told = server.run(&["level", "release", "--reason", "all is well"]);
    assert!(text(&told.stdout).contains("not held any more"), "{}", text(&told.stdout));
    until("the level is raised", || (level(&server)["level"] == 2).then_some(()));
    server.json(&["job", "run", "default/a", "--wait"]);
    let told = text(&server.run(&["level", "show"]).stdout);
    assert!(told.contains("standalone"), "{told}");
    assert_eq!(server.stop(), Some(0));

    let before = records(data);
    let refused = try_start(data, "1");
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(8), "{error}");
    assert!(error.contains("goes on with level 2, and this process reads up to level 1"), "{error}");
    assert_eq!(records(data), before, "it changed something");
    let checked = answer(data, &["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");

    let server = start(data, "2");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.stop(), Some(0));
}
