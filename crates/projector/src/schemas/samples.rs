//! One of every event, with every optional field given: what golden files are made of, once.

mod pull;
mod reruns;
mod work;

use serde_json::{Value, json};
use tidemill_model::Event;

/// One of every event of the present version.
///
/// # Panics
/// When a sample is not one of the vocabulary: then a published event type has been changed.
#[must_use]
pub fn samples() -> Vec<Event> {
    let decode = |sample: Value| {
        let text = sample.to_string();
        serde_json::from_value(sample).unwrap_or_else(|error| panic!("{text} is no event any more: {error}"))
    };
    catalogue()
        .into_iter()
        .chain(specs())
        .chain(calendars())
        .chain(pull::pull())
        .chain(reruns::reruns())
        .chain(work::shard())
        .chain(work::foreign())
        .chain(work::batch())
        .chain(work::external_dependencies())
        .chain(work::rest())
        .map(decode)
        .collect()
}

const FIRE: [&str; 2] = ["2026-03-01T10:01:00Z", "2026-03-01T10:00:00Z"];

fn fire() -> Value {
    json!({"at": FIRE[0], "logical_time": FIRE[1]})
}

fn freeze() -> Value {
    json!({"latest": FIRE[1], "by": {"app": "etl", "user": "ann"}, "reason": "the warehouse is moved"})
}

fn settings() -> Value {
    json!({
        "start_timeout_ms": 300_000, "lost_after_ms": 30_000, "lease_ms": 600_000, "lease_margin_ms": 5_000,
        "on_silence": "hold", "kill_grace_ms": 10_000,
    })
}

fn definition(id: i64, version: u32) -> Value {
    json!({
        "id": id, "version": version, "group_id": 1,
        "parents": [
            {"job": 8192, "mapping": "same"}, {"job": 12288, "mapping": {"offset": 2}},
            {"job": 16384, "mapping": "all"},
        ],
        "spec": {
            "group": "demo", "name": "load", "owner": "ann", "app_name": "etl", "type": "shell",
            "program": "/opt/load", "class": "Main", "arguments": ["-v"],
            "parameters": {"day": "${yyyyMMdd-1d}"}, "comment": "loads the day",
            "priority": 3, "schedule": {"period": "hour", "zone": "Europe/Berlin"},
            "max_concurrent": 2, "retries": 3, "host": "node-7", "missed_runs": "latest",
        },
    })
}

fn catalogue() -> Vec<Value> {
    vec![
        json!({"catalogue": {"group_defined": {
            "group": 1, "name": "demo", "shard": 1, "worker_key": "aa11", "settings": settings(),
        }}}),
        json!({"catalogue": {"key_defined": {"app": "etl", "hash": "ff00", "role": "administrator", "groups": ["demo"]}}}),
        json!({"catalogue": {"key_revoked": {"app": "old"}}}),
        json!({"job": {"defined": {"definition": definition(4096, 2), "enabled": true, "unnamed": true}}}),
        json!({"job": {"enabled": {"job": 4096}}}),
        json!({"job": {"disabled": {"job": 4096}}}),
        json!({"job": {"deleted": {"job": 4096}}}),
        json!({"job": {"parent_deleted": {
            "parent": 4096, "name": "demo/load", "children": [{"shard": 1, "jobs": 2}, {"shard": 2, "jobs": 1}],
        }}}),
        json!({"catalogue": {"freeze_set": {"group": "demo", "freeze": freeze()}}}),
        json!({"catalogue": {"freeze_lifted": {"group": "demo", "by": {"app": "etl", "user": "ann"}, "reason": "moved"}}}),
        json!({"replication": {"freeze_replicated": {"scope": "everything", "freeze": freeze()}}}),
        json!({"partition": {"message_received": {"from": 0, "number": 7}}}),
        json!({"partition": {"outbox_acknowledged": {"to": 1, "upto": 7}}}),
    ]
}

fn moved_job() -> Value {
    let hours = json!({
        "first": FIRE[1], "times": 24, "step_ms": 3_600_000_i64, "result": "success", "version": 1,
    });
    let again = json!({
        "first": FIRE[0], "run": 2, "result": "failed", "version": 2, "parameters": {"day": "1"},
        "values": {"rows": "7"},
    });
    json!({"runs": [hours, again], "next": fire(), "passed": FIRE[1], "catching_up": true})
}

