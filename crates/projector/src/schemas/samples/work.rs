//! What shards of groups decide: batches, what they wait for, workers, and what shards tell one another.

use serde_json::{Value, json};

use super::{FIRE, definition, fire, moved_job, settings};

pub(super) fn shard() -> Vec<Value> {
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

pub(super) fn foreign() -> Vec<Value> {
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

pub(super) fn batch() -> Vec<Value> {
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

pub(super) fn external_dependencies() -> Vec<Value> {
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

pub(super) fn rest() -> Vec<Value> {
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
