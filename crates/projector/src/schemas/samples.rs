//! One of every event, with every optional field given: what golden files are made of, once.

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
        .chain(pull())
        .chain(reruns())
        .chain(shard())
        .chain(foreign())
        .chain(batch())
        .chain(external_dependencies())
        .chain(rest())
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

fn pull() -> Vec<Value> {
    let start = FIRE[1];
    let fields = json!({"path": {"required": true, "type": "string"}, "size": {"required": false}});
    let template = json!({"version": 3, "spec": {"name": "copy", "fields": fields, "comment": "copies"}});
    let spec = json!({
        "executor": {"group": "demo"}, "name": "copy a file", "template": "copy",
        "parameters": {"path": "/a", "size": 0.1}, "when": {"once": {"start": start}}, "dispatch_times": 6,
        "repeat": true, "lease_s": 600,
    });
    let days = json!({"every_days": {"n": 2, "at": "07:30", "zone": "Europe/Berlin", "start": start}});
    let own = json!({"executor": {"user": "ann"}, "when": days, "dispatch_times": 1});
    let ledger = json!({"taken": 2, "live": 0, "completed": 1, "returned": 1, "expired": 0});
    let mut occurrence = ledger.clone();
    occurrence["start"] = json!(start);
    occurrence["next"] = json!(FIRE[0]);
    let tasks = json!([{
        "task": 8192, "version": 2, "spec": own, "totals": ledger, "occurrences": [occurrence],
    }]);
    let last = json!({
        "grant": 4096, "task": 8192, "start": start, "result_hash": "ab12", "completed_at": FIRE[0],
    });
    let history = json!({"last": last, "done": [8192], "not_before": start});
    let place = json!({"grant": 4096, "task": 4096, "start": start, "user": "ann"});
    let with = |mut place: Value, more: Value| {
        for (name, value) in more.as_object().into_iter().flatten() {
            place[name] = value.clone();
        }
        place
    };
    let granted = json!({"version": 1, "expires_at": "2026-03-01T10:11:00Z", "next": FIRE[0]});
    let asker = json!({"request": "w-2", "reply_to": "api-1"});
    let moved = json!({
        "user": "ann", "from": 1, "to": "other", "shard": 2, "history": history, "tasks": tasks,
    });
    vec![
        json!({"catalogue": {"template_defined": {"template": template}}}),
        json!({"catalogue": {"template_deleted": {"name": "copy"}}}),
        json!({"catalogue": {"users_assigned": {"group": "demo", "shard": 1, "users": ["ann", "uid_7"]}}}),
        json!({"catalogue": {"user_move_requested": with(json!({"user": "ann", "from": 1, "to": "other"}), asker.clone())}}),
        json!({"catalogue": {"user_moved": with(moved, asker.clone())}}),
        json!({"catalogue": {"user_move_rejected": with(
            json!({"user": "ann", "reason": {"grant_live": {"user": "ann", "grant": 4096}}}), asker,
        )}}),
        json!({"replication": {"template_replicated": {"template": template}}}),
        json!({"replication": {"template_dropped": {"name": "copy"}}}),
        json!({"replication": {"users_replicated": {"users": ["ann", "uid_7"]}}}),
        json!({"transfer": {"user_detached": {"user": "ann", "history": history, "tasks": tasks}}}),
        json!({"transfer": {"user_detach_rejected": {"user": "ann", "reason": {"grant_live": {"user": "ann", "grant": 4096}}}}}),
        json!({"transfer": {"user_attached": {"user": "ann", "history": history, "tasks": tasks}}}),
        json!({"task": {"created": {"task": 4096, "spec": spec}}}),
        json!({"task": {"changed": {"task": 4096, "version": 2, "spec": spec}}}),
        json!({"task": {"deleted": {"task": 4096}}}),
        json!({"task": {"granted": with(place.clone(), granted)}}),
        json!({"task": {"completed": with(place.clone(), json!({"result": "copied"}))}}),
        json!({"task": {"grant_returned": with(
            place.clone(), json!({"by": {"app": "etl", "user": "ann"}, "reason": "not mine"}),
        )}}),
        json!({"task": {"grant_expired": place}}),
        json!({"task": {"purged": {"before": start, "tasks": [4096]}}}),
    ]
}

