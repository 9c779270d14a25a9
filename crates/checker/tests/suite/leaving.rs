//! EXE-12: workers that are told to stop, and what they end for that.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{Event, Outcome, Source};

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, granted, kill, killed_by, registered,
    retry, returned, running, token, waiting,
};

/// The end of attempt 1, and at once the next.
const AT_ONCE: &str = "2026-03-02T10:01:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    [excuses(), departures(), hosts()].into_iter().flatten().collect()
}

fn of(what: &str, incarnation: &str) -> Event {
    event(json!({"worker": {what: {"worker": "w", "incarnation": incarnation}}}))
}

fn interrupted() -> Event {
    event(json!({"attempt": {"interrupted": {"batch": batch_id(1), "token": token(1), "worker": "w"}}}))
}

fn report(result: &str, interrupted: bool) -> Value {
    json!({"worker": {"report_finished": {
        "token": token(1), "worker": "w", "outcome": {"result": result}, "interrupted": interrupted,
    }}})
}

fn lost() -> Event {
    ended(1, 1, "w", 1, "lost")
}

fn excuses() -> Vec<Case> {
    let rule = Invariant::StoppedAttemptsUseNoRetry;
    let works_on = || running().raised(3).at(AT_ONCE);
    let runs = || running().raised(3).command([of("leaving", "i")]).at(AT_ONCE);
    let next = || retry(1, 2, AT_ONCE);
    // Job 1 has one retry, after a minute.
    let later = || retry(1, 2, "2026-03-02T10:02:00.000Z");
    let stopped = || runs().said(report("lost", true), vec![interrupted(), lost(), next()]);
    let interrupted_once = || runs().command([interrupted(), lost(), next()]);
    vec![
        case(
            rule,
            "an attempt that its worker ended because it was stopped uses up a retry",
            stopped(),
            runs().said(report("lost", true), vec![lost(), later()]),
        ),
        case(
            rule,
            "below level 3 it does",
            running().at(AT_ONCE).said(report("lost", true), vec![lost(), later()]),
            runs().said(report("lost", true), vec![lost(), later()]),
        ),
        case(
            rule,
            "what its worker lost is excused, and the worker was not stopped",
            runs().said(report("lost", false), vec![lost(), later()]),
            runs().said(report("lost", false), vec![interrupted(), lost(), next()]),
        ),
        case(
            rule,
            "a worker that works on is excused, for it says that it was stopped",
            works_on().said(report("lost", true), vec![lost(), later()]),
            works_on().said(report("lost", true), vec![interrupted(), lost(), next()]),
        ),
        case(
            rule,
            "what a life that is over began is not excused",
            works_on()
                .command([registered("w", "j", 4)])
                .said(report("lost", true), vec![interrupted(), lost(), next()]),
            works_on().command([registered("w", "j", 4)]).said(report("lost", true), vec![lost(), later()]),
        ),
        case(
            rule,
            "what failed by itself is excused",
            runs().said(report("failed", true), vec![ended(1, 1, "w", 1, "failed"), later()]),
            runs().command([interrupted(), ended(1, 1, "w", 1, "failed"), next()]),
        ),
        case(
            rule,
            "what was to be ended is excused",
            runs().command([kill(1, 1)]).said(report("lost", true), vec![lost(), killed_by(1)]),
            runs()
                .command([kill(1, 1)])
                .said(report("lost", true), vec![interrupted(), lost(), killed_by(1)]),
        ),
        case(rule, "what is excused goes on", stopped(), runs().command([interrupted()])),
        case(
            Invariant::RetriesUsedBeforeFailure,
            "what was interrupted has its retry left",
            again(&interrupted_once(), 2)
                .command([ended(1, 2, "w", 2, "failed"), retry(1, 3, "2026-03-02T10:02:00.000Z")]),
            again(&interrupted_once(), 2).command([ended(1, 2, "w", 2, "failed"), finished(1, "failed")]),
        ),
    ]
}

/// The next attempt runs, in the worker's next life.
fn again(history: &History, tok: u64) -> History {
    let due = crate::kit::retry_due(1);
    let history = history.clone().command([registered("w", "j", 4)]);
    history.timer([due, assigned(1, tok, "w", 2)]).command([granted(1, tok, "w", "j")])
}

