//! Commands, requests, replies, work orders.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{Outcome, Rejection, Source};

use crate::kit::{
    Case, History, answered, case, event, generated, given_to_w, harmless, job_id, resume, running,
    scheduled, source, token, world,
};

pub(crate) fn cases() -> Vec<Case> {
    [decided(), requests(), clocks(), outside()].into_iter().flatten().collect()
}

fn decided() -> Vec<Case> {
    let owned = History::new;
    let one = |offset| [(source(offset, None), Outcome::Done, vec![harmless()])];
    let lost = |done: u64, at: u64| {
        let loss = json!({"by": "me", "reason": "r", "done": done, "kept_from": 0, "resumed_at": at});
        [(
            source(at, None),
            Outcome::Done,
            vec![event(json!({ "partition": {"command_loss_accepted": loss }}))],
        )]
    };
    let asks = json!({"shard": 1, "request": "r", "actor": {"app": ""}, "command": {"worker": {"resume": {"worker": "w"}}}});
    let bytes = serde_json::to_vec(&asks).unwrap();
    let other = json!({"shard": 1, "actor": {"app": ""}, "command": {"worker": {"resume": {"worker": "w"}}}});
    let other_bytes = serde_json::to_vec(&other).unwrap();
    let report = json!({"shard": 1, "request": "r", "actor": {"app": ""}, "command": {"worker": {"report_started": {"token": 1, "worker": "w"}}}});
    let report_bytes = serde_json::to_vec(&report).unwrap();
    vec![
        case(
            Invariant::ResumePointMovesForward,
            "it goes back",
            owned().causes_to(resume(4, b"4"), []).causes_to(resume(5, b"5"), []),
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(4, b"4"), []),
        ),
        case(
            Invariant::ResumePointMovesForward,
            "it goes away",
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(5, b"5"), []),
            owned().causes_to(resume(5, b"5"), []).causes_to(None, []),
        ),
        case(
            Invariant::ResumePointMovesForward,
            "its hash is that of another command",
            owned().given(0, &other).causes_to(resume(0, &other_bytes), one(0)),
            owned().given(0, &other).causes_to(resume(0, b"other"), one(0)),
        ),
        case(
            Invariant::ResumePointMovesForward,
            "it names a command that is not there",
            owned().given(0, &other).causes_to(resume(0, &other_bytes), one(0)),
            owned().given(0, &other).causes_to(resume(1, &other_bytes), one(0)),
        ),
        case(
            Invariant::ResumePointMovesForward,
            "a loss is accepted, and another record is gone on after",
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(2, b"2"), lost(5, 2)),
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(3, b"3"), lost(5, 2)),
        ),
        case(
            Invariant::ResumePointMovesForward,
            "a loss is accepted after another command than the last one",
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(2, b"2"), lost(5, 2)),
            owned().causes_to(resume(5, b"5"), []).causes_to(resume(2, b"2"), lost(4, 2)),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "a command is decided again after a loss",
            owned()
                .causes_to(resume(3, b"3"), one(3))
                .causes_to(resume(2, b"2"), lost(3, 2))
                .causes_to(resume(3, b"new"), one(3)),
            owned()
                .causes_to(resume(3, b"3"), one(3))
                .causes_to(resume(2, b"2"), lost(3, 2))
                .causes_to(resume(3, b"new"), one(2)),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "a command is decided in two envelopes",
            owned().causes_to(resume(3, b"3"), one(3)).causes_to(resume(4, b"4"), one(4)),
            owned().causes_to(resume(3, b"3"), one(3)).causes_to(resume(4, b"4"), one(3)),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "a command is passed over",
            owned()
                .given(0, &asks)
                .causes_to(resume(0, &bytes), [(source(0, Some("r")), answered(), vec![])]),
            owned().given(0, &asks).causes_to(resume(0, &bytes), []),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "EXE-11: a forged report is passed over, whoever waits for it, where reports are sealed",
            owned().raised(3).given(0, &report).causes_to(resume(0, &report_bytes), []),
            owned().given(0, &report).causes_to(resume(0, &report_bytes), []),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "a decision names another sender",
            owned()
                .given(0, &asks)
                .causes_to(resume(0, &bytes), [(source(0, Some("r")), answered(), vec![])]),
            owned()
                .given(0, &asks)
                .causes_to(resume(0, &bytes), [(source(0, Some("s")), answered(), vec![])]),
        ),
        case(
            Invariant::EveryCommandDecidedOnce,
            "someone still waits at rest",
            owned().given(0, &other).at_rest().timer([harmless()]),
            owned().given(0, &asks).at_rest().timer([harmless()]),
        ),
    ]
}