fn reruns() -> Vec<Value> {
    let by = json!({"app": "etl", "user": "ann"});
    let by_hand = |name: &str| json!({"rerun": {name: {"rerun": 4096, "by": by}}});
    let spec = json!({
        "scope": {"rerun": {"jobs": [4096], "cascade": {"subset": [8192]}}}, "from": FIRE[1], "to": FIRE[0],
        "reach": FIRE[0], "only": "failed", "order": "newest", "concurrency": 5, "definition": "recorded", "reason": "late data",
        "approve": true,
    });
    let told = json!([{
        "job": 4096, "logical_time": FIRE[1], "run": 0, "batch": 4097, "result": "failed", "version": 1,
    }]);
    let unfinished = json!({"unfinished": {"batch": 4097, "logical_time": FIRE[1]}});
    vec![
        json!({"rerun": {"requested": {
            "rerun": 4096, "spec": spec, "by": by, "groups": ["demo"],
            "jobs": [{"job": 4096, "version": 2, "touches": 1}, {"job": 8192, "version": 1}],
        }}}),
        json!({"rerun": {"runs_queried": {
            "rerun": 4096, "part": 1, "shard": 1, "upto": 2, "asked": [{"job": 4096, "times": [FIRE[1]]}],
        }}}),
        json!({"rerun": {"runs_reported": {"rerun": 4096, "part": 1, "runs": told}}}),
        json!({"rerun": {"runs_received": {"rerun": 4096, "part": 1, "from": 1, "runs": told}}}),
        json!({"rerun": {"jobs_skipped": {"rerun": 4096, "jobs": [{"job": 8192, "reason": unfinished}]}}}),
        json!({"rerun": {"batches_planned": {"rerun": 4096, "first": 2, "batches": [
            {"job": 4096, "logical_time": FIRE[1], "run": 1, "after": [1]},
        ]}}}),
        json!({"rerun": {"planned": {"rerun": 4096, "batches": 2}}}),
        by_hand("approved"),
        json!({"rerun": {"runs_requested": {"rerun": 4096, "runs": [
            {"number": 2, "job": 4096, "logical_time": FIRE[1]},
        ]}}}),
        json!({"rerun": {"run_finished": {
            "rerun": 4096, "number": 2, "end": {"finished": {"batch": 4097, "result": "failed"}},
        }}}),
        json!({"rerun": {"run_skipped": {
            "rerun": 4096, "number": 2, "job": 4096, "logical_time": FIRE[1],
            "reason": {"unfinished": {"batch": 4097}},
        }}}),
        json!({"rerun": {"runs_blocked": {"rerun": 4096, "numbers": [3, 4]}}}),
        json!({"bulk": {"requested": {
            "bulk": 4096, "action": {"mark": "skipped"}, "items": [4097, 8193], "reason": "no data today", "by": by,
        }}}),
        json!({"bulk": {"advanced": {"bulk": 4096, "outcomes": [
            {"item": 4097, "rerun": 4096}, {"item": 8193, "refused": "there is no batch 8193"},
        ], "ended": true}}}),
        by_hand("paused"),
        by_hand("resumed"),
        json!({"rerun": {"cancelled": {"rerun": 4096, "by": by, "kill": true}}}),
        json!({"rerun": {"finished": {"rerun": 4096, "result": "done_with_failures", "message": "3 of 40"}}}),
    ]
}

fn shard() -> Vec<Value> {
    vec![
        json!({"replication": {"group_replicated": {"group": 1, "name": "demo", "worker_key": "aa11", "settings": settings()}}}),
        json!({"replication": {"job_replicated": {"definition": definition(4096, 2), "enabled": true, "next": fire()}}}),
        json!({"replication": {"job_switch_replicated": {"job": 4096, "enabled": true, "next": fire()}}}),
        json!({"replication": {"job_dropped": {"job": 4096, "orphaned_in": [1, 2]}}}),
        json!({"replication": {"parent_deletion_replicated": {
            "parent": 4096, "name": "demo/load", "deleted_at": "2026-03-01T10:00:00Z", "jobs": [8192, 12288],
        }}}),
        json!({"transfer": {"job_detached": {"job": 4096, "moved": moved_job()}}}),
        json!({"transfer": {"job_detach_rejected": {
            "job": 4096, "reason": {"job_not_moved": {"job": "demo/load", "reason": "its final command has not ended"}},
        }}}),
        json!({"transfer": {"job_attached": {
            "definition": definition(4096, 3), "enabled": true, "next": fire(), "moved": moved_job(),
        }}}),
        json!({"job": {"submitted": {"definition": definition(4097, 1)}}}),
        json!({"schedule": {"skipped": {
            "job": 4096, "from": "2026-02-01T00:00:00Z", "to": FIRE[1], "count": 682, "reason": "too_old",
            "next": fire(),
        }}}),
    ]
}

