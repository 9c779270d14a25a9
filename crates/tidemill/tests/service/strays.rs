//! EXE-10, OPS-5: jobs that were begun after the backup run on when the log is restored from it. They are held and told of, and a
//! person adopts them or has them ended.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Server, code, text, tidemill, until};

const NINE: &str = "2026-07-01T09:00:00Z";
const TEN: &str = "2026-07-01T10:00:00Z";

fn done(data: &Path, arguments: &[&str]) {
    let output = tidemill(data, arguments);
    assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output.stderr));
}

fn run(server: &Server, time: &str) -> String {
    let run = ["job", "run", "default/slow", "--logical-time", time, "--concurrent"];
    server.json(&run)["batch"].to_string()
}

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

/// The kind and the message of what keeps a batch back.
fn why(server: &Server, batch: &str) -> Vec<(String, String)> {
    let why = server.json(&["batch", "why", batch]);
    let condition =
        |it: &Value| (it["kind"].as_str().unwrap().to_owned(), it["message"].as_str().unwrap().to_owned());
    why["conditions"].as_array().unwrap().iter().map(condition).collect()
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || Some(shown(server, batch)).filter(|shown| shown["state"] == "finished"))
}

/// A restored server whose worker runs two jobs that the backup does not know of: at nine and at ten. `go` lets them end.
fn restored(dir: &Path, go: &Path) -> Server {
    let (data, again, backup) = (dir.join("data"), dir.join("again"), dir.join("backup"));
    fs::create_dir(&data).unwrap();
    let mut server = Server::start(&data);
    let tokens = dir.join("tokens");
    let slow = format!(
        "echo $TIDEMILL_TOKEN >> {}; until [ -e {} ]; do sleep 0.1; done; echo done",
        tokens.display(),
        go.display()
    );
    server.apply(&format!(
        "jobs: [{{name: slow, group: default, type: shell, max_concurrent: 4, command: '{slow}'}}]"
    ));
    done(&data, &["backup", backup.to_str().unwrap()]);
    for time in [NINE, TEN] {
        let batch = run(&server, time);
        until("it runs", || (shown(&server, &batch)["state"] == "running").then_some(()));
    }
    until("both have begun", || (begun(dir).len() == 2).then_some(()));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    done(&again, &["restore", "--by", "ann", "--from", backup.to_str().unwrap()]);
    // The worker goes on as the one that it was, and shims find what they know by its old place.
    fs::rename(data.join("worker"), again.join("worker")).unwrap();
    symlink(again.join("worker"), data.join("worker")).unwrap();
    Server::start(&again)
}

/// The tokens of all processes that have begun.
fn begun(dir: &Path) -> Vec<i64> {
    let text = fs::read_to_string(dir.join("tokens")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// EXE-10, OPS-5, DEP-8: a server is killed and restored from a backup that two of its running jobs are not in. Both run on; people are told,
/// `worker show` lists them, and no batch of their logical times starts. One is adopted and its end counts; the other one is ended, and
/// its batch runs then. What cannot be done is refused, and changes nothing.
#[test]
fn jobs_of_a_lost_life_are_held_until_a_person_adopts_or_ends_them() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let server = restored(dir.path(), &go);
    let strays = until("the worker says what it runs", || {
        let workers = server.json(&["worker", "ls"]);
        let ids = workers["items"].as_array()?.iter().filter_map(|worker| worker["id"].as_str());
        let present =
            ids.map(|id| (id.to_owned(), server.json(&["worker", "show", id])["present"]["strays"].clone()));
        present.into_iter().find(|(_, strays)| strays.as_array().is_some_and(|strays| strays.len() == 2))
    });
    let (worker, strays) = strays;
    let token = |time: &str| {
        let is_of = |stray: &&Value| stray["logical_time"].as_str().unwrap().starts_with(&time[..16]);
        strays.as_array().unwrap().iter().find(is_of).unwrap()["token"].to_string()
    };
    let (nine, ten) = (token(NINE), token(TEN));
    assert_eq!(begun(dir.path()).iter().map(ToString::to_string).collect::<Vec<_>>(), [&*nine, &*ten]);
    let told = server.run(&[
        "events",
        "tail",
        "--from",
        "start",
        "--type",
        "alarm.raised",
        "--limit",
        "1",
        "-o",
        "json",
    ]);
    let alarm = text(&told.stdout);
    assert!(alarm.contains("strays_found") && alarm.contains(&nine) && alarm.contains(&ten), "{alarm}");

    let (of_nine, of_ten) = (run(&server, NINE), run(&server, TEN));
    for (batch, token) in [(&of_nine, &nine), (&of_ten, &ten)] {
        let [(kind, message)] = &why(&server, batch)[..] else { panic!("{:?}", why(&server, batch)) };
        assert_eq!(kind, "stray");
        assert!(message.contains(&worker) && message.contains(token.as_str()), "{message}");
    }
    let refused = |arguments: &[&str], rule: &str| {
        let output = server.run(arguments);
        assert!(code(&output) != 0 && text(&output.stderr).contains(rule), "{}", text(&output.stderr));
    };
    refused(&["batch", "adopt", &of_nine, "--attempt", &ten, "--reason", "r"], "runs for");
    refused(&["batch", "adopt", &of_nine, "--attempt", &nine, "--reason", " "], "reason");
    refused(&["worker", "end-stray", &worker, "--attempt", "1", "--reason", "r"], "is no stray");
    assert_eq!(why(&server, &of_nine)[0].0, "stray");

    server.json(&["batch", "adopt", &of_nine, "--attempt", &nine, "--reason", "it goes on where it was"]);
    until("it runs", || (shown(&server, &of_nine)["state"] == "running").then_some(()));
    server.json(&["worker", "end-stray", &worker, "--attempt", &ten, "--reason", "it is to begin again"]);
    until("the batch begins anew", || (begun(dir.path()).len() == 3).then_some(()));
    fs::write(&go, "").unwrap();
    let shown = ended(&server, &of_nine);
    assert_eq!(
        (&shown["result"], shown["attempts"][0]["id"].to_string()),
        (&json!("success"), nine),
        "{shown}"
    );
    let shown = ended(&server, &of_ten);
    assert_eq!(shown["result"], "success", "{shown}");
    assert_ne!(shown["attempts"][0]["id"].to_string(), ten, "{shown}");
    until("the log has come", || {
        (text(&server.run(&["batch", "logs", &of_nine]).stdout) == "done\n").then_some(())
    });
    assert_eq!(begun(dir.path()).len(), 3, "each logical time ran once but for what was ended");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
    done(&dir.path().join("again"), &["verify", "--journal"]);
}
