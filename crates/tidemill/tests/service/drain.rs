//! EXE-9: a host that is drained takes no work until somebody resumes it, whoever works there.

use std::fs;

use serde_json::{Value, json};

use crate::server::{Server, code, run_job, text, until};

const HOST: (&str, &str) = ("EXECUTOR__HOST", "alpha");
const SLOTS: (&str, &str) = ("EXECUTOR__SLOTS", "shell=4");

fn server(data: &std::path::Path) -> Server {
    let server = Server::start_with(data, &[HOST, SLOTS]);
    let stands = || server.json(&["level", "show"])["level"].as_u64().filter(|level| *level >= 3);
    until("level 3 stands", stands);
    server
}

fn live_worker(server: &Server) -> Value {
    until("a worker is there", || {
        let workers = server.json(&["worker", "ls"]);
        workers["items"].as_array()?.iter().find(|worker| worker["state"] == "live").cloned()
    })
}

fn drained(server: &Server) -> Vec<Value> {
    server.json(&["worker", "drained"])["items"].as_array().unwrap().clone()
}

/// By its name, with a reason; what runs goes on and is counted, its end is told, and a worker of another name that comes after
/// a reboot is drained, too, until the host is resumed. An unknown name is refused.
#[test]
fn drained_host_survives_its_worker() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let first = server(&data);
    let go = dir.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.1; done", go.display());
    first.apply(&format!("jobs:\n- {{name: waits, group: default, type: shell, command: '{wait}'}}\n"));
    let batch = run_job(&first, "default/waits");
    let shown = |server: &Server, batch: &str| server.json(&["batch", "show", batch]);
    until("it runs", || (shown(&first, &batch)["state"] == "running").then_some(()));
    let before = live_worker(&first);
    let id = before["id"].as_str().unwrap();
    // EXE-8, MON-7, CLN-1: what its heartbeats say is shown.
    let present = until("its heartbeat says what runs", || {
        let present = first.json(&["worker", "show", id])["present"].clone();
        (present["status"]["running"] == 1 && present["status"]["sweep"].is_object()).then_some(present)
    });
    assert_eq!(present["slots"]["shell"], json!({"slots": 4, "used": 1}), "{present}");
    assert!(present["heartbeat_age_ms"].as_u64().is_some_and(|age| age < 60_000), "{present}");
    assert_eq!(
        (&present["status"]["free_slots"], &present["status"]["sweep"]["failed"]),
        (&json!(3), &json!(0))
    );

    first.json(&["worker", "drain", "alpha", "--reason", "new disk"]);
    let host = until("it is drained", || drained(&first).first().cloned());
    let told = (&host["host"], &host["group"], &host["reason"], &host["running"], &host["emptied_at"]);
    assert_eq!(
        told,
        (&json!("alpha"), &json!("default"), &json!("new disk"), &json!(1), &Value::Null),
        "{host}"
    );
    assert!(!host["drained_by"].as_str().unwrap().is_empty() && host["drained_at"].is_string(), "{host}");
    fs::write(&go, "").unwrap();
    let host = until("it is empty", || {
        drained(&first).first().cloned().filter(|host| host["emptied_at"].is_string())
    });
    assert_eq!((&host["running"], shown(&first, &batch)["result"].as_str()), (&json!(0), Some("success")));
    let refused = first.run(&["worker", "drain", "beta"]);
    assert!(code(&refused) == 4 && text(&refused.stderr).contains("beta"), "{}", text(&refused.stderr));
    assert_eq!(first.stop(), Some(0));

    // As after a reboot.
    fs::remove_file(data.join("worker").join("worker.json")).unwrap();
    let second = server(&data);
    let after = until("the other one is drained", || {
        Some(live_worker(&second)).filter(|worker| worker["drained"] == true && worker["id"] != before["id"])
    });
    assert_eq!(
        (&after["drained_at"], &after["drained_by"]),
        (&host["drained_at"], &host["drained_by"]),
        "{after}"
    );
    let batch = run_job(&second, "default/waits");
    let kinds = || {
        let why = second.json(&["batch", "why", &batch]);
        why["conditions"].as_array()?.iter().any(|condition| condition["kind"] == "drained").then_some(())
    };
    until("it waits for a worker", kinds);
    second.json(&["worker", "resume", "alpha"]);
    until("it ends", || (shown(&second, &batch)["result"] == "success").then_some(()));
    until("none is drained", || drained(&second).is_empty().then_some(()));
    assert_eq!(second.stop(), Some(0));
}
