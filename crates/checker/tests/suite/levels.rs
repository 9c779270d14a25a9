//! Processes, and the level that is raised when all of them read it.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::{Envelope, Event, Level, Timestamp};

use crate::kit::{Case, History, T0, case, event};

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::LevelRaisedWhenAllReadIt;
    let of = |events: Vec<Event>| {
        events.into_iter().fold(History::new().on(0, 0), |history, event| history.timer([event]))
    };
    let good = || {
        of(vec![
            held(),
            registered("a", 2),
            registered("b", 1),
            registered("c", 1),
            json_event("process_deregistered", json!({"process": "b"})),
            json_event("process_expired", json!({"process": "c"})),
            json_event("released", json!({"by": {"app": "ops"}})),
            raised(2),
            registered("d", 2),
        ])
    };
    let above = Invariant::NothingAboveTheLevel;
    vec![
        case(
            rule,
            "one process reads less",
            good(),
            of(vec![registered("a", 2), registered("b", 1), raised(2)]),
        ),
        case(rule, "it is held", good(), of(vec![registered("a", 2), held(), raised(2)])),
        case(rule, "it stood before", good(), of(vec![registered("a", 2), raised(2), raised(2)])),
        case(rule, "nobody is registered", good(), of(vec![raised(2)])),
        case(
            rule,
            "one registers that reads less",
            good(),
            of(vec![registered("a", 2), raised(2), registered("b", 1)]),
        ),
        case(
            rule,
            "one ends that is not registered",
            good(),
            of(vec![json_event("process_expired", json!({"process": "x"}))]),
        ),
        case(
            rule,
            "it is released, and nobody holds it",
            good(),
            of(vec![json_event("released", json!({"by": {"app": "ops"}}))]),
        ),
        case(
            above,
            "an envelope is of a level that does not stand",
            of(vec![registered("a", 2), raised(2)]).envelope(&of_level(2)),
            of(vec![registered("a", 2)]).envelope(&of_level(2)),
        ),
    ]
}

fn of_level(level: u32) -> Envelope {
    let now: Timestamp = T0.parse().unwrap();
    Envelope { now, level: Level::new(level), resume: None, causes: vec![], events: vec![] }
}

fn json_event(kind: &str, of: serde_json::Value) -> Event {
    event(json!({"level": {kind: of}}))
}

fn registered(id: &str, reads: u32) -> Event {
    json_event(
        "process_registered",
        json!({"process": {
            "id": id, "host": "h", "roles": ["api"], "version": "1", "reads": reads, "expire_after_ms": 60_000,
        }}),
    )
}

fn raised(level: u32) -> Event {
    json_event("raised", json!({ "level": level }))
}

fn held() -> Event {
    json_event("held", json!({"by": {"app": "ops"}, "reason": "upgrade"}))
}
