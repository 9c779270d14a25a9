//! DSP-2 to DSP-4, BYD-4: whose turn it is, and that nobody waits for a tick; through the command line and the feed.

use std::path::Path;

use crate::server::clock::Clock;
use crate::server::feed::Feed;
use crate::server::{Server, until};
use jiff::SignedDuration;
use serde_json::Value;
use tidemill_model::Timestamp;

/// A batch of the job, for a logical time of its own.
fn run(server: &Server, job: &str, number: usize) -> String {
    let time = Timestamp::constant(1_767_225_600) + SignedDuration::from_hours(number as i64);
    server.json(&["job", "run", job, "--concurrent", "--logical-time", &time.to_string()])["batch"]
        .to_string()
}

/// The batch's only attempt. Ids of attempts grow in the order in which they were assigned.
fn attempt(server: &Server, batch: &str) -> i64 {
    let shown = until(&format!("batch {batch} ends"), || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    });
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &shown["result"]), (1, &Value::from("success")), "{shown}");
    attempts[0]["id"].as_i64().unwrap()
}

/// The batches in the order in which they were assigned.
fn in_order<'a, T>(server: &Server, batches: &'a [(T, String)]) -> Vec<&'a T> {
    let mut order: Vec<_> = batches.iter().map(|(what, batch)| (attempt(server, batch), what)).collect();
    order.sort_by_key(|(attempt, _)| *attempt);
    order.into_iter().map(|(_, what)| what).collect()
}

/// BYD-4: two users have ready batches of one type and priority, one many and one few, and there is one slot: they
/// take turns, so that the few do not wait for the many that were there before; each user's own go by age.
#[test]
fn users_take_turns_however_much_one_of_them_has() {
    const OF_ANN: usize = 16;
    const OF_BOB: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("EXECUTOR__SLOTS", "noop=1")]);
    server.apply(
        "jobs:\n\
        - {name: ann, group: default, type: noop, owner: ann, max_concurrent: 99}\n\
        - {name: bob, group: default, type: noop, owner: bob, max_concurrent: 99}\n",
    );
    let worker = until("there is a worker", || {
        server.json(&["worker", "ls"])["items"][0]["id"].as_str().map(str::to_owned)
    });
    server.json(&["worker", "drain", &worker]);
    let mut batches = Vec::new();
    for (owner, count) in [("ann", OF_ANN), ("bob", OF_BOB)] {
        for number in 0..count {
            batches.push(((owner, number), run(&server, &format!("default/{owner}"), number)));
        }
    }
    server.json(&["worker", "resume", &worker]);
    let order = in_order(&server, &batches);
    for owner in ["ann", "bob"] {
        let numbers: Vec<usize> = order.iter().filter(|it| it.0 == owner).map(|it| it.1).collect();
        assert!(numbers.is_sorted(), "{order:?}");
    }
    for number in 0..OF_BOB {
        let place = order.iter().position(|it| **it == ("bob", number)).unwrap();
        // Before him is as much of hers as of his own, and one.
        assert!(place <= 2 * number + 1, "{order:?}");
    }
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
}

/// BYD-4, DSP-4: the more urgent of two goes first, and the older of two equals; but who has waited for ten minutes a
/// step of priority is passed by nobody who came later, so that the lowest priority does not starve.
#[test]
fn who_has_waited_long_goes_first_whatever_the_priority() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, data) = (Clock::build(dir.path()), dir.path().join("data"));
    let start = |ago: i64, slots: &str| {
        let now = Timestamp::from(jiff::Timestamp::now()) - SignedDuration::from_mins(ago);
        clock.start(now, &data, &[("EXECUTOR__SLOTS", slots)])
    };
    // Nobody takes what does nothing, until the third start.
    let server = start(110, "shell=1");
    server.apply(
        "jobs:\n\
        - {name: p9, group: default, type: noop, priority: 9, max_concurrent: 99}\n\
        - {name: p1, group: default, type: noop, priority: 1, max_concurrent: 99}\n\
        - {name: p0, group: default, type: noop, priority: 0, max_concurrent: 99}\n",
    );
    let mut batches = vec![("90 minutes older", run(&server, "default/p9", 0))];
    assert_eq!(server.stop(), Some(0));
    let server = start(0, "shell=1");
    for (what, job, number) in [
        ("lowest", "default/p9", 1),
        ("less urgent", "default/p1", 2),
        ("most urgent", "default/p0", 3),
        ("most urgent, later", "default/p0", 4),
    ] {
        batches.push((what, run(&server, job, number)));
    }
    assert_eq!(server.stop(), Some(0));
    let server = start(0, "noop=1");
    let order = in_order(&server, &batches);
    assert_eq!(
        order,
        [&"90 minutes older", &"most urgent", &"most urgent, later", &"less urgent", &"lowest"]
    );
    assert_eq!(server.stop(), Some(0));
}