/// One record says that a worker is assigned, stops or does not, and comes again, and that the assignment goes back for its stop.
fn all_at_once(stops: bool) -> History {
    let stop = if stops { vec![of("leaving", "i"), of("left", "i")] } else { Vec::new() };
    let back = returned(1, 1, "w", json!("worker_leaving"));
    let again = registered("w", "j", 4);
    let events = [vec![assigned(1, 1, "w", 1)], stop, vec![again, back]].concat();
    waiting().raised(3).causes([(Source::Timer, Outcome::Done, events)])
}

fn departures() -> Vec<Case> {
    let rule = Invariant::WorkerLivesFollow;
    let leaving = || waiting().raised(3).command([of("leaving", "i")]);
    let given = |history: History| history.timer([assigned(1, 1, "w", 1)]);
    let back = |reason: Value| returned(1, 1, "w", reason);
    let held = || given(waiting().raised(3));
    let granted = || held().command([granted(1, 1, "w", "i")]);
    vec![
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "EXE-12: the worker leaves",
            given(leaving().command([registered("w", "j", 4)])),
            given(leaving()),
        ),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "a worker that leaves goes on leaving in the same life",
            given(leaving().command([registered("w", "j", 4)])),
            given(leaving().command([registered("w", "i", 4)])),
        ),
        case(rule, "it leaves twice", leaving(), leaving().command([of("leaving", "i")])),
        case(
            rule,
            "it has left, and was not leaving",
            leaving().command([of("left", "i")]),
            waiting().raised(3).command([of("left", "i")]),
        ),
        case(
            rule,
            "it has left, and an attempt runs there",
            running().raised(3).command([of("leaving", "i")]),
            running().raised(3).command([of("leaving", "i"), of("left", "i")]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "an assignment comes back from a worker that has not left, all in one record",
            all_at_once(true),
            all_at_once(false),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "an assignment comes back from a worker that does not leave",
            held().command([of("leaving", "i")]).timer([back(json!("worker_leaving"))]),
            held().timer([back(json!("worker_leaving"))]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "an assignment to a life that has not left comes back as if it had",
            held()
                .command([of("leaving", "i"), of("left", "i"), registered("w", "j", 4)])
                .timer([back(json!("worker_leaving"))]),
            held().command([registered("w", "j", 4)]).timer([back(json!("worker_leaving"))]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "a grant comes back from a worker that leaves and has not said so",
            granted().command([of("leaving", "i"), of("left", "i")]).timer([back(json!("worker_leaving"))]),
            granted().command([of("leaving", "i")]).timer([back(json!("worker_leaving"))]),
        ),
    ]
}

fn host(what: &str) -> Event {
    let mut of = json!({"host": "host-w"});
    if what != "host_emptied" {
        of["by"] = json!({"app": "ops"});
    }
    event(json!({"worker": {what: of}}))
}

fn hosts() -> Vec<Case> {
    let rule = Invariant::HostsDrainInTurn;
    let drained = || waiting().raised(3).command([host("host_drained")]);
    let given = |history: History| history.timer([assigned(1, 1, "w", 1)]);
    vec![
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "EXE-9: the host is drained, and another worker registers there",
            given(drained().command([host("host_resumed")]).command([registered("w", "j", 4)])),
            given(drained().command([registered("w", "j", 4)])),
        ),
        case(rule, "it is drained twice", drained(), drained().command([host("host_drained")])),
        case(
            rule,
            "it is resumed, and was not drained",
            drained().command([host("host_resumed")]),
            waiting().raised(3).command([host("host_resumed")]),
        ),
        case(
            rule,
            "it is empty, and an attempt runs there",
            drained().timer([host("host_emptied")]),
            running().raised(3).command([host("host_drained")]).timer([host("host_emptied")]),
        ),
        case(
            rule,
            "it is empty twice, or without being drained",
            drained().timer([host("host_emptied")]).command([host("host_resumed")]),
            waiting().raised(3).timer([host("host_emptied")]),
        ),
        case(
            rule,
            "at rest it is empty, and nobody was told",
            idle().timer([host("host_emptied")]).at_rest(),
            idle().at_rest(),
        ),
    ]
}

/// Nothing waits, and the host of the only worker is drained.
fn idle() -> History {
    crate::kit::done().raised(3).command([host("host_drained")])
}
