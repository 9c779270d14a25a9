//! Reruns and cold starts.

use serde_json::{Value, json};

use super::FIRE;

pub(super) fn reruns() -> Vec<Value> {
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
