//! What a batch waits for.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, generated, granted, group, job, job_id,
    registered, started, world,
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

/// BYD-18: batch 2 of job 2, which has a rule, waits for batch 1.
fn ruled(rule: Value) -> History {
    let mut more = json!({"parents": [{"job": job_id(1), "mapping": "same"}]});
    more.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    let world = History::new().command([group(), job(1, json!({})), job(2, more), registered("w", "i", 4)]);
    world.command([generated(1, 1, json!({}))]).command([child(json!({}))])
}

fn rules() -> Vec<Case> {
    let rule = Invariant::ParentFailureRuleKept;
    let after = |says: Value, result: &str, then: &[Event]| {
        then.iter().fold(runs(ruled(says), result), |history, event| history.timer([event.clone()]))
    };
    let (fail, run) = (json!({"on_parent_failure": "fail"}), json!({"on_parent_failure": "run"}));
    let rescue = json!({"run_if": "failure"});
    let begins = [satisfied(0), assigned(2, 2, "w", 1)];
    vec![
        case(
            rule,
            "it fails for a parent that succeeded",
            after(fail.clone(), "failed", &[finished(2, "failed")]),
            after(fail.clone(), "success", &[finished(2, "failed")]),
        ),
        case(
            rule,
            "it is skipped, and is to fail",
            after(fail.clone(), "failed", &[finished(2, "failed")]),
            after(fail.clone(), "failed", &[finished(2, "skipped")]),
        ),
        case(rule, "it runs on failure, after success", after(rescue.clone(), "failed", &begins), {
            after(rescue.clone(), "success", &begins)
        }),
        case(
            rule,
            "it is left to wait",
            after(fail.clone(), "failed", &[finished(2, "failed")]).at_rest(),
            after(fail, "failed", &[]).at_rest(),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "an end is met where ends are waited for, and only there",
            after(run, "failed", &begins),
            after(json!({}), "failed", &begins[..1]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "it fails without a rule",
            after(rescue, "success", &[satisfied(0), finished(2, "skipped")]),
            after(json!({}), "failed", &[finished(2, "failed")]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = rules();
    cases.extend(mappings());
    cases
}

fn mappings() -> Vec<Case> {
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
