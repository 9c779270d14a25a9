//! Workers: lost, found, expired, drained, pinned.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, case, ended, event, finished, generated, job, registered, retry, running,
    waiting, world,
};

pub(crate) fn cases() -> Vec<Case> {
    [leases(), lives(), conditions()].into_iter().flatten().collect()
}

fn of(what: &str, worker: &str, incarnation: &str) -> Event {
    event(json!({"worker": {what: {"worker": worker, "incarnation": incarnation}}}))
}

fn lost() -> Event {
    of("lost", "w", "i")
}

fn given_up() -> [Event; 2] {
    [ended(1, 1, "w", 1, "lost"), retry(1, 2, "2026-03-02T10:11:35.000Z")]
}

fn leases() -> Vec<Case> {
    let rule = Invariant::NoAttemptBeforeLeaseOver;
    let silent = || running().pass(31).observed([lost()]);
    // The default lease is 600 s, its margin 5 s.
    let over = || silent().at("2026-03-02T10:10:35.000Z");
    let [gone, again] = given_up();
    let group = |settings: serde_json::Value| {
        event(
            json!({"replication": {"group_replicated": {"group": 1, "name": "g", "worker_key": "k", "settings": settings}}}),
        )
    };
    // A worker goes by what it was told when it registered last.
    let hold = || {
        let told = [group(json!({"on_silence": "hold"})), registered("w", "i", 4)];
        running().command(told).pass(31).observed([lost()])
    };
    let reborn = || {
        let told = [group(json!({"lease_ms": 60_000})), registered("w", "j", 4)];
        running().command(told).pass(31).observed([of("lost", "w", "j")])
    };
    let shorter = || running().command([group(json!({"lease_ms": 60_000}))]).pass(31).observed([lost()]);
    let restored = json!({"generation": 1, "ids_above": 9, "by": "ann", "upto": 3});
    let held = || {
        let restored = event(json!({"partition": {"restored": restored.clone()}}));
        running().timer([restored]).pass(31).observed([lost()]).at("2026-03-02T10:10:35.000Z")
    };
    vec![
        case(
            rule,
            "OPS-5: a lease ends what was granted before a restore",
            held(),
            held().observed([of("lease_expired", "w", "i")]),
        ),
        case(
            rule,
            "EXE-8: given up while its lease lasts",
            over().observed([of("lease_expired", "w", "i"), gone.clone(), again.clone()]),
            over().observed([gone.clone(), again.clone()]),
        ),
        case(
            rule,
            "the lease is cut short",
            over().observed([of("lease_expired", "w", "i")]),
            silent().at("2026-03-02T10:10:34.000Z").observed([of("lease_expired", "w", "i")]),
        ),
        case(
            rule,
            "a group that holds gives nothing up",
            hold().at("2026-03-02T10:10:35.000Z").command([
                registered("w", "j", 4),
                gone.clone(),
                again.clone(),
            ]),
            hold().at("2026-03-02T10:10:35.000Z").observed([of("lease_expired", "w", "i"), gone, again]),
        ),
        case(
            rule,
            "a lease ends as it was told, whatever the group's is by now",
            shorter().at("2026-03-02T10:10:35.000Z").observed([of("lease_expired", "w", "i")]),
            shorter().at("2026-03-02T10:05:00.000Z").observed([of("lease_expired", "w", "i")]),
        ),
        case(
            rule,
            "what an earlier life was told counts while something of it may run",
            reborn().at("2026-03-02T10:12:00.000Z").observed([of("lease_expired", "w", "j")]),
            reborn().at("2026-03-02T10:05:00.000Z").observed([of("lease_expired", "w", "j")]),
        ),
    ]
}

fn lives() -> Vec<Case> {
    let rule = Invariant::WorkerLivesFollow;
    let silent = || world().pass(31).observed([lost()]);
    vec![
        case(
            rule,
            "lost twice",
            silent().command([of("recovered", "w", "i")]).observed([lost()]),
            silent().observed([lost()]),
        ),
        case(
            rule,
            "found without loss",
            silent().command([of("recovered", "w", "i")]),
            world().command([of("recovered", "w", "i")]),
        ),
        case(rule, "lost in another life", silent(), world().observed([of("lost", "w", "j")])),
        case(
            rule,
            "expired without loss",
            silent(),
            world().at("2026-03-02T11:00:00.000Z").observed([of("lease_expired", "w", "i")]),
        ),
        case(
            Invariant::StartGrantedOnlyToAssigned,
            "a worker that came back as another life",
            waiting()
                .command([registered("w", "j", 4)])
                .timer([assigned(1, 1, "w", 1)])
                .command([crate::kit::granted(1, 1, "w", "j")]),
            waiting()
                .timer([assigned(1, 1, "w", 1)])
                .command([registered("w", "j", 4)])
                .command([crate::kit::granted(1, 1, "w", "j")]),
        ),
    ]
}

fn conditions() -> Vec<Case> {
    let rule = Invariant::AssignedOnlyWhenConditionsHeld;
    let given = |history: History| history.timer([assigned(1, 1, "w", 1)]);
    let drained = || waiting().command([event(json!({"worker": {"drained": {"worker": "w"}}}))]);
    let pinned =
        |host: &str| world().command([job(3, json!({"host": host}))]).command([generated(1, 3, json!({}))]);
    let back = || waiting().pass(31).observed([lost()]);
    vec![
        case(
            rule,
            "EXE-9: the worker is drained",
            given(drained().command([event(json!({"worker": {"resumed": {"worker": "w"}}}))])),
            given(drained()),
        ),
        case(
            rule,
            "EXE-9: a drained worker is drained in its next life, too",
            given(waiting().command([registered("w", "j", 4)])),
            given(drained().command([registered("w", "j", 4)])),
        ),
        case(rule, "DSP-4: the job is pinned elsewhere", given(pinned("host-w")), given(pinned("host-v"))),
        case(rule, "the worker is lost", given(back().command([of("recovered", "w", "i")])), given(back())),
        case(rule, "the worker is not there", given(waiting()), waiting().timer([assigned(1, 1, "v", 1)])),
    ]
}

/// The end of a lost attempt may come from the worker itself.
#[test]
fn a_worker_may_report_its_own_attempt_as_lost() {
    let history = running().command([ended(1, 1, "w", 1, "lost"), retry(1, 2, "2026-03-02T10:01:30.000Z")]);
    let report = history.check();
    assert!(report.is_clean(), "{report}");
    assert_eq!(finished(1, "failed").kind(), "batch.finished");
}