fn specs() -> Vec<Value> {
    let job = json!({
        "name": "load", "group": "demo", "owner": "ann", "type": "shell", "command": "load ${yyyyMMdd-1d}",
        "priority": 3, "schedule": {"period": "hour", "zone": "Europe/Berlin"}, "parents": ["extract"],
    });
    let by = json!({"app": "etl", "user": "ann"});
    let busy = json!([{"job": 4096, "batches": 2, "newest": 8193}]);
    let deletion = json!({"staged": {"apply": "w-1~7.0", "parts": 1, "prune": ["demo"]}});
    vec![
        json!({"apply": {"staged": {"apply": "w-1~7.0", "part": 0, "jobs": [job]}}}),
        json!({"apply": {"staging_discarded": {"apply": "w-0~3.0"}}}),
        json!({"apply": {"committed": {
            "apply": "w-1~7.0", "delete": [8192], "cancel": by, "request": "w-1", "reply_to": "api-1",
        }}}),
        json!({"apply": {"advanced": {"apply": "w-1~7.0", "done": 200}}}),
        json!({"apply": {"finished": {"apply": "w-1~7.0", "request": "w-1", "reply_to": "api-1"}}}),
        json!({"deletion": {"unfinished_queried": {
            "question": 1, "deletion": deletion, "jobs": [4096], "request": "w-1", "reply_to": "api-1",
        }}}),
        json!({"deletion": {"unfinished_reported": {"question": 1, "jobs": busy}}}),
        json!({"deletion": {"unfinished_received": {"question": 1, "from": 1, "jobs": busy}}}),
        json!({"deletion": {"decided": {
            "question": 1, "request": "w-1", "reply_to": "api-1", "outcome": {"answered": "done"},
        }}}),
        json!({"job": {"cancelled": {"job": 4096, "shard": 1, "by": by}}}),
        json!({"job": {"move_requested": {
            "job": 4096, "from": 1, "to": "other", "until": "2026-03-01T10:02:00Z", "request": "w-1",
            "reply_to": "api-1", "by": by,
        }}}),
        json!({"job": {"moved": {
            "definition": definition(4096, 3), "enabled": true, "previous_group": "lake", "from": 2,
            "moved": moved_job(), "request": "w-1", "reply_to": "api-1", "by": by,
        }}}),
        json!({"job": {"move_rejected": {
            "job": 4096, "reason": {"job_not_moved": {"job": "demo/load", "reason": "its final command has not ended"}},
            "request": "w-1", "reply_to": "api-1",
        }}}),
        json!({"replication": {"cancellation_replicated": {"job": 4096, "by": by}}}),
        json!({"partition": {"command_loss_accepted": {
            "by": "ann", "reason": "the topic was recreated", "done": 41, "kept_from": 60, "resumed_at": 64,
        }}}),
    ]
}

fn calendars() -> Vec<Value> {
    let calendar = json!({"version": 3, "spec": {
        "name": "cn", "zone": "Asia/Shanghai", "comment": "public holidays", "week": ["monday", "saturday"],
        "holidays": ["2026-10-01"], "working_days": ["2026-10-10"],
    }});
    vec![
        json!({"catalogue": {"calendar_defined": {"calendar": calendar}}}),
        json!({"catalogue": {"pool_defined": {"pool": {"version": 3, "spec": {"name": "warehouse", "slots": 8}}}}}),
        json!({"catalogue": {"pool_deleted": {"name": "warehouse"}}}),
        json!({"replication": {"pool_replicated": {"pool": {"version": 4, "spec": {
            "name": "api", "slots": 8, "rate": {"starts": 10, "interval_s": 60}, "group": "demo", "comment": "shared",
        }}}}}),
        json!({"replication": {"pool_dropped": {"name": "api"}}}),
        json!({"permit": {"rate_limit_reset": {"name": "api"}}}),
        json!({"permit": {"reported": {"report": {
            "pools": [{"name": "warehouse", "weight": 2}], "started": 1, "ended": 2, "unused": 1, "wanted": 4,
        }}}}),
        json!({"permit": {"report_received": {"from": 1, "report": {
            "pools": [{"name": "warehouse", "weight": 2}], "started": 1, "ended": 2, "unused": 1, "wanted": 4,
        }}}}),
        json!({"permit": {"granted": {"to": 1, "pools": [{"name": "warehouse", "weight": 2}], "permits": 3}}}),
        json!({"permit": {"received": {"pools": [{"name": "warehouse", "weight": 2}], "permits": 3}}}),
        json!({"catalogue": {"calendar_deleted": {"name": "cn"}}}),
        json!({"replication": {"calendar_replicated": {"calendar": calendar}}}),
        json!({"replication": {"calendar_dropped": {"name": "cn"}}}),
        json!({"schedule": {"rescheduled": {"job": 4096, "next": fire()}}}),
        json!({"schedule": {"generation_failed": {
            "job": 4096, "logical_time": FIRE[1], "failures": 1, "reason": "panicked",
            "retry_at": "2026-03-01T10:01:05Z",
        }}}),
    ]
}
