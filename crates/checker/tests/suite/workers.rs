//! Workers: lost, found, expired, drained, pinned.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, ended, event, finished, generated, job, kill, killed_by,
    registered, retry, running, token, waiting, world,
};

pub(crate) fn cases() -> Vec<Case> {
    [leases(), vouched(), half_leases(), lives(), conditions()].into_iter().flatten().collect()
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

/// EXE-12: by a person's word, only where the worker cannot be asked.
fn vouched() -> Vec<Case> {
    let rule = Invariant::NoAttemptBeforeLeaseOver;
    let vouched = |tok: u64| {
        let by = json!({"app": "me"});
        event(json!({"attempt": {"end_vouched": {
            "batch": batch_id(1), "token": token(tok), "worker": "w", "by": by, "reason": "looked",
        }}}))
    };
    let runs = || running().raised(3);
    let silent = || runs().pass(31).observed([lost()]);
    let gone = || ended(1, 1, "w", 1, "lost");
    let again = || retry(1, 2, "2026-03-02T10:02:01.000Z");
    let asked = || runs().command([kill(1, 1)]);
    vec![
        case(
            rule,
            "EXE-12: given up by a person's word while its worker is heard of",
            silent().command([vouched(1), gone(), again()]),
            runs().pass(31).command([vouched(1), gone(), again()]),
        ),
        case(
            rule,
            "EXE-12: given up by nobody's word",
            asked().command([vouched(1), ended(1, 1, "w", 1, "lost"), killed_by(1)]),
            asked().timer([vouched(1), ended(1, 1, "w", 1, "lost"), killed_by(1)]),
        ),
        case(
            rule,
            "EXE-12: its end does not follow",
            silent().command([vouched(1), gone(), again()]),
            silent().command([vouched(1)]).command([gone(), again()]),
        ),
        case(rule, "EXE-12: a word for another attempt", silent(), silent().command([vouched(2)])),
    ]
}

/// EXE-8: people are warned once in each silence, not before half of the lease.
fn half_leases() -> Vec<Case> {
    let rule = Invariant::WorkerLivesFollow;
    let silent = || running().raised(3).pass(31).observed([lost()]);
    let half = || of("lease_half_over", "w", "i");
    let alarm = || {
        event(json!({"alarm": {"raised": {
            "kind": "lease_half_over", "severity": "critical", "worker": "w", "message": "m",
        }}}))
    };
    // The default lease is 600 s, its margin 5 s.
    let over = || silent().at("2026-03-02T10:05:35.000Z");
    vec![
        case(
            rule,
            "no alarm of half a lease",
            over().observed([half(), alarm()]),
            over().observed([half(), of("recovered", "w", "i")]),
        ),
        case(
            rule,
            "half of a lease too early",
            over().observed([half(), alarm()]),
            silent().observed([half(), alarm()]),
        ),
        case(
            rule,
            "half of a lease twice",
            over().observed([half(), alarm()]),
            over().observed([half(), alarm()]).observed([half(), alarm()]),
        ),
        case(
            rule,
            "an alarm of no half lease",
            over().observed([half(), alarm()]),
            over().observed([alarm()]),
        ),
        case(
            rule,
            "half of a lease of one that is heard of",
            over().observed([half(), alarm()]),
            running().raised(3).at("2026-03-02T10:05:35.000Z").observed([half(), alarm()]),
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
        case(
            rule,
            "EXE-10: a life that was replaced comes again",
            world().raised(3).command([registered("w", "j", 4)]).command([registered("w", "k", 4)]),
            world().raised(3).command([registered("w", "j", 4)]).command([registered("w", "i", 4)]),
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
