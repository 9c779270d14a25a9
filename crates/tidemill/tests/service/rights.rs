//! Rule 8: processes that start before their question is answered.

use serde_json::Value;

use crate::server::feed::Feed;
use crate::server::{Server, run_job, until};

/// The events of a batch, in order.
fn events_of(events: &[Value], batch: &str) -> Vec<String> {
    let batch: i64 = batch.parse().unwrap();
    let of_batch = events.iter().filter(|event| event["data"]["batch"] == batch);
    of_batch.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// DSP-5, OPS-9: once every process reads level 2, assignments carry the right to start; each start is on record all the same,
/// once, before its process, of no-ops and of programs.
#[test]
fn started_under_a_right_and_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("PROCESS__HEARTBEAT_MS", "200"), ("EXECUTOR__HEARTBEAT_MS", "500")];
    let server = Server::start_with(dir.path(), &settings);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 2).then_some(()));
    server.apply(
        "jobs:\n\
        - {name: noop, group: default, type: noop}\n\
        - {name: program, group: default, type: shell, command: 'echo here'}\n\
        - {name: killed, group: default, type: shell, command: 'sleep 600', retries: 3}\n",
    );
    let mut feed = Feed::follow(dir.path());
    let batches = ["default/noop", "default/program"].map(|job| run_job(&server, job));
    for batch in &batches {
        let ended = until("the batch has ended", || {
            let batch = server.json(&["batch", "show", batch]);
            (batch["state"] == "finished").then_some(batch)
        });
        assert_eq!(ended["result"], "success", "{ended}");
    }
    let killed = run_job(&server, "default/killed");
    server.run(&["batch", "kill", &killed]);
    let ended = until("the killed batch has ended", || {
        let batch = server.json(&["batch", "show", &killed]);
        (batch["state"] == "finished").then_some(batch)
    });
    assert_eq!(ended["result"], "killed", "{ended}");
    let events = feed.until_now(&server);
    for batch in &batches {
        let kinds = events_of(&events, batch);
        let expected = ["batch.assigned_with_right", "start.granted", "attempt.started", "attempt.finished"];
        let expected = expected.map(|kind| format!("tidemill.{kind}.v1"));
        let found: Vec<&String> = kinds.iter().filter(|kind| expected.contains(kind)).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{kinds:?}");
    }
    assert_eq!(server.stop(), Some(0));
}
