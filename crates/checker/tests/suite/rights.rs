//! Assignments with the right to start before the question is answered (rule 8).

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::{Event, Outcome, Rejection, Source};

use crate::kit::{
    Case, History, assigned, batch_id, case, event, granted, kill, killed_by, registered, resume, returned,
    source, token, waiting,
};

const RULE: Invariant = Invariant::RightsEndByWordLeaseOrTime;

/// A window of 10 s and a margin of 5 s, from a reading that was at most 5 s before.
fn with_right(tok: u64, incarnation: &str, over_after_ms: u64) -> Event {
    event(json!({"batch": {"assigned_with_right": {
        "batch": batch_id(1), "attempt": 1, "token": token(tok), "worker": "w",
        "right": {"incarnation": incarnation, "heartbeat": 7, "window_ms": 10_000},
        "over_after_ms": over_after_ms,
    }}}))
}

fn given() -> History {
    waiting().raised(2).timer([with_right(1, "i", 15_000)])
}

fn not_started() -> Event {
    returned(1, 1, "w", json!("not_started"))
}

/// Its question is granted, and its worker leaves before it has begun.
fn leaves(has_left: bool) -> History {
    let of = |what: &str| event(json!({"worker": {what: {"worker": "w", "incarnation": "i"}}}));
    let leaving = waiting().raised(3).timer([with_right(1, "i", 15_000)]).command([granted(1, 1, "w", "i")]);
    let left = has_left.then(|| of("left"));
    let events = left.into_iter().chain([returned(1, 1, "w", json!("worker_leaving"))]).collect();
    leaving.command([of("leaving")]).causes([(Source::Timer, Outcome::Done, events)])
}

/// The next command, the third, could not be read.
fn set_aside(history: History) -> History {
    let event = event(json!({"partition": {"command_dead_lettered": {"offset": 2, "reason": "x"}}}));
    let outcome = Outcome::Refused(Rejection::DeadLettered { reason: "x".to_owned() });
    history.causes_to(resume(2, b"c"), [(source(2, Some("r")), outcome, vec![event])])
}

pub(crate) fn cases() -> Vec<Case> {
    let over = || given().pass(11).observed([not_started()]);
    let reborn = || given().command([registered("w", "j", 4)]);
    let lost = || event(json!({"worker": {"lost": {"worker": "w", "incarnation": "i"}}}));
    let killed = || given().timer([kill(1, 1)]);
    vec![
        case(RULE, "DSP-5: taken back before it is over", over(), given().pass(9).observed([not_started()])),
        case(
            RULE,
            "taken back for the loss of its worker",
            reborn().command([returned(1, 1, "w", json!("worker_restarted"))]),
            given().observed([lost()]).timer([returned(1, 1, "w", json!("worker_lost"))]),
        ),
        case(
            RULE,
            "taken back because another life of its worker registered",
            reborn().pass(11).observed([not_started()]),
            reborn().timer([returned(1, 1, "w", json!("worker_restarted"))]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "EXE-12: granted, and given back with a worker that leaves, and has not left",
            leaves(true),
            leaves(false),
        ),
        case(
            RULE,
            "EXE-5: killed at once",
            killed().pass(11).observed([killed_by(1)]),
            killed().observed([killed_by(1)]),
        ),
        case(
            RULE,
            "over by time, though a command was set aside that may have been its question",
            over(),
            set_aside(given()).pass(11).observed([not_started()]),
        ),
        case(RULE, "of another life", given(), waiting().raised(2).timer([with_right(1, "k", 15_000)])),
        case(
            RULE,
            "longer than a loss takes",
            given(),
            waiting().raised(2).timer([with_right(1, "i", 31_000)]),
        ),
        case(
            Invariant::KilledStaysKilled,
            "what was to be ended is assigned again",
            killed().pass(11).observed([killed_by(1)]),
            killed().pass(11).observed([not_started()]).timer([assigned(1, 2, "w", 1)]),
        ),
    ]
}
