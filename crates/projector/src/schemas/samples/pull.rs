//! Tasks that clients pull, and their users.

use serde_json::{Value, json};

use super::FIRE;

pub(super) fn pull() -> Vec<Value> {
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