fn foreign() -> Vec<Value> {
    let schedule = json!({"period": "hour", "zone": "Europe/Berlin"});
    let ended = json!({
        "logical_time": FIRE[1], "succeeded": true, "run": 1, "batch": 4097, "result": "success",
    });
    vec![
        json!({"replication": {"parents_replicated": {
            "parents": [{"job": 8192, "name": "lake/extract", "shard": 2, "schedule": schedule}],
        }}}),
        json!({"replication": {"parent_status_updated": {"parent": 8192, "standings": [ended]}}}),
        json!({"replication": {"parent_generations_received": {"parent": 8192, "times": [FIRE[1]], "left_out": 3}}}),
        json!({"replication": {"parent_times_received": {"parent": 8192, "times": [FIRE[1]]}}}),
        json!({"subscription": {"parent_subscribed": {"job": 4096, "by": 2, "what": "generations"}}}),
        json!({"subscription": {"parent_times_subscribed": {"job": 4096, "by": 2, "times": [FIRE[1]]}}}),
        json!({"subscription": {"parent_times_unsubscribed": {"job": 4096, "by": 2, "times": [FIRE[1]]}}}),
    ]
}

fn batch() -> Vec<Value> {
    let attempt = |name: &str| json!({"attempt": {name: {"batch": 4097, "token": 8193}}});
    vec![
        json!({"batch": {"generated": {
            "batch": 4097, "job": 4096, "version": 2, "logical_time": FIRE[1], "run": 1, "origin": "schedule",
            "dependencies": [{"parent": 8192, "mapping": "same", "times": [FIRE[1]], "met": [FIRE[1]]}],
            "parameters": {"force": "1"}, "next": fire(),
        }}}),
        json!({"batch": {"dependency_satisfied": {"batch": 4097, "parent": 8192, "logical_time": FIRE[1], "unmet": 1}}}),
        json!({"batch": {"dependency_revoked": {"batch": 4097, "parent": 8192, "logical_time": FIRE[1], "unmet": 2}}}),
        json!({"batch": {"assigned": {
            "batch": 4097, "attempt": 2, "token": 8193, "worker": "w-1", "start_by": "2026-03-01T10:06:00Z",
        }}}),
        json!({"batch": {"assignment_returned": {
            "batch": 4097, "token": 8193, "worker": "w-1", "reason": {"rejected": "not enough memory"},
        }}}),
        json!({"attempt": {"start_granted": {
            "batch": 4097, "token": 8193, "worker": "w-1", "incarnation": "i-1", "nonce": "n-1",
        }}}),
        attempt("started"),
        json!({"attempt": {"finished": {
            "batch": 4097, "token": 8193, "attempt": 2, "worker": "w-1",
            "outcome": {"result": "failed", "exit_code": 3, "signal": 9, "message": "exit code 3"},
            "usage": {"duration_ms": 1200, "cpu_ms": 800, "peak_memory_kib": 2048},
        }}}),
        json!({"attempt": {"user_code_reported": {"batch": 4097, "token": 8193, "code": 3}}}),
        json!({"final_command": {"assigned": {
            "batch": 4097, "job": 4096, "token": 12289, "worker": "w-1", "start_by": "2026-03-01T10:12:00Z",
        }}}),
        json!({"final_command": {"granted": {
            "batch": 4097, "token": 12289, "worker": "w-1", "incarnation": "i-1", "nonce": "n-2",
        }}}),
        json!({"final_command": {"finished": {
            "batch": 4097, "job": 4096, "token": 12289, "worker": "w-1", "result": "failed", "exit_code": 2,
            "message": "exit code 2",
        }}}),
        json!({"batch": {"blocked": {
            "batch": 8193, "parent": 4096, "logical_time": "2026-07-01T10:00:00Z", "since": "2026-07-01T10:11:00Z",
        }}}),
        json!({"batch": {"unblocked": {"batch": 8193}}}),
        json!({"final_command": {"not_run": {
            "batch": 4097, "job": 4096,
            "message": "the batch had no attempt, and no worker that may run its job had a free slot in time",
        }}}),
        json!({"batch": {"retry_scheduled": {"batch": 4097, "attempt": 3, "at": "2026-03-01T10:07:00Z"}}}),
        json!({"batch": {"retry_due": {"batch": 4097}}}),
        json!({"attempt": {"kill_requested": {
            "batch": 4097, "token": 8193, "by": {"app": "etl", "user": "ann"}, "reason": "wrong input",
        }}}),
        json!({"batch": {"finished": {
            "batch": 4097, "result": "killed", "by": {"app": "etl", "user": "ann"}, "message": "wrong input",
        }}}),
        json!({"batch": {"start_due": {"batch": 4097}}}),
        json!({"batch": {"result_overridden": {
            "batch": 4097, "job": 4096, "logical_time": FIRE[1], "result": "skipped",
            "by": {"app": "etl", "user": "ann"}, "reason": "the source was closed that day",
        }}}),
        json!({"batch": {"timeout_reached": {"batch": 4097, "kind": "output", "deadline": "2026-03-01T10:07:00Z"}}}),
        json!({"alarm": {"raised": {
            "kind": "output_timeout", "severity": "important", "job": 4096, "batch": 4097, "worker": "w-1",
            "message": "output timeout: batch 4097 runs",
        }}}),
        json!({"partition": {"history_evicted": {"job": 4096, "upto": FIRE[1]}}}),
    ]
}

