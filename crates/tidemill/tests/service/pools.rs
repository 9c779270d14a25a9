//! BYD-4: pools through REST and the command line.

use std::path::Path;

use crate::facts::facts;
use crate::server::{Server, run_job, text, until};
use serde_json::{Value, json};
use tidemill_log::SqliteView;
use tidemill_model::{Event, PermitEvent};

fn is(server: &Server, batch: &str, state: &str) -> Value {
    let look = || Some(server.json(&["batch", "show", batch])).filter(|found| found["state"] == state);
    until(&format!("batch {batch} is {state}"), look)
}

fn pools(server: &Server, dir: &Path, yaml: &str) -> std::process::Output {
    let file = dir.join("pools.yaml");
    std::fs::write(&file, yaml).unwrap();
    server.run(&["pool", "apply", "-f", file.to_str().unwrap()])
}

/// BYD-4: jobs of a group share the slots of a pool; of a pool that groups share, `why` names the group that has
/// them; `pool show` names the batches; what ends gives back, whether it succeeds or is killed.
#[test]
fn batches_share_the_slots_of_pools() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let done = pools(
        &server,
        dir.path(),
        "pools:\n- {name: own, slots: 1, group: default}\n- {name: all, slots: 2, comment: shared}\n",
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
    server.apply(
        "jobs:\n\
        - {name: a, group: default, type: shell, command: sleep 600, pools: [own]}\n\
        - {name: b, group: default, type: noop, pools: [own]}\n\
        - {name: c, group: default, type: shell, command: sleep 600, pools: [{name: all, weight: 2}]}\n\
        - {name: d, group: default, type: noop, pools: [all]}\n",
    );
    for (pool, holder, waiter, said) in [
        ("own", "default/a", "default/b", "1 of 1 slots are taken and it needs 1; own is held by batch"),
        ("all", "default/c", "default/d", "pool all: 2 of 2 slots are taken: default has 2"),
    ] {
        let first = run_job(&server, holder);
        is(&server, &first, "running");
        let second = run_job(&server, waiter);
        let why = until("it waits for the pool", || {
            let why = server.json(&["batch", "why", &second]);
            Some(why.clone()).filter(|_| why["conditions"][0]["kind"] == "pool")
        });
        let message = why["conditions"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said) && message.contains(&first), "{message}");
        let shown = server.json(&["pool", "show", pool]);
        assert_eq!(shown["used"], shown["pool"]["slots"], "{shown}");
        assert_eq!(shown["holders"][0]["batch"].to_string(), first, "{shown}");
        server.json(&["batch", "kill", &first]);
        assert_eq!(is(&server, &second, "finished")["result"], "success");
        until("all of it is back", || (server.json(&["pool", "show", pool])["used"] == 0).then_some(()));
    }
    let listed = server.json(&["pool", "ls"]);
    assert_eq!(listed["items"][0]["name"], "all", "{listed}");
}

/// BYD-4: a rate lets so many start in an interval, and the next by itself when it is over: of a group's pool by its
/// assignments, of one that groups share by its permits.
#[test]
fn a_rate_spaces_starts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (group, name, kind) in
        [(r#", group: default"#, "own", "batch.assigned"), ("", "all", "permits.granted")]
    {
        let yaml =
            format!("pools: [{{name: {name}, slots: 9, rate: {{starts: 1, interval_s: 3}}{group}}}]\n");
        assert!(pools(&server, dir.path(), &yaml).status.success());
        let job = format!("r-{name}");
        server.apply(&format!("jobs: [{{name: {job}, group: default, type: noop, pools: [{name}]}}]\n"));
        let batches = [0, 1].map(|_| run_job(&server, &format!("default/{job}")));
        batches.iter().for_each(|batch| drop(is(&server, batch, "finished")));
        let starts = |event: &Event| match event {
            Event::Permit(PermitEvent::Granted { permits, .. }) => *permits != 0,
            _ => true,
        };
        let facts = facts(&SqliteView::open(&dir.path().join("log")).unwrap());
        // Assignments may carry a right to start.
        let of_pool = facts.iter().filter(|fact| fact.event.kind().starts_with(kind) && starts(&fact.event));
        let times: Vec<tidemill_model::Timestamp> = of_pool.map(|fact| fact.at).collect();
        assert!(times.len() >= 2, "{name}: {times:?}");
        let apart = |pair: &[tidemill_model::Timestamp]| pair[1].duration_since(pair[0]);
        assert!(
            times.windows(2).all(|pair| apart(pair) >= jiff::SignedDuration::from_secs(3)),
            "{name}: {times:?}"
        );
    }
}

/// BYD-4, JOB-1: what cannot be is refused by field, value and rule; a change keeps its version if nothing differs;
/// pools and the jobs that name them survive export and apply.
#[test]
fn pools_are_checked_and_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (status, problem) = server.post("/api/pools", "p1", &json!({"name": "api", "slots": 0}));
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("slots: \"0\": must be 1 to 1000000"), "{problem}");
    let (status, defined) = server.post("/api/pools", "p2", &json!({"name": "api", "slots": 2}));
    assert_eq!((status, &defined["version"]), (200, &json!(1)), "{defined}");
    let bad = dir.path().join("bad.yaml");
    for (pool, said) in [
        ("nowhere", "there is no pool of that name; define it first"),
        ("{name: api, weight: 3}", "must be 1 to the slots of the pool, 2"),
    ] {
        std::fs::write(&bad, format!("jobs: [{{name: a, group: default, type: noop, pools: [{pool}]}}]\n"))
            .unwrap();
        let refused = server.run(&["job", "apply", "-f", bad.to_str().unwrap()]);
        let told = text(&refused.stdout) + &text(&refused.stderr);
        assert!(!refused.status.success() && told.contains(said) && told.contains("pools[0]"), "{told}");
    }
    server.apply("jobs: [{name: a, group: default, type: noop, pools: [{name: api, weight: 2}]}]\n");
    let exported = server.run(&["job", "export", "--group", "default"]);
    let again = server.apply(&text(&exported.stdout));
    assert_eq!(again["changes"][0]["change"], "unchanged", "{}", text(&exported.stdout));
    let exported = server.run(&["pool", "export"]);
    assert!(pools(&server, dir.path(), &text(&exported.stdout)).status.success());
    assert_eq!(server.json(&["pool", "ls"])["items"][0]["version"], 1);
    let refused = server.run(&["pool", "delete", "api"]);
    assert!(text(&refused.stderr).contains("default/a use it"), "{}", text(&refused.stderr));
    server.apply("jobs: [{name: a, group: default, type: noop}]\n");
    assert!(server.run(&["pool", "delete", "api"]).status.success());
    assert_eq!(server.json(&["pool", "ls"])["items"], json!([]));
}
