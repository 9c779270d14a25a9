//! What the catalogue sends, and what the group shards receive.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, job_id};

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::MessagesBetweenShardsOnceInOrder;
    let sent = || History::with_partitions(2).on(0, 0).command([defined_group(), defined(1)]).on(1, 1);
    let both = || sent().command([message(1), group(), message(2), received(json!({}))]);
    vec![
        case(rule, "a message is left out", both(), sent().command([message(2), received(json!({}))])),
        case(rule, "a message arrives twice", both(), both().command([message(2)])),
        case(
            rule,
            "a message says another thing than was sent",
            both(),
            sent().command([message(1), group(), message(2), received(json!({"comment": "other"}))]),
        ),
        case(
            rule,
            "an acknowledgement of what has not arrived",
            both().on(0, 0).command([acknowledged(2)]),
            sent().command([message(1), group()]).on(0, 0).command([acknowledged(2)]),
        ),
        case(
            rule,
            "a message that never arrives",
            both().at_rest(),
            sent().command([message(1), group()]).at_rest(),
        ),
        case(
            rule,
            "a message that was not sent",
            both(),
            both().command([message(3), event(json!({"replication": {"job_dropped": {"job": job_id(1)}}}))]),
        ),
        case(
            Invariant::VersionsRise,
            "the catalogue leaves a version out",
            History::with_partitions(1).on(0, 0).command([defined(1)]).command([defined(2)]),
            History::with_partitions(1).on(0, 0).command([defined(1)]).command([defined(3)]),
        ),
        case(
            Invariant::VersionsRise,
            "the shard goes back to an old version",
            History::new().command([received(json!({"version": 2}))]),
            History::new()
                .command([received(json!({"version": 2}))])
                .command([received(json!({"version": 1}))]),
        ),
    ]
}

fn defined_group() -> Event {
    event(
        json!({"catalogue": {"group_defined": {"group": 1, "name": "g", "shard": 1, "worker_key": "k", "settings": {}}}}),
    )
}

fn group() -> Event {
    crate::kit::group()
}

fn defined(version: u32) -> Event {
    event(
        json!({"job": {"defined": {"definition": definition(1, json!({"version": version})), "enabled": true}}}),
    )
}

fn received(more: Value) -> Event {
    event(json!({"replication": {"job_replicated": {"definition": definition(1, more), "enabled": true}}}))
}

fn message(number: u64) -> Event {
    event(json!({"partition": {"message_received": {"from": 0, "number": number}}}))
}

fn acknowledged(upto: u64) -> Event {
    event(json!({"partition": {"outbox_acknowledged": {"to": 1, "upto": upto}}}))
}