fn external_dependencies() -> Vec<Value> {
    let by = json!({"app": "etl", "user": "ann"});
    vec![
        json!({"observation": {"external_dependency_registered": {
            "external_dependency": 4097, "what": {"path": {"path": "hdfs://nn:8020/data/20260301", "mark": "_SUCCESS"}},
        }}}),
        json!({"observation": {"external_dependency_satisfied": {"external_dependency": 4097, "generation": 1}}}),
        json!({"observation": {"external_dependency_revoked": {"external_dependency": 4097, "generation": 2, "worker": "w-1"}}}),
        json!({"observation": {"external_dependencies_evicted": {"external_dependencies": [4097, 8193]}}}),
        json!({"batch": {"dependency_overridden": {
            "batch": 4097, "external_dependencies": [4097], "parents": [{"job": 8192, "logical_time": FIRE[1]}],
            "quality": true, "unmet": 1, "by": by, "reason": "the file came by mail",
        }}}),
        json!({"observation": {"probes_requested": {"batch": 4097, "by": by}}}),
        json!({"batch": {"quality_requested": {"batch": 4097, "number": 1, "again_at": "2026-03-01T10:11:00Z"}}}),
        json!({"batch": {"quality_sent": {"batch": 4097, "number": 1, "by": "p-1"}}}),
        json!({"batch": {"quality_answered": {"batch": 4097, "allowed": false, "reason": "too few rows", "by": by}}}),
        json!({"observation": {"third_party_reported": {
            "report": {"code": "erp", "logical_time": FIRE[1], "ready": true}, "by": by,
        }}}),
        json!({"observation": {"third_party_evicted": {"upto": FIRE[1], "count": 500}}}),
        json!({"observation": {"probes_late": {"report": {
            "prober": "p-1", "authority": "hdfs://nn:8020", "late_ms": 301_000, "failure": "connection refused",
        }}}}),
        json!({"observation": {"probes_recovered": {"prober": "p-1", "authority": "hdfs://nn:8020"}}}),
    ]
}

fn rest() -> Vec<Value> {
    let life = |name: &str| json!({"worker": {name: {"worker": "w-1", "incarnation": "i-1"}}});
    vec![
        json!({"worker": {"registered": {
            "worker": "w-1", "incarnation": "i-1", "host": "node-7", "address": "10.0.0.7:7070",
            "slots": {"shell": 4, "noop": 100},
        }}}),
        json!({"worker": {"measured": {
            "worker": "w-1", "memory_total_mb": 64_000, "memory_free_mb": 1_200, "load_percent": 840,
            "overloaded": true,
        }}}),
        life("lost"),
        life("recovered"),
        life("lease_expired"),
        json!({"worker": {"drained": {"worker": "w-1"}}}),
        json!({"worker": {"resumed": {"worker": "w-1"}}}),
        json!({"worker": {"unready": {"worker": "w-1", "incarnation": "i-1", "reason": "its disk is full"}}}),
        life("ready"),
        json!({"partition": {"command_dead_lettered": {"offset": 41, "reason": "it is not JSON"}}}),
        json!({"partition": {"timer_suspended": {"entity": "job/4096", "reason": "panicked"}}}),
        json!({"partition": {"clock_set": {"now": FIRE[0]}}}),
    ]
}
