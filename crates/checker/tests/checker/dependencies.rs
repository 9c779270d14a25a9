//! What a batch waits for.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, generated, granted, job_id, started,
    world,
};

const NINE: &str = "2026-03-02T09:00:00Z";

/// Batch 1 of job 1, and batch 2 of job 2 that waits for it.
fn pair() -> History {
    world().command([generated(1, 1, json!({}))]).command([child(json!({}))])
}

fn child(more: Value) -> Event {
    let mut waits = json!({"parent": job_id(1), "mapping": "same", "times": [NINE]});
    waits.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    generated(2, 2, json!({"dependencies": [waits]}))
}

fn runs(history: History, result: &str) -> History {
    history.timer([assigned(1, 1, "w", 1)]).command([granted(1, 1, "w", "i")]).command([
        started(1, 1),
        ended(1, 1, "w", 1, result),
        finished(1, result),
    ])
}

fn satisfied(unmet: u32) -> Event {
    let batch = batch_id(2);
    event(
        json!({"dependency_satisfied": {"batch": batch, "parent": job_id(1), "logical_time": NINE, "unmet": unmet}}),
    )
}

fn withdrawn() -> Event {
    let batch = batch_id(2);
    event(
        json!({"dependency_withdrawn": {"batch": batch, "parent": job_id(1), "logical_time": NINE, "unmet": 1}}),
    )
}

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::DependencyEventsMatchNewestRuns;
    let met = || runs(pair(), "success").timer([satisfied(0)]);
    let rerun = || met().command([generated(3, 1, json!({"run": 1, "origin": "rerun"}))]);
    let late =
        |more: Value| runs(world().command([generated(1, 1, json!({}))]), "success").command([child(more)]);
    vec![
        case(rule, "satisfied before the parent succeeded", met(), pair().timer([satisfied(0)])),
        case(
            rule,
            "DEP-3: withdrawn though the newest run succeeded",
            rerun().timer([withdrawn()]),
            met().timer([withdrawn()]),
        ),
        case(rule, "counted wrong", met(), runs(pair(), "success").timer([satisfied(1)])),
        case(rule, "nothing new is heard", met(), met().timer([satisfied(0)])),
        case(rule, "generated with what succeeded as unmet", late(json!({"met": [NINE]})), late(json!({}))),
        case(rule, "not heard at rest", met().at_rest(), runs(pair(), "success").at_rest()),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "DSP-1: a parent is unmet",
            met().timer([assigned(2, 2, "w", 1)]),
            pair().timer([assigned(2, 2, "w", 1)]),
        ),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "DEP-3: the parent has a newer run",
            met().timer([assigned(2, 2, "w", 1)]),
            rerun().timer([assigned(2, 2, "w", 1)]),
        ),
    ]
}