/// Of a batch, the record that holds the only event of this kind; an assignment may carry a right to start.
fn record_of(events: &[Value], kind: &str, batch: &str) -> String {
    let kinds = [format!("tidemill.{kind}.v1"), format!("tidemill.{kind}_with_right.v1")];
    let batch = batch.parse::<i64>().unwrap();
    let is_it =
        |event: &&Value| kinds.iter().any(|kind| event["type"] == **kind) && event["data"]["batch"] == batch;
    let of_batch: Vec<_> = events.iter().filter(is_it).collect();
    assert_eq!(of_batch.len(), 1, "{kind} of batch {batch}: {of_batch:?}");
    let (offset, _) = of_batch[0]["id"].as_str().unwrap().split_once('-').unwrap();
    format!("{}@{offset}", of_batch[0]["source"])
}

/// A command that ends when the file is there.
fn waits_for(gate: &Path) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", gate.display())
}

/// DSP-3, DSP-2: nobody looks for work every so often: the record that fulfils a batch's last condition assigns it,
/// too, be that its own generation where a worker is free, or what frees a slot, a job's maximum, a pool, or a parent's
/// child. How long that takes is measured by the row `placement` of the benchmarks, not here.
#[test]
fn what_frees_a_batch_assigns_it() {
    let dir = tempfile::tempdir().unwrap();
    // Ticks and signs of life are so rare that one in the right moment is a wonder, and five of them are none.
    let settings = [
        ("DISPATCHER__TICK_MS", "5000"),
        ("EXECUTOR__HEARTBEAT_MS", "60000"),
        ("EXECUTOR__SLOTS", "shell=2,noop=9"),
    ];
    let server = Server::start_with(dir.path(), &settings);
    let mut feed = Feed::follow(dir.path());
    let file = dir.path().join("pools.yaml");
    std::fs::write(&file, "pools: [{name: line, slots: 1, group: default}]\n").unwrap();
    assert!(server.run(&["pool", "apply", "-f", file.to_str().unwrap()]).status.success());
    let gates = ["first", "second"].map(|name| dir.path().join(name));
    let [first, second] = gates.each_ref().map(|gate| waits_for(gate));
    server.apply(&format!(
        "jobs:\n\
        - {{name: first, group: default, type: shell, command: '{first}', pools: [line]}}\n\
        - {{name: second, group: default, type: shell, command: '{second}', max_concurrent: 1}}\n\
        - {{name: child, group: default, type: noop, parents: [first]}}\n\
        - {{name: pooled, group: default, type: noop, pools: [line]}}\n\
        - {{name: next, group: default, type: shell, command: 'true'}}\n",
    ));
    let holders = [run(&server, "default/first", 0), run(&server, "default/second", 0)];
    let mut waiters = Vec::new();
    for (job, number, kind, freed_by) in [
        ("child", 0, "dependency", 0),
        ("pooled", 0, "pool", 0),
        ("next", 0, "no_slot", 0),
        ("second", 1, "concurrency", 1),
    ] {
        let batch = match kind {
            // It came with its parent's.
            "dependency" => {
                server.json(&["batch", "ls", "--job", "default/child"])["items"][0]["id"].to_string()
            }
            _ => run(&server, &format!("default/{job}"), number),
        };
        let why = server.json(&["batch", "why", &batch]);
        assert_eq!(why["conditions"][0]["kind"], kind, "{why}");
        waiters.push((job, batch, freed_by));
    }
    for (gate, holder) in gates.iter().zip(&holders) {
        std::fs::write(gate, "").unwrap();
        attempt(&server, holder);
    }
    for (_, batch, _) in &waiters {
        attempt(&server, batch);
    }
    let events = feed.until_now(&server);
    for holder in &holders {
        let assigned = record_of(&events, "batch.assigned", holder);
        assert_eq!(assigned, record_of(&events, "batch.generated", holder), "a worker was free");
    }
    for (job, batch, freed_by) in waiters {
        let freed = record_of(&events, "attempt.finished", &holders[freed_by]);
        assert_eq!(record_of(&events, "batch.assigned", &batch), freed, "{job}");
    }
    assert_eq!(server.stop(), Some(0));
}
