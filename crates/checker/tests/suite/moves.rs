//! JOB-9: jobs that move: the catalogue is shard 0, job 1 goes from group g, shard 1, to group h, shard 2.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{BatchId, Event, ShardId};

use crate::kit::{
    Case, History, case, definition, event, finished, generated, group, job, job_id, scheduled,
};

const NINE: &str = "2026-03-02T09:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::MovedJobsKeepTheirRuns;
    let good = || moved(ran(), &known(), &known());
    let anchor = || job(1, json!({"type": "anchor"}));
    let rest = |known: &Value| moved(ran(), known, known);
    let with = |more: Value| {
        let mut known = known();
        known["runs"][0].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        known
    };
    vec![
        case(rule, "something is unfinished", good(), {
            let unfinished =
                catalogue([asked()]).on(1, 1).command([group(), anchor(), generated(1, 1, json!({}))]);
            moved(unfinished, &known(), &known())
        }),
        case(rule, "a logical time is left behind", good(), rest(&json!({}))),
        case(rule, "a logical time that never was", good(), rest(&with(json!({"times": 2, "step_ms": 60})))),
        case(rule, "another run number", good(), rest(&with(json!({"run": 1})))),
        case(rule, "another result", good(), rest(&with(json!({"result": "failed"})))),
        case(rule, "other parameters", good(), rest(&with(json!({"parameters": {"day": "1"}})))),
        case(rule, "the catalogue records another thing than was told", good(), {
            moved(ran(), &known(), &with(json!({"run": 1})))
        }),
        case(rule, "the fire that is to come is lost", good(), {
            let next = ("2026-03-02T10:01:00.000Z", "2026-03-02T10:00:00.000Z");
            let hourly = scheduled(1, json!({"period": "hour", "zone": "UTC"}), next);
            let before = catalogue([asked()]).on(1, 1).command([group(), hourly]);
            moved(before, &json!({}), &json!({}))
        }),
        case(rule, "nobody asked for it", good(), {
            let ran = catalogue([]).on(1, 1).command([group(), anchor(), generated(1, 1, json!({}))]);
            moved(ran.command([finished(1, "success")]), &known(), &known())
        }),
        case(rule, "it goes to another group than was asked for", good(), {
            let asked = event(json!({"job": {"move_requested": {
                "job": job_id(1), "from": 1, "to": "g", "until": "2026-03-02T11:00:00.000Z",
            }}}));
            let ran = catalogue([asked]).on(1, 1).command([group(), anchor(), generated(1, 1, json!({}))]);
            moved(ran.command([finished(1, "success")]), &known(), &known())
        }),
        case(
            rule,
            "it changes on its way",
            catalogue([asked()]),
            catalogue([asked()]).on(0, 0).command([event(json!({"job": {"disabled": {"job": job_id(1)}}}))]),
        ),
        case(rule, "it comes to a group that has it", good(), good().command([taken(3, &json!({}))])),
        case(
            Invariant::OneGeneratedPerRun,
            "GEN-2: a run number of before the move is used again",
            good().command([there(1)]),
            good().command([there(0)]),
        ),
    ]
}

/// What group g knows of job 1.
fn known() -> Value {
    json!({"runs": [{"first": NINE, "result": "success", "version": 1}]})
}

fn catalogue<const N: usize>(more: [Event; N]) -> History {
    let defined =
        event(json!({"job": {"defined": {"definition": definition(1, json!({})), "enabled": true}}}));
    let group = |name: &str, shard: u16| {
        event(json!({"catalogue": {"group_defined": {
            "group": shard, "name": name, "shard": shard, "worker_key": "k", "settings": {},
        }}}))
    };
    History::with_partitions(3).on(0, 0).command([group("g", 1), group("h", 2), defined]).command(more)
}

fn asked() -> Event {
    event(json!({"job": {"move_requested": {
        "job": job_id(1), "from": 1, "to": "h", "until": "2026-03-02T11:00:00.000Z",
    }}}))
}

/// Job 1 ran once in group g, which is asked to let it go.
fn ran() -> History {
    let job = job(1, json!({"type": "anchor"}));
    catalogue([asked()]).on(1, 1).command([group(), job, generated(1, 1, json!({})), finished(1, "success")])
}

fn there(run: u32) -> Event {
    let batch = BatchId::mint(1, ShardId(2)).0;
    generated(1, 1, json!({"batch": batch, "version": 2, "run": run, "origin": "manual"}))
}

fn taken(version: u32, known: &Value) -> Event {
    let more = json!({"version": version, "group": "h", "group_id": 2, "type": "anchor"});
    event(
        json!({"transfer": {"job_attached": {"definition": definition(1, more), "enabled": true, "moved": known}}}),
    )
}

/// Group g lets the job go with this, and the catalogue and group h go by that.
fn moved(before: History, told: &Value, heard: &Value) -> History {
    let more = json!({"version": 2, "group": "h", "group_id": 2, "type": "anchor"});
    let moved = event(json!({"job": {"moved": {
        "definition": definition(1, more), "enabled": true, "previous_group": "g", "from": 1, "moved": heard,
    }}}));
    let group = event(
        json!({"replication": {"group_replicated": {"group": 2, "name": "h", "worker_key": "k", "settings": {}}}}),
    );
    before
        .on(1, 1)
        .command([event(json!({"transfer": {"job_detached": {"job": job_id(1), "moved": told}}}))])
        .on(0, 0)
        .command([moved])
        .on(2, 2)
        .command([group, taken(2, heard)])
}
