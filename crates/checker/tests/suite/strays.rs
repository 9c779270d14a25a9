//! EXE-10, OPS-5: attempts of a life of the log that is lost.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, assigned, batch_id, case, event, generated, granted, job_id, token, world};

pub(crate) fn cases() -> Vec<Case> {
    [held(), ends()].into_iter().flatten().collect()
}

fn found(tok: u64) -> Event {
    let stray = json!({
        "token": token(tok), "batch": batch_id(tok), "job": job_id(1), "logical_time": "2026-03-02T09:00:00.000Z",
    });
    event(json!({"worker": {"strays_found": {"worker": "w", "incarnation": "i", "strays": [stray]}}}))
}

fn alarm() -> Event {
    event(json!({"alarm": {"raised": {
        "kind": "strays_found", "severity": "critical", "worker": "w", "message": "m",
    }}}))
}

fn ended(tok: u64) -> Event {
    event(json!({"worker": {"stray_ended": {"worker": "w", "token": token(tok)}}}))
}

fn to_end(tok: u64) -> Event {
    event(json!({"worker": {"stray_kill_requested": {
        "worker": "w", "token": token(tok), "by": {"app": "me"}, "reason": "r",
    }}}))
}

fn adopted(batch: u64, tok: u64) -> Event {
    event(json!({"attempt": {"adopted": {
        "batch": batch_id(batch), "token": token(tok), "attempt": 1, "worker": "w", "incarnation": "i",
        "by": {"app": "me"}, "reason": "r",
    }}}))
}

fn of(what: &str) -> Event {
    event(json!({"worker": {what: {"worker": "w", "incarnation": "i"}}}))
}

/// A restored log: lives before it minted up to 9.
fn restored() -> History {
    let restored = json!({"generation": 1, "ids_above": 9, "by": "ann", "upto": 3});
    world().raised(3).timer([event(json!({"partition": {"restored": restored}}))])
}

/// ... with a stray, and a batch of its logical time.
fn beside() -> History {
    restored().command([found(5), alarm()]).command([generated(10, 1, json!({}))])
}

/// ... where the batch was assigned before.
fn too_late() -> History {
    restored()
        .command([generated(10, 1, json!({}))])
        .timer([assigned(10, 10, "w", 1)])
        .command([found(5), alarm()])
}

fn held() -> Vec<Case> {
    let rule = Invariant::StraysHoldTheirTime;
    let starts = || assigned(10, 10, "w", 1);
    vec![
        case(
            rule,
            "a batch is assigned while a stray of its logical time runs",
            beside().command([ended(5)]).timer([starts()]),
            beside().timer([starts()]),
        ),
        case(
            rule,
            "a start is granted while a stray of its logical time runs",
            too_late().command([ended(5)]).command([granted(10, 10, "w", "i")]),
            too_late().command([granted(10, 10, "w", "i")]),
        ),
        case(
            rule,
            "nobody is told of a stray",
            restored().command([found(5), alarm()]).command([ended(5)]),
            restored().command([found(5)]).command([ended(5)]),
        ),
        case(rule, "people are told of no stray", restored(), restored().command([alarm()])),
        case(
            rule,
            "what this life gave is called a stray",
            restored().command([found(12), alarm()]),
            too_late().command([ended(5)]).command([found(10), alarm()]),
        ),
    ]
}

fn ends() -> Vec<Case> {
    let rule = Invariant::StraysEndAsAttemptsDo;
    let vouched = || {
        event(json!({"worker": {"end_vouched": {
            "worker": "w", "incarnation": "i", "by": {"app": "me"}, "reason": "r",
        }}}))
    };
    // The default lease is 600 s, its margin 5 s.
    let silent = || beside().pass(31).observed([of("lost")]).at("2026-03-02T10:10:45.000Z");
    vec![
        case(rule, "a stray ends by nobody's word", beside().command([ended(5)]), beside().timer([ended(5)])),
        case(
            rule,
            "a lease ends a stray",
            silent().command([vouched()]).timer([ended(5)]),
            silent().observed([of("lease_expired")]).timer([ended(5)]),
        ),
        case(
            rule,
            "nobody asked for the end of a stray",
            beside().command([to_end(5)]),
            beside().timer([to_end(5)]),
        ),
        case(
            rule,
            "a stray is adopted for another job",
            beside().command([adopted(10, 5)]),
            beside().command([generated(11, 2, json!({}))]).command([adopted(11, 5)]),
        ),
        case(
            rule,
            "a stray is adopted though a worker has the batch",
            beside().command([adopted(10, 5)]),
            too_late().command([adopted(10, 5)]),
        ),
        case(
            rule,
            "a stray is adopted that is to end",
            beside().command([adopted(10, 5)]),
            beside().command([to_end(5)]).command([adopted(10, 5)]),
        ),
        case(
            rule,
            "what is no stray is adopted",
            beside().command([adopted(10, 5)]),
            beside().command([adopted(10, 6)]),
        ),
    ]
}
