//! ZMB-1: the output of a lost attempt.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, generated, granted, group, job,
    registered, retry, retry_due, started, token,
};

const GRANTED: &str = "2026-03-02T10:01:00.000Z";
const OVER: &str = "2026-03-02T10:30:00.000Z";
const UNTIL: &str = "2026-03-02T10:31:00.000Z";

fn attempt(kind: &str, fields: Value) -> Event {
    let mut all = json!({"batch": batch_id(1), "token": token(1)});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event(json!({"attempt": {kind: all}}))
}

fn queried(since: &str) -> Event {
    attempt("output_queried", json!({"path": "/o", "since": since, "until": UNTIL}))
}

fn answered(found: &Value) -> Event {
    attempt("output_answered", json!({"found": found}))
}

fn changed(at: &str) -> Value {
    json!({"changed": {"at": at}})
}

/// The lease of its worker is over, and this follows the end of its attempt.
fn lost<const N: usize>(follows: [Event; N]) -> History {
    let world = History::new().raised(3);
    let by_output = json!({"success_check": {"output_path": "/o"}});
    let world = world.command([group(), job(1, by_output), registered("w", "i", 4)]);
    let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    let runs = given.at(GRANTED).command([granted(1, 1, "w", "i"), started(1, 1)]);
    let gone = event(json!({"worker": {"lost": {"worker": "w", "incarnation": "i"}}}));
    let expired = event(json!({"worker": {"lease_expired": {"worker": "w", "incarnation": "i"}}}));
    let ended = [
        attempt("external_work_unconfirmed", json!({"worker": "w"})),
        attempt("finished", json!({"attempt": 1, "worker": "w", "outcome": {"result": "lost"}})),
    ];
    let runs = runs.command([gone]).at(OVER).command([expired]);
    let events = ended.into_iter().chain(follows).collect();
    runs.causes([(tidemill_model::Source::Timer, tidemill_model::Outcome::Done, events)])
}

/// The first attempt leaves external work, and the second is lost; nobody looks for its output.
fn lost_after_another(has_started: bool) -> History {
    const MINUTE: &str = "2026-03-02T10:01:30.000Z";
    let world = History::new().raised(3);
    let by_output = json!({"success_check": {"output_path": "/o"}, "retries": 1});
    let world = world.command([group(), job(1, by_output), registered("w", "i", 4)]);
    let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    let runs = given.command([granted(1, 1, "w", "i"), started(1, 1)]);
    let left = attempt("external_work_unconfirmed", json!({"worker": "w"}));
    let failed = runs.command([left]).command([ended(1, 1, "w", 1, "failed"), retry(1, 2, MINUTE)]);
    let next = failed.at(MINUTE).timer([retry_due(1), assigned(1, 2, "w", 2)]);
    let mut next = next.command([granted(1, 2, "w", "i")]);
    if has_started {
        next = next.command([started(1, 2)]);
    }
    let gone = |what: &str| event(json!({"worker": {what: {"worker": "w", "incarnation": "i"}}}));
    let over = next.command([gone("lost")]).at(OVER).command([gone("lease_expired")]);
    let left = event(json!({"attempt": {"external_work_unconfirmed": {
        "batch": batch_id(1), "token": token(2), "worker": "w",
    }}}));
    let events = vec![left, ended(1, 2, "w", 2, "lost"), finished(1, "failed")];
    over.causes([(tidemill_model::Source::Timer, tidemill_model::Outcome::Done, events)])
}

fn said(found: &Value) -> Value {
    let answer = json!({"batch": batch_id(1), "token": token(1), "found": found});
    json!({"observation": {"report_outputs": {"answers": [answer]}}})
}

/// It is looked for, and a prober says this; the batch ends so.
fn found(found: &Value, result: &str) -> History {
    let events = vec![answered(found), finished(1, result)];
    lost([queried(GRANTED)]).said(said(found), events)
}

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::LostAttemptsAreLookedFor;
    let newer = || changed("2026-03-02T10:10:00.000Z");
    let unknown = json!({"unknown": {"reason": "no prober"}});
    vec![
        case(
            rule,
            "nobody looks for it, and what an earlier attempt has left has ended",
            lost_after_another(false),
            lost_after_another(true),
        ),
        case(rule, "nobody looks for it", found(&newer(), "success"), lost([finished(1, "failed")])),
        case(
            rule,
            "it is looked for from another time on than that of its grant",
            found(&json!("absent"), "failed"),
            lost([queried("2026-03-02T09:00:00.000Z")])
                .said(said(&newer()), vec![answered(&newer()), finished(1, "success")]),
        ),
        case(
            rule,
            "no prober has said so",
            found(&newer(), "success"),
            lost([queried(GRANTED)])
                .said(said(&json!("absent")), vec![answered(&newer()), finished(1, "success")]),
        ),
        case(
            rule,
            "its time is not over",
            lost([queried(GRANTED)]).at(UNTIL).timer([answered(&unknown), finished(1, "failed")]),
            lost([queried(GRANTED)]).timer([answered(&unknown), finished(1, "failed")]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "older output is its success",
            found(&changed("2026-03-02T09:59:59.000Z"), "failed"),
            found(&changed("2026-03-02T09:59:59.000Z"), "success"),
        ),
    ]
}
