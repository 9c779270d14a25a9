//! BYD-4: pools of a group, and permits for those that groups share. Shard 1 and the catalogue are in one partition.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, case, ended, event, finished, generated, granted, group, job, registered,
};

pub(crate) fn cases() -> Vec<Case> {
    let limit = Invariant::RunningNeverAboveLimit;
    let permits = Invariant::PermitsAccountedFor;
    let both = |history: History| shard(history, [assigned(1, 1, "w", 1), assigned(2, 2, "w", 1)]);
    let own = |slots: u32| two(received(json!({"name": "p", "slots": slots, "group": "g"})));
    let rated = || {
        two(received(json!({
            "name": "p", "slots": 9, "group": "g", "rate": {"starts": 1, "interval_s": 60},
        })))
    };
    let shared = || {
        let pool = json!({"name": "p", "slots": 2});
        let defined = event(json!({"catalogue": {"pool_defined": {"pool": {"version": 1, "spec": pool}}}}));
        catalogue(two(received(pool)), [defined])
    };
    let given =
        |count: u32| shard(catalogue(shared(), [grant(count)]), [heard_of(1), permits_received(count)]);
    let first =
        || shard(given(1), [assigned(1, 1, "w", 1), report(true, json!({"started": 1, "wanted": 1}))]);
    let heard = |history: History, fields: Value| catalogue(history, [report(false, fields)]);
    let over = || {
        let history = heard(first(), json!({"started": 1, "wanted": 1}));
        shard(history, [granted(1, 1, "w", "i"), ended(1, 1, "w", 1, "success"), finished(1, "success")])
    };
    let back = json!({"ended": 1, "wanted": 0});
    let told = || shard(over(), [report(true, back.clone())]);
    vec![
        case(limit, "BYD-4: more of a pool than it has slots", both(own(2)), both(own(1))),
        case(
            limit,
            "BYD-4: more starts than the rate lets",
            shard(shard(rated(), [assigned(1, 1, "w", 1)]).pass(60), [assigned(2, 2, "w", 1)]),
            shard(shard(rated(), [assigned(1, 1, "w", 1)]).pass(59), [assigned(2, 2, "w", 1)]),
        ),
        case(
            permits,
            "BYD-4: more permits than the pool has slots",
            catalogue(shared(), [grant(1), grant(1)]),
            catalogue(shared(), [grant(1), grant(1), grant(1)]),
        ),
        case(permits, "BYD-4: assigned without a permit", both(given(2)), both(given(1))),
        case(
            permits,
            "a permit that has not come back counts",
            catalogue(heard(first(), json!({"started": 1, "wanted": 1})), [grant(1)]),
            catalogue(heard(first(), json!({"started": 1, "wanted": 1})), [grant(2)]),
        ),
        case(
            permits,
            "an end that was none is told",
            told(),
            shard(first(), [report(true, json!({"ended": 1, "wanted": 0}))]),
        ),
        case(
            permits,
            "what is heard is not what was told",
            heard(told(), back.clone()),
            heard(told(), json!({"ended": 1, "wanted": 7})),
        ),
        case(
            permits,
            "BYD-4: a permit is not given back",
            heard(told(), back.clone()).at_rest(),
            over().at_rest(),
        ),
        case(
            permits,
            "what was told is never heard",
            heard(told(), back.clone()).at_rest(),
            told().at_rest(),
        ),
    ]
}

/// Two batches that need the pool.
fn two(pool: Event) -> History {
    let uses = json!({"max_concurrent": 2, "pools": [{"name": "p", "weight": 1}]});
    let known = History::new().command([group(), pool, job(1, uses), registered("w", "i", 9)]);
    let other = json!({"logical_time": "2026-03-02T08:00:00.000Z"});
    known.command([generated(1, 1, json!({}))]).command([generated(2, 1, other)])
}

fn received(spec: Value) -> Event {
    event(json!({"replication": {"pool_replicated": {"pool": {"version": 1, "spec": spec}}}}))
}

fn shard<const N: usize>(history: History, events: [Event; N]) -> History {
    history.on(0, 1).command(events)
}

fn catalogue<const N: usize>(history: History, events: [Event; N]) -> History {
    history.on(0, 0).command(events)
}

fn needs() -> Value {
    json!([{"name": "p", "weight": 1}])
}

fn grant(permits: u32) -> Event {
    event(json!({"permit": {"granted": {"to": 1, "pools": needs(), "permits": permits}}}))
}

fn heard_of(number: u64) -> Event {
    event(json!({"partition": {"message_received": {"from": 0, "number": number}}}))
}

fn permits_received(permits: u32) -> Event {
    event(json!({"permit": {"received": {"pools": needs(), "permits": permits}}}))
}

/// What the shard tells, or the catalogue hears.
fn report(told: bool, fields: Value) -> Event {
    let mut report = json!({"pools": needs()});
    report.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    if told {
        event(json!({"permit": {"reported": {"report": report}}}))
    } else {
        event(json!({"permit": {"report_received": {"from": 1, "report": report}}}))
    }
}
