//! API-9: the audit list of a server, over REST and the command line.

use std::process::Command;

use serde_json::{Value, json};
use tidemill_client::Client;

use crate::server::{Server, TIDEMILL, json as answer_of, run_job, text, until};

fn rows(server: &Server, filter: &[&str]) -> Vec<Value> {
    let listed = server.json(&[&["audit", "ls", "--limit", "500"], filter].concat());
    let mut rows = listed["items"].as_array().unwrap().clone();
    rows.reverse();
    rows
}

/// The rows once there are so many.
fn await_rows(server: &Server, filter: &[&str], count: usize) -> Vec<Value> {
    until("the rows are shown", || Some(rows(server, filter)).filter(|rows| rows.len() >= count))
}

fn with_key(server: &Server, key: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(TIDEMILL);
    command
        .args(arguments)
        .arg("--data")
        .arg(&server.data)
        .env_remove("TIDEMILL_SERVER")
        .env("TIDEMILL_KEY", key);
    command.output().unwrap()
}

fn export(server: &Server, more: &[&str]) -> Vec<String> {
    let output = server.run(&[&["audit", "export"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// API-9: who did what and when, as it was and as it is; refused calls are there once they are reported; a dry run is not, and no
/// secret of a key or hash of one is anywhere.
#[test]
fn every_change_is_in_the_list_by_who_and_what_and_when() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("PROCESS__HEARTBEAT_MS", "200")];
    let server = Server::start_with(dir.path(), &settings);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 4).then_some(()));
    let before = jiff::Timestamp::now();
    let key = server.json(&["key", "apply", "etl", "--role", "user", "--group", "default"]);
    let key = key["key"].as_str().unwrap().to_owned();
    let secret = key.split_once(':').unwrap().1.to_owned();
    let viewer =
        server.json(&["key", "apply", "look", "--role", "viewer"])["key"].as_str().unwrap().to_owned();
    let first = "jobs:\n- {name: long, group: default, type: shell, command: 'sleep 600'}\n";
    server.apply(first);
    server.apply(&first.replace("600", "601"));
    server.apply(&first.replace("600", "601"));
    let file = server.data.join("dry.yaml");
    std::fs::write(&file, first.replace("600", "602")).unwrap();
    server.json(&["job", "apply", "--dry-run", "-f", file.to_str().unwrap()]);
    let client = Client::builder(server.client().server()).key(key.clone()).build().unwrap();
    let job = client.find_job("default", "long").unwrap().id;
    let batch = client.post(format!("/api/jobs/{job}/run")).body(&json!({})).send::<Value>().unwrap();
    let batch = batch["batch"].to_string();
    until("it runs", || (server.json(&["batch", "show", &batch])["state"] == "running").then_some(()));
    server.run(&["batch", "kill", &batch, "--reason", "too late"]);
    until("it has ended", || (server.json(&["batch", "show", &batch])["state"] == "finished").then_some(()));
    let own = run_job(&server, "default/long");
    // Who asked for which batch.
    assert_eq!(server.json(&["batch", "show", &batch])["triggered_by"], "etl");
    let mine = server.json(&["batch", "ls", "--mine"]);
    let ids: Vec<String> = mine["items"].as_array().unwrap().iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(ids, std::slice::from_ref(&own));
    server.run(&["batch", "kill", &own]);

    let defined = await_rows(&server, &["--object", &format!("job/{job}")], 2);
    let told: Vec<_> =
        defined.iter().map(|row| (row["app"].as_str().unwrap(), row["kind"].as_str().unwrap())).collect();
    assert_eq!(
        told,
        [("admin", "job.defined"); 2],
        "the third apply changed nothing, and the dry run nothing ever"
    );
    assert_eq!(
        (&defined[0]["group"], &defined[1]["detail"]["name"]),
        (&json!("default"), &json!("default/long"))
    );
    let change = &defined[1]["detail"];
    assert_eq!((&change["before"], &change["after"]), (&json!({"version": 1}), &json!({"version": 2})));
    assert_eq!(change["fields"], json!(["command"]));
    let at: jiff::Timestamp = defined[0]["at"].as_str().unwrap().parse().unwrap();
    assert!(before <= at && at <= jiff::Timestamp::now());
    let batches = await_rows(&server, &["--object", &format!("batch/{batch}")], 2);
    let told: Vec<_> =
        batches.iter().map(|row| (row["app"].as_str().unwrap(), row["kind"].as_str().unwrap())).collect();
    assert_eq!(told, [("etl", "batch.generated"), ("admin", "kill.requested")], "{batches:#?}");
    assert_eq!(batches[1]["detail"]["reason"], "too late");
    let keys = await_rows(&server, &["--object", "key/etl"], 1);
    assert_eq!(
        keys[0]["detail"]["after"],
        json!({"role": "user", "groups": ["default"], "run_as": [], "may": [], "department": null})
    );
    let shown = server.json(&["audit", "show", keys[0]["id"].as_str().unwrap()]);
    assert_eq!(shown, keys[0]);
    // Nobody below an administrator sees it, and it says nothing of who is asked.
    assert!(!with_key(&server, &viewer, &["audit", "ls"]).status.success());
    let bad = with_key(&server, "etl:wrong-secret-of-it", &["job", "ls"]);
    assert!(!bad.status.success());

    // What is refused is reported when the server stops, at the latest.
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_with(dir.path(), &settings);
    let refused = await_rows(&server, &["--kind", "access.refused"], 2);
    let find = |app: &str| refused.iter().find(|row| row["app"] == app).unwrap();
    assert_eq!(
        (&find("etl")["object"], &find("etl")["detail"]["reason"]),
        (&json!("GET /api/jobs"), &json!("unauthenticated"))
    );
    let look = find("look");
    assert_eq!((&look["object"], &look["detail"]["reason"]), (&json!("GET /api/audit"), &json!("forbidden")));
    assert_eq!((&look["count"], &look["detail"]["address"]), (&json!(1), &json!("127.0.0.1")));

    // All of it, the oldest first, and on from any row.
    let all = export(&server, &[]);
    let parsed: Vec<Value> = all.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = rows(&server, &[]);
    assert_eq!(parsed, listed);
    let middle = parsed[3]["id"].as_str().unwrap();
    assert_eq!(export(&server, &["--after", middle]), all[4..]);
    let hash = tidemill_log::Hash::of(secret.as_bytes()).to_string();
    let whole = all.concat();
    for kept_secret in [secret.as_str(), hash.as_str(), "wrong-secret-of-it"] {
        assert!(!whole.contains(kept_secret), "{kept_secret}");
    }
    assert!(answer_of(&server.data, &["key", "ls"]).to_string().contains("etl"));
    assert_eq!(server.stop(), Some(0));
}