fn requests() -> Vec<Case> {
    let asked = |history: History, offset: u64, outcome: Outcome, events| {
        history.causes_to(resume(offset, b"c"), [(source(offset, Some("r")), outcome, events)])
    };
    let first = || asked(History::new(), 0, answered(), vec![harmless()]);
    let day_of_work =
        |history| (0..25).fold(history, |history: History, _| history.pass(3_600).timer([harmless()]));
    let reused = || Outcome::Refused(Rejection::RequestKeyReused {});
    let keyed = |second: u64, outcome: Outcome| {
        let ids = [1, second].map(|asks| tidemill_model::RequestId::of_client("app", "key", asks));
        let of = |offset, at: usize| source(offset, Some(ids[at].as_str()));
        let first = History::new().causes_to(resume(0, b"c"), [(of(0, 0), answered(), vec![])]);
        first.causes_to(resume(1, b"c"), [(of(1, 1), outcome, vec![])])
    };
    let refused = || Outcome::Refused(Rejection::JobDisabled { job: 1 });
    let aside = || Outcome::Refused(Rejection::DeadLettered { reason: "x".to_owned() });
    let dead_lettered = |offset: u64| {
        event(json!({"partition": {"command_dead_lettered": {"offset": offset, "reason": "x"}}}))
    };
    vec![
        case(
            Invariant::OneOutcomePerRequest,
            "a repeat is decided again",
            asked(first(), 1, Outcome::Repeated, vec![]),
            asked(first(), 1, answered(), vec![harmless()]),
        ),
        case(
            Invariant::OneOutcomePerRequest,
            "a repeat of nothing",
            asked(day_of_work(first()), 1, answered(), vec![]),
            asked(History::new(), 0, Outcome::Repeated, vec![]),
        ),
        case(
            Invariant::OneOutcomePerRequest,
            "a repeat is decided again after days without work",
            asked(first().pass(900_000), 1, Outcome::Repeated, vec![]),
            asked(first().pass(900_000), 1, answered(), vec![]),
        ),
        case(
            Invariant::OneOutcomePerRequest,
            "API-4: another request under the same key is decided",
            keyed(2, reused()),
            keyed(2, answered()),
        ),
        case(
            Invariant::OneOutcomePerRequest,
            "API-4: the key was used for no other request",
            keyed(2, reused()),
            keyed(1, reused()),
        ),
        case(
            Invariant::RefusedChangesNothing,
            "a refused command has an event",
            asked(History::new(), 0, refused(), vec![]),
            asked(History::new(), 0, refused(), vec![harmless()]),
        ),
        case(
            Invariant::RefusedChangesNothing,
            "a command set aside has another event",
            asked(History::new(), 0, aside(), vec![dead_lettered(0)]),
            asked(History::new(), 0, aside(), vec![dead_lettered(7)]),
        ),
    ]
}

fn clocks() -> Vec<Case> {
    let hourly = || {
        let first = ("2026-03-02T10:01:00.000Z", "2026-03-02T10:00:00.000Z");
        History::new().timer([scheduled(1, json!({"period": "hour", "zone": "UTC"}), first)])
    };
    let fire = || {
        let next = json!({"at": "2026-03-02T11:01:00.000Z", "logical_time": "2026-03-02T11:00:00.000Z"});
        generated(
            1,
            1,
            json!({"origin": "schedule", "logical_time": "2026-03-02T10:00:00.000Z", "next": next}),
        )
    };
    let fact = json!({"shard": 1, "actor": {"app": ""}, "command": {"worker": {"resume": {"worker": "w"}}}});
    let bytes = serde_json::to_vec(&fact).unwrap();
    let before = || hourly().given(0, &fact).at("2026-03-02T10:01:01.000Z");
    let fires = || (Source::Timer, Outcome::Done, vec![fire()]);
    vec![case(
        Invariant::TimersNeverOvertakeCommands,
        "a fact was in the log before the fire's time",
        before().causes_to(resume(0, &bytes), [fires()]),
        before().causes([fires()]),
    )]
}

fn outside() -> Vec<Case> {
    let decided = || History::new().causes_to(resume(0, b"c"), [(source(0, Some("r")), answered(), vec![])]);
    let order = |token: i64| json!({"assigned": {"worker": "w", "token": token, "type": "noop"}});
    let grant = |nonce: &str| -> Value {
        json!({"granted": {"incarnation": "i", "nonce": nonce, "spec": {
            "token": token(1), "batch": 1, "attempt": 1, "job": job_id(1), "job_name": "j1", "group": "g",
            "type": "noop", "program": "none", "logical_time": "2026-03-02T09:00:00.000Z",
            "logical_time_text": "2026-03-02T09:00:00.000Z", "run": 0,
        }}})
    };
    let refused = Outcome::Refused(Rejection::JobDisabled { job: 1 });
    vec![
        case(
            Invariant::AcknowledgedIsOnRecord,
            "a reply to what is not on record",
            decided().reply("r", answered()),
            decided().reply("s", answered()),
        ),
        case(
            Invariant::AcknowledgedIsOnRecord,
            "a reply that says another thing",
            decided().reply("r", answered()),
            decided().reply("r", refused),
        ),
        case(
            Invariant::WorkIsOnRecord,
            "an assignment that is not on record",
            given_to_w().work(order(token(1))),
            world().work(order(token(1))),
        ),
        case(
            Invariant::WorkIsOnRecord,
            "a grant to a question that got none",
            running().work(grant("nonce-1")),
            running().work(grant("nonce-2")),
        ),
    ]
}
