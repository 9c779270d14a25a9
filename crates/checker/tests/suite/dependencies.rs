//! What a batch waits for.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, generated, granted, group, job, job_id,
    registered, scheduled, started, world,
};

const NINE: &str = "2026-03-02T09:00:00.000Z";

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
        json!({"batch": {"dependency_satisfied": {"batch": batch, "parent": job_id(1), "logical_time": NINE, "unmet": unmet}}}),
    )
}

fn withdrawn() -> Event {
    let batch = batch_id(2);
    event(
        json!({"batch": {"dependency_revoked": {"batch": batch, "parent": job_id(1), "logical_time": NINE, "unmet": 1}}}),
    )
}

/// BYD-18: batch 2 of job 2, which has a rule, waits for batch 1.
fn ruled(rule: Value) -> History {
    let mut more = json!({"parents": [{"job": job_id(1), "mapping": "same"}]});
    more.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    let world = History::new().command([group(), job(1, json!({})), job(2, more), registered("w", "i", 4)]);
    world.command([generated(1, 1, json!({}))]).command([child(json!({}))])
}

/// Batch 2 of job 2, which counts its parent job 1 and does not list it.
fn counting(said: Value) -> History {
    let more = json!({"parents": [{"job": job_id(1), "mapping": "same"}]});
    let world = History::new().command([group(), job(1, json!({})), job(2, more), registered("w", "i", 4)]);
    let child = generated(2, 2, json!({"counted_parents": said}));
    world.command([generated(1, 1, json!({}))]).command([child])
}

fn counted_parents() -> Vec<Case> {
    let rule = Invariant::CountedParentsAsDeclared;
    let good = || counting(json!({"parents": 1, "unmet": 1}));
    let met = || runs(good(), "success").timer([satisfied(0)]);
    vec![
        case(rule, "DEP-3: more are counted than are declared", good(), {
            counting(json!({"parents": 2, "unmet": 2}))
        }),
        case(
            rule,
            "DEP-3: one that has not succeeded is counted as met",
            good(),
            counting(json!({"parents": 1})),
        ),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "DSP-1: a counted parent is unmet",
            met().timer([assigned(2, 2, "w", 1)]),
            good().timer([assigned(2, 2, "w", 1)]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "a counted parent is not heard of at rest",
            met().at_rest(),
            runs(good(), "success").at_rest(),
        ),
    ]
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
    cases.extend(skips());
    cases.extend(blocks());
    cases.extend(counted_parents());
    cases
}

/// DEP-3: the parent's schedule passes 10:00 over, for which the child waits by this mapping.
fn skips() -> Vec<Case> {
    let rule = Invariant::SkippedTimesNotWaitedFor;
    let ten = "2026-03-02T10:00:00.000Z";
    let next = json!({"at": "2026-03-02T11:01:00.000Z", "logical_time": "2026-03-02T11:00:00.000Z"});
    let passed = |mapping: &str| {
        let waits = json!({"parent": job_id(1), "mapping": mapping, "times": [ten]});
        let skipped = json!({"schedule": {"skipped": {
            "job": job_id(1), "from": ten, "to": ten, "count": 1, "reason": "policy", "next": next,
        }}});
        let schedule = json!({"period": "hour", "zone": "UTC"});
        History::new()
            .timer([scheduled(1, schedule, ("2026-03-02T10:01:00.000Z", ten)), job(2, json!({}))])
            .at("2026-03-02T10:01:00.000Z")
            .command([generated(2, 2, json!({"dependencies": [waits]}))])
            .timer([event(skipped)])
    };
    let left_out = || {
        let told = json!({
            "batch": batch_id(2), "parent": job_id(1), "logical_time": ten, "unmet": 0, "left_out": true
        });
        event(json!({"batch": {"dependency_satisfied": told}}))
    };
    let told = || passed("all").timer([left_out()]);
    // Switched off before its fire for 10:00, for which the child waits.
    let off = || {
        let waits = json!({"parent": job_id(1), "mapping": "same", "times": [ten]});
        let schedule = json!({"period": "hour", "zone": "UTC"});
        History::new()
            .timer([scheduled(1, schedule, ("2026-03-02T10:01:00.000Z", ten)), job(2, json!({}))])
            .command([generated(2, 2, json!({"dependencies": [waits]}))])
            .command([event(
                json!({"replication": {"job_switch_replicated": {"job": job_id(1), "enabled": false}}}),
            )])
            .at("2026-03-02T10:01:30.000Z")
    };
    let on = || {
        off().command([event(
            json!({"replication": {"job_switch_replicated": {"job": job_id(1), "enabled": true, "next": next}}}),
        )])
    };
    vec![
        case(rule, "it waits for what was skipped", told().at_rest(), passed("all").at_rest()),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "a skipped time is taken for the success of any",
            told(),
            passed("any").timer([left_out()]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "it goes on without what a disabled parent owes",
            on().timer([left_out()]),
            off().timer([left_out()]),
        ),
        case(
            rule,
            "it waits for what was skipped by a parent that is switched on again",
            off().at_rest(),
            on().at_rest(),
        ),
    ]
}

/// DEP-8: batch 2 waits for batch 1, which failed.
fn blocks() -> Vec<Case> {
    let rule = Invariant::BlockedBatchesSaySo;
    let noon = "2026-03-02T12:00:00.000Z";
    let failed = || runs(ruled(json!({})), "failed").at(noon);
    let blocked = |since: &str| {
        let by = json!({"batch": batch_id(2), "parent": job_id(1), "logical_time": NINE, "since": since});
        event(json!({ "batch": {"blocked": by }}))
    };
    let unblocked = || event(json!({"batch": {"unblocked": {"batch": batch_id(2)}}}));
    let says = || failed().timer([blocked(noon)]);
    let rerun = || says().command([generated(3, 1, json!({"run": 1, "origin": "rerun"}))]);
    vec![
        case(rule, "it does not say so", says().at_rest(), failed().at_rest()),
        case(rule, "nothing blocks it", says(), ruled(json!({})).at(noon).timer([blocked(noon)])),
        case(rule, "it began at another time", says(), failed().timer([blocked(NINE)])),
        case(rule, "it says so twice", says(), says().timer([blocked(noon)])),
        case(rule, "it says that it is over", rerun().timer([unblocked()]), says().timer([unblocked()])),
        case(
            rule,
            "it does not say that it is over",
            rerun().timer([unblocked()]).at_rest(),
            rerun().at_rest(),
        ),
        case(rule, "it was not blocked", rerun().timer([unblocked()]), failed().timer([unblocked()])),
    ]
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
