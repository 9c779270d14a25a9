//! From assignment to result.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::{AttemptEvent, Event};

use crate::kit::{
    Case, History, T0, assigned, batch_id, case, definition, done, ended, event, finished, generated,
    given_to_w, granted, group, harmless, job, job_id, kill, killed_by, registered, retry, retry_due,
    returned, running, started, token, waiting, world,
};

pub(crate) fn cases() -> Vec<Case> {
    let all = [
        steps(),
        limits(),
        starts(),
        attempts(),
        ends(),
        held(),
        retries(),
        marks(),
        timeouts(),
        finals(),
        long_attempts(),
        accounts(),
    ];
    all.into_iter().flatten().collect()
}

/// Attempt 1 of batch 1 has failed at 10:00:30, and attempt 2 is to come.
fn failed(until: &str) -> History {
    running().command([ended(1, 1, "w", 1, "failed"), retry(1, 2, until)])
}

const MINUTE: &str = "2026-03-02T10:01:30.000Z";

fn again() -> History {
    failed(MINUTE).at(MINUTE).timer([retry_due(1), assigned(1, 2, "w", 2)])
}

fn steps() -> Vec<Case> {
    let rule = Invariant::OnlyAllowedTransitions;
    vec![
        case(rule, "the end of a pause that was none", again(), waiting().timer([retry_due(1)])),
        case(rule, "assigned twice", given_to_w(), given_to_w().timer([assigned(1, 2, "w", 1)])),
        case(rule, "finished while it runs", done(), running().command([finished(1, "success")])),
        case(
            rule,
            "an attempt that leads to nothing",
            done(),
            running().command([ended(1, 1, "w", 1, "failed")]),
        ),
        case(
            rule,
            "success after a failed attempt",
            done(),
            running().command([ended(1, 1, "w", 1, "failed"), finished(1, "success")]),
        ),
        case(rule, "a batch that never was", done(), waiting().command([killed_by(9)])),
        case(
            Invariant::FinishedIsFinal,
            "a finished batch is to be ended",
            done(),
            done().command([kill(1, 1)]),
        ),
        case(
            Invariant::EventsPerBatchBounded,
            "more events than the bound",
            done().options(|options| options.max_events_per_batch = 6),
            done().options(|options| options.max_events_per_batch = 5),
        ),
    ]
}

/// Job 3 with a final command has had an attempt on w, which has ended, and so has the batch.
fn over(result: &str) -> History {
    let more = json!({"final_command": "true"});
    let history = world().command([job(3, more)]).command([generated(1, 3, json!({}))]);
    let history = history.timer([assigned(1, 1, "w", 1)]).command([granted(1, 1, "w", "i")]);
    history.command([ended(1, 1, "w", 1, result), finished(1, result)])
}

fn final_assigned(tok: u64, worker: &str) -> Event {
    event(json!({"final_command": {"assigned": {
        "batch": batch_id(1), "job": job_id(3), "token": token(tok), "worker": worker,
        "start_by": "2026-03-02T10:30:00.000Z",
    }}}))
}

fn final_granted(tok: u64, incarnation: &str) -> Event {
    event(json!({"final_command": {"granted": {
        "batch": batch_id(1), "token": token(tok), "worker": "w", "incarnation": incarnation, "nonce": "n",
    }}}))
}

fn final_ended(tok: Option<u64>, result: &str) -> Event {
    let token = tok.map(token);
    let mut fields = json!({"batch": batch_id(1), "job": job_id(3), "worker": "w", "result": result});
    if let Some(token) = token {
        fields["token"] = json!(token);
    }
    event(json!({"final_command": {"finished": fields}}))
}

fn told_of_final() -> Event {
    event(json!({"alarm": {"raised": {
        "kind": "final_command_failed", "severity": "important", "batch": batch_id(1), "message": "",
    }}}))
}

fn finals() -> Vec<Case> {
    let rule = Invariant::FinalCommandsOnce;
    let leaves = || event(json!({"worker": {"leaving": {"worker": "w", "incarnation": "i"}}}));
    let leaving = || over("success").raised(3).command([leaves()]);
    let given = || over("success").timer([final_assigned(2, "w")]);
    let runs = || given().command([final_granted(2, "i")]);
    let good = || runs().command([final_ended(Some(2), "success")]).at_rest();
    let failed = || runs().command([final_ended(Some(2), "failed"), told_of_final()]).at_rest();
    let gone = || {
        let lost = event(json!({"worker": {"lost": {"worker": "w", "incarnation": "i"}}}));
        over("failed").observed([lost])
    };
    vec![
        case(rule, "JOB-8: a batch that asks for none", good(), done().timer([final_assigned(2, "w")])),
        case(rule, "JOB-8: two of them", good(), given().timer([final_assigned(3, "w")])),
        case(
            rule,
            "JOB-8: on a worker that did not run the batch",
            good(),
            over("success").command([registered("v", "k", 4)]).timer([final_assigned(2, "v")]),
        ),
        case(
            rule,
            "EXE-12: another worker gets it, and the one that ran the batch does not leave",
            leaving().command([registered("v", "k", 4)]).timer([final_assigned(2, "v")]),
            over("success").raised(3).command([registered("v", "k", 4)]).timer([final_assigned(2, "v")]),
        ),
        case(
            rule,
            "EXE-12: another worker gets what was assigned to one that leaves, and it was granted",
            given()
                .raised(3)
                .command([leaves()])
                .command([registered("v", "k", 4)])
                .timer([final_assigned(3, "v")]),
            runs()
                .raised(3)
                .command([leaves()])
                .command([registered("v", "k", 4)])
                .timer([final_assigned(3, "v")]),
        ),
        case(rule, "JOB-8: granted to another life", good(), given().command([final_granted(2, "j")])),
        case(rule, "JOB-8: granted twice", good(), runs().command([final_granted(2, "i")])),
        case(
            rule,
            "JOB-8: ends though it never began",
            good(),
            given().command([final_ended(Some(2), "success")]),
        ),
        case(rule, "JOB-8: a failure that nobody is told of", failed(), {
            runs().command([final_ended(Some(2), "failed")]).timer([harmless()])
        }),
        case(rule, "JOB-8: an alarm of a good one", good(), {
            runs().command([final_ended(Some(2), "success"), told_of_final()])
        }),
        case(
            rule,
            "JOB-8: not run though its worker is there",
            gone().timer([final_ended(None, "not_run"), told_of_final()]),
            over("failed").timer([final_ended(None, "not_run"), told_of_final()]),
        ),
        case(rule, "JOB-8: forgotten", good(), over("success").at_rest()),
        case(
            rule,
            "JOB-8: called without an attempt by a job that asks for none",
            unattempted()
                .timer([final_assigned(2, "w")])
                .command([final_granted(2, "i")])
                .command([final_ended(Some(2), "success")])
                .at_rest(),
            waiting().command([called()]),
        ),
        case(
            rule,
            "JOB-8: without an attempt, on a worker without a free slot",
            unattempted().timer([final_assigned(2, "w")]),
            unattempted().command([registered("w", "i", 0)]).timer([final_assigned(2, "w")]),
        ),
        case(
            rule,
            "JOB-8: without an attempt, ended by a worker that never had it",
            unattempted().timer([not_run(), told_of_final()]).at_rest(),
            unattempted().timer([final_ended(None, "not_run"), told_of_final()]),
        ),
        case(
            rule,
            "JOB-8: given to nobody, though its batch had an attempt",
            unattempted().timer([not_run(), told_of_final()]),
            over("success").timer([not_run(), told_of_final()]),
        ),
        case(rule, "JOB-8: called without an attempt and forgotten", good(), unattempted().at_rest()),
    ]
}

/// The end of a batch that had no attempt, by hand, which asks for its final command.
fn called() -> Event {
    event(json!({"batch": {"finished": {
        "batch": batch_id(1), "result": "killed", "by": {"app": "ops"}, "final_command": true,
    }}}))
}

fn not_run() -> Event {
    event(
        json!({"final_command": {"not_run": {"batch": batch_id(1), "job": job_id(3), "message": "no room"}}}),
    )
}

/// Job 3 with a final command is killed before it had an attempt.
fn unattempted() -> History {
    let more = json!({"final_command": "true"});
    let history = world().command([job(3, more)]).command([generated(1, 3, json!({}))]);
    history.command([called()])
}

fn long_attempts() -> Vec<Case> {
    let rule = Invariant::LongAttemptsToldOnce;
    let told = || {
        event(json!({"alarm": {"raised": {
            "kind": "big_task", "severity": "notice", "batch": batch_id(1), "message": "",
        }}}))
    };
    let runs = || {
        let history = world().command([job(3, json!({"expected_duration_s": 400}))]);
        let history = history.command([generated(1, 3, json!({}))]).timer([assigned(1, 1, "w", 1)]);
        history.command([granted(1, 1, "w", "i")])
    };
    let long = || runs().pass(800).timer([told()]);
    vec![
        case(rule, "BIG-1: before its time", long(), runs().pass(799).timer([told()])),
        case(rule, "BIG-1: told twice", long(), long().timer([told()])),
    ]
}

/// Attempt 1 of batch 1 runs, and its program says whether it succeeds.
fn by_code() -> History {
    let history = world().command([job(3, json!({"success_check": "user_code"}))]);
    let history = history.command([generated(1, 3, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    history.command([granted(1, 1, "w", "i")])
}

fn code(code: i32) -> Event {
    event(json!({"attempt": {"user_code_reported": {"batch": batch_id(1), "token": token(1), "code": code}}}))
}

fn accounts() -> Vec<Case> {
    let rule = Invariant::AssignedOnlyWhenConditionsHeld;
    let group = |owner: &str| {
        let settings = json!({"accounts": {owner: ["etl"]}});
        event(
            json!({"replication": {"group_replicated": {"group": 1, "name": "g", "worker_key": "k", "settings": settings}}}),
        )
    };
    let waits = |owner: &str| {
        let more = json!({"owner": "ann", "run_as": "etl"});
        let history = world().command([group(owner), job(3, more)]);
        history.command([generated(1, 3, json!({}))])
    };
    // As records are since accounts are bound to keys.
    let keyed = |account: &str| {
        let more = json!({"owner": "ann", "run_as": account, "run_as_by": "etl-team"});
        let history = world().command([group("*"), job(3, more)]);
        history.command([generated(1, 3, json!({}))])
    };
    let labelled = |labels: serde_json::Value| {
        let more = json!({"worker_label": "gpu"});
        let worker = event(json!({"worker": {"registered": {
            "worker": "v", "incarnation": "k", "host": "h", "address": "a", "slots": {"noop": 4}, "labels": labels,
        }}}));
        let history = world().command([job(3, more), worker]).command([generated(1, 3, json!({}))]);
        history.timer([assigned(1, 1, "v", 1)])
    };
    let unready = || {
        let unready =
            event(json!({"worker": {"unready": {"worker": "w", "incarnation": "i", "reason": "full"}}}));
        let alarm = event(json!({"alarm": {"raised": {
            "kind": "worker_unready", "severity": "important", "worker": "w", "message": "",
        }}}));
        waiting().command([unready, alarm])
    };
    let fit = || event(json!({"worker": {"ready": {"worker": "w", "incarnation": "i"}}}));
    let assign = |history: History| history.timer([assigned(1, 1, "w", 1)]);
    vec![
        case(
            rule,
            "DSP-2: an account that its owner may not use",
            assign(waits("ann")),
            assign(waits("bob")),
        ),
        case(
            rule,
            "DSP-2: an account that its group does not allow",
            assign(keyed("etl")),
            assign(keyed("root")),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "DSP-2: failed though its account is allowed",
            keyed("root").timer([finished(1, "failed")]),
            keyed("etl").timer([finished(1, "failed")]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "EXE-4: succeeds by its exit code, and its program reported no 0",
            by_code()
                .command([code(3)])
                .command([code(0)])
                .command([ended(1, 1, "w", 1, "success"), finished(1, "success")]),
            by_code().command([code(3)]).command([ended(1, 1, "w", 1, "success"), finished(1, "success")]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "ZMB-1: lost after its code 0",
            by_code()
                .raised(3)
                .command([code(0)])
                .command([ended(1, 1, "w", 1, "success"), finished(1, "success")]),
            by_code()
                .raised(3)
                .command([code(0)])
                .command([ended(1, 1, "w", 1, "lost"), finished(1, "failed")]),
        ),
        case(
            Invariant::LateReportsChangeNothing,
            "EXE-4: a code after the 0",
            by_code().command([code(0)]),
            by_code().command([code(0)]).command([code(3)]),
        ),
        case(rule, "JOB-1: a worker without the label", labelled(json!(["gpu"])), labelled(json!(["cpu"]))),
        case(
            rule,
            "MON-7: a worker that takes no work",
            assign(unready().command([fit()])),
            assign(unready()),
        ),
        case(
            Invariant::WorkerLivesFollow,
            "MON-7: fit, and was not unready",
            unready().command([fit()]),
            waiting().command([fit()]),
        ),
    ]
}

fn limits() -> Vec<Case> {
    let other = || json!({"logical_time": "2026-03-02T08:00:00.000Z"});
    let two = |of: u64| world().command([generated(1, of, json!({}))]).command([generated(2, of, other())]);
    let both = |history: History| history.timer([assigned(1, 1, "w", 1), assigned(2, 2, "w", 1)]);
    let small = || two(1).command([registered("w", "j", 1)]);
    // Two batches of 450 MiB each.
    let needy = || {
        let history = world().command([job(3, json!({"max_concurrent": 2, "memory_mb": 450}))]);
        history.command([generated(1, 3, json!({}))]).command([generated(2, 3, other())])
    };
    let measured = |total: u32, free: u32| {
        event(json!({"worker": {"measured": {
            "worker": "w", "memory_total_mb": total, "memory_free_mb": free, "load_percent": 0,
        }}}))
    };
    let overloaded = |overloaded: bool| {
        event(json!({"worker": {"measured": {
            "worker": "w", "memory_total_mb": 9, "memory_free_mb": 9, "load_percent": 0, "overloaded": overloaded,
        }}}))
    };
    // Of two slots one is for jobs of this priority or a higher one; job 1 has priority 5.
    let keeping = |priority: u8| {
        two(1).command([event(json!({"worker": {"registered": {
            "worker": "w", "incarnation": "j", "host": "h", "address": "a", "slots": {"noop": 2},
            "reserved": {"noop": {"slots": 1, "priority": priority}},
        }}}))])
    };
    vec![
        case(
            Invariant::RunningNeverAboveLimit,
            "DSP-2: more batches than the job allows",
            both(two(1)),
            both(two(2)),
        ),
        case(
            Invariant::RunningNeverAboveLimit,
            "DSP-4: more attempts than slots",
            small().timer([assigned(1, 1, "w", 1)]),
            both(small()),
        ),
        case(
            Invariant::ResourcesNeverOversold,
            "DSP-4: more memory than there is",
            both(needy().command([measured(1_000, 900)])),
            both(needy().command([measured(1_000, 800)])),
        ),
        case(
            Invariant::ResourcesNeverOversold,
            "memory is free again once its batch has ended",
            {
                let history = needy().command([measured(1_000, 600)]).timer([assigned(1, 1, "w", 1)]);
                let history = history.command([granted(1, 1, "w", "i")]);
                let history = history.command([ended(1, 1, "w", 1, "success"), finished(1, "success")]);
                history.timer([assigned(2, 2, "w", 1)])
            },
            needy().timer([assigned(1, 1, "w", 1)]),
        ),
        case(
            Invariant::ResourcesNeverOversold,
            "DSP-4: slots that are kept for high priorities",
            both(keeping(5)),
            both(keeping(4)),
        ),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "MON-7: work for a worker that is overloaded",
            waiting()
                .command([overloaded(true)])
                .command([overloaded(false)])
                .timer([assigned(1, 1, "w", 1)]),
            waiting().command([overloaded(true)]).timer([assigned(1, 1, "w", 1)]),
        ),
        case(
            Invariant::RunningNeverAboveLimit,
            "a place is free again once its batch has ended",
            {
                let history = two(2).timer([assigned(1, 1, "w", 1)]).command([granted(1, 1, "w", "i")]);
                let history = history.command([ended(1, 1, "w", 1, "success"), finished(1, "success")]);
                history.timer([assigned(2, 2, "w", 1)])
            },
            two(2)
                .timer([assigned(1, 1, "w", 1)])
                .command([granted(1, 1, "w", "i")])
                .timer([assigned(2, 2, "w", 1)]),
        ),
    ]
}

fn starts() -> Vec<Case> {
    let rule = Invariant::StartGrantedOnlyToAssigned;
    let good = || given_to_w().command([granted(1, 1, "w", "i")]);
    let two_workers = || given_to_w().command([registered("v", "k", 4)]);
    let rerun = || {
        let first = waiting().timer([assigned(1, 1, "w", 1)]);
        first.command([generated(2, 1, json!({"run": 1, "origin": "rerun"}))]).timer([assigned(2, 2, "w", 1)])
    };
    let first = || rerun().command([granted(1, 1, "w", "i")]);
    let gone = || given_to_w().timer([returned(1, 1, "w", json!({"rejected": "no"}))]);
    vec![
        case(rule, "another worker", good(), two_workers().command([granted(1, 1, "v", "k")])),
        case(rule, "another life of the worker", good(), given_to_w().command([granted(1, 1, "w", "j")])),
        case(rule, "another token", good(), given_to_w().command([granted(1, 2, "w", "i")])),
        case(rule, "granted twice", good(), good().command([granted(1, 1, "w", "i")])),
        case(
            rule,
            "DSP-5: after the assignment was returned",
            gone(),
            gone().command([granted(1, 1, "w", "i")]),
        ),
        case(
            Invariant::NeverTwoLiveAttempts,
            "assigned while an attempt lives",
            running(),
            running().timer([assigned(1, 2, "w", 2)]),
        ),
        case(
            Invariant::NeverTwoLiveAttempts,
            "two runs of one logical time",
            first()
                .command([ended(1, 1, "w", 1, "success"), finished(1, "success")])
                .command([granted(2, 2, "w", "i")]),
            first().command([granted(2, 2, "w", "i")]),
        ),
        case(
            Invariant::StartTimeoutKept,
            "DSP-5: taken away before its time is over",
            given_to_w().at("2026-03-02T10:30:00.000Z").timer([returned(1, 1, "w", json!("not_started"))]),
            given_to_w().timer([returned(1, 1, "w", json!("not_started"))]),
        ),
    ]
}

fn attempts() -> Vec<Case> {
    let once = || {
        let history = world().command([generated(1, 2, json!({}))]).timer([assigned(1, 1, "w", 1)]);
        history.command([granted(1, 1, "w", "i")]).command([started(1, 1)])
    };
    vec![
        case(
            Invariant::AttemptNumbersWithoutGaps,
            "the first attempt has number 2",
            given_to_w(),
            waiting().timer([assigned(1, 1, "w", 2)]),
        ),
        case(
            Invariant::AttemptNumbersWithoutGaps,
            "EXE-3: more attempts than allowed",
            failed(MINUTE),
            once().command([ended(1, 1, "w", 1, "failed"), retry(1, 2, MINUTE)]),
        ),
        case(
            Invariant::RetriesUsedBeforeFailure,
            "EXE-3: it fails with a retry left",
            once().command([ended(1, 1, "w", 1, "failed"), finished(1, "failed")]),
            running().command([ended(1, 1, "w", 1, "failed"), finished(1, "failed")]),
        ),
        case(
            Invariant::RetryIntervalKept,
            "EXE-3: a second short",
            failed(MINUTE),
            failed("2026-03-02T10:01:29.000Z"),
        ),
        case(
            Invariant::RetryIntervalKept,
            "the pause ends early",
            again(),
            failed(MINUTE).timer([retry_due(1)]),
        ),
        case(
            Invariant::RetryIntervalKept,
            "assigned in the pause",
            again(),
            failed(MINUTE).timer([assigned(1, 2, "w", 2)]),
        ),
        case(
            Invariant::LateReportsChangeNothing,
            "the end of an attempt that never began",
            done(),
            given_to_w().command([ended(1, 1, "w", 1, "success")]),
        ),
        case(
            Invariant::LateReportsChangeNothing,
            "the start of an earlier attempt",
            again().command([granted(1, 2, "w", "i")]).command([started(1, 2)]),
            again().command([granted(1, 2, "w", "i")]).command([started(1, 1)]),
        ),
    ]
}

fn ends() -> Vec<Case> {
    let killing = || running().command([kill(1, 1)]);
    let anchors = || {
        let anchor = job(3, json!({"type": "anchor", "parents": [{"job": job_id(1), "mapping": "same"}]}));
        let waits = json!([{"parent": job_id(1), "mapping": "same", "times": ["2026-03-02T09:00:00.000Z"]}]);
        world()
            .command([anchor])
            .command([generated(1, 1, json!({})), generated(2, 3, json!({"dependencies": waits}))])
    };
    let free = job(3, json!({"type": "anchor"}));
    vec![
        case(
            Invariant::KilledStaysKilled,
            "EXE-5: another attempt after the kill",
            killing().command([ended(1, 1, "w", 1, "killed"), finished(1, "killed")]),
            killing().command([ended(1, 1, "w", 1, "failed"), retry(1, 2, MINUTE)]),
        ),
        case(
            Invariant::KilledStaysKilled,
            "it ends as failed",
            killing().command([ended(1, 1, "w", 1, "failed"), finished(1, "killed")]),
            killing().command([ended(1, 1, "w", 1, "failed"), finished(1, "failed")]),
        ),
        case(Invariant::EveryAssignmentEnds, "one is left at rest", done().at_rest(), given_to_w().at_rest()),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "an anchor completes before its parent",
            world().command([free]).command([generated(1, 3, json!({}))]).timer([finished(1, "success")]),
            anchors().timer([finished(2, "success")]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "a timer is not by whom a waiting batch ends",
            waiting().command([killed_by(1)]),
            waiting().timer([event(
                json!({"batch": {"finished": {"batch": crate::kit::batch_id(1), "result": "failed"}}}),
            )]),
        ),
    ]
}

fn mark(batch: u64, result: &str, more: serde_json::Value) -> Event {
    let mut fields = json!({
        "batch": batch_id(batch), "job": job_id(1), "logical_time": "2026-03-02T09:00:00.000Z", "result": result,
        "by": {"app": "me"}, "reason": "as seen",
    });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({"batch": {"result_overridden": fields}}))
}

/// BYD-17, DSP-1
fn held() -> Vec<Case> {
    let rule = Invariant::NothingAssignedBeyondTheFreeze;
    let freeze = |latest: Option<&str>| {
        let freeze = latest.map(|latest| json!({"latest": latest, "by": {"app": "me"}, "reason": "moved"}));
        event(json!({"replication": {"freeze_replicated": {"scope": "group", "freeze": freeze}}}))
    };
    let frozen = |latest: &str| waiting().command([freeze(Some(latest))]);
    let (nine, before) = ("2026-03-02T09:00:00.000Z", "2026-03-02T08:59:59.000Z");
    let given = |history: History| history.timer([assigned(1, 1, "w", 1)]);
    let anchor = |latest: &str| {
        let world = world().command([job(3, json!({"type": "anchor"})), freeze(Some(latest))]);
        world.command([generated(1, 3, json!({}))]).timer([finished(1, "success")])
    };
    let early = |more: serde_json::Value, given: serde_json::Value| {
        let world = History::new().command([group(), job(1, more), registered("w", "i", 4)]);
        world.command([generated(1, 1, given)])
    };
    let minutes = || json!({"earliest_start_minutes": 61});
    let until = |at: &str| json!({"earliest_start": at});
    let one = || early(minutes(), until("2026-03-02T10:01:00.000Z"));
    let due = || event(json!({"batch": {"start_due": {"batch": batch_id(1)}}}));
    let hourly = |at: &str| {
        let schedule = json!({"schedule": {"period": "hour", "zone": "UTC"}, "earliest_start_minutes": 1});
        let off = event(
            json!({"replication": {"job_replicated": {"definition": definition(1, schedule), "enabled": false}}}),
        );
        History::new().command([group(), off]).command([generated(1, 1, until(at))])
    };
    let kept = Invariant::EarliestStartKept;
    let set_back = |was_due: bool| {
        let then = one().at("2026-03-02T10:01:00.000Z");
        let then = if was_due { then.timer([due()]) } else { then };
        then.timer([event(json!({"partition": {"clock_set": {"now": T0}}}))]).at(T0)
    };
    vec![
        case(rule, "assigned beyond it", given(frozen(nine)), given(frozen(before))),
        case(
            rule,
            "lifted, then assigned",
            given(frozen(before).command([freeze(None)])),
            given(frozen(before)),
        ),
        case(rule, "an anchor is completed beyond it", anchor(nine), anchor(before)),
        case(
            kept,
            "assigned before",
            given(one().at("2026-03-02T10:01:00.000Z").timer([due()])),
            given(one()),
        ),
        case(
            kept,
            "due before its time",
            one().at("2026-03-02T10:01:00.000Z").timer([due()]),
            one().timer([due()]),
        ),
        case(kept, "the clock set back before it was due", given(set_back(true)), given(set_back(false))),
        case(kept, "not what its job asks for", one(), early(minutes(), until("2026-03-02T10:00:59.000Z"))),
        case(kept, "not from the base time of its period", hourly("2026-03-02T09:02:00.000Z"), hourly(nine)),
        case(kept, "its job asks for none", waiting(), early(json!({}), until(nine))),
    ]
}

/// An attempt of batch 1 that exits so.
fn exited(code: i32) -> Event {
    let Event::Attempt(AttemptEvent::Finished { batch, token, attempt, worker, mut outcome, usage }) =
        ended(1, 1, "w", 1, "failed")
    else {
        unreachable!("it is one")
    };
    outcome.exit_code = Some(code);
    Event::Attempt(AttemptEvent::Finished { batch, token, attempt, worker, outcome, usage })
}

/// BYD-19: two retries a minute apart, doubled; 2 means no retry, 3 skip.
fn retries() -> Vec<Case> {
    let rule = Invariant::ExitCodesKeepTheirMeaning;
    let starting = |more: serde_json::Value| {
        let world = History::new().command([group(), job(1, more), registered("w", "i", 4)]);
        let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
        given.command([granted(1, 1, "w", "i"), started(1, 1)])
    };
    let coded = |code: i32, then: Event| {
        let codes = json!({"retries": 2, "exit_codes": {"no_retry": [2], "skip": [3]}});
        starting(codes).command([exited(code), then])
    };
    let grown = |jitter: bool, until: &str| {
        let backoff = json!({"factor": 2, "max_interval_s": 600, "jitter": jitter});
        let first = starting(json!({"retries": 2, "retry_backoff": backoff}));
        let first = first.command([exited(1), retry(1, 2, MINUTE)]).at(MINUTE);
        let second = first.timer([retry_due(1), assigned(1, 2, "w", 2)]).command([granted(1, 2, "w", "i")]);
        second.command([ended(1, 2, "w", 2, "failed"), retry(1, 3, until)])
    };
    let passing = |bytes: usize| {
        let outcome = json!({"result": "success", "exit_code": 0, "values": {"rows": "x".repeat(bytes - 4)}});
        let end = event(json!({"attempt": {"finished": {
            "batch": batch_id(1), "token": token(1), "attempt": 1, "worker": "w", "outcome": outcome,
        }}}));
        starting(json!({})).command([end, finished(1, "success")])
    };
    // Parameter a of the job, and one of the batch's own.
    let missed = |of_job: &str, own: serde_json::Value| {
        let world = History::new().command([
            group(),
            job(1, json!({"parameters": {"a": of_job}})),
            registered("w", "i", 4),
        ]);
        let given =
            world.command([generated(1, 1, json!({"parameters": own}))]).timer([assigned(1, 1, "w", 1)]);
        given.command([finished(1, "failed")])
    };
    let named = "${values.p.rows}";
    vec![
        case(
            Invariant::ValuesWithinBounds,
            "BYD-20: a byte more than 8 KB is passed on",
            passing(8192),
            passing(8193),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "BYD-20: it fails at its start, and misses no value",
            missed(named, json!({"b": "2"})),
            missed(named, json!({"a": "1"})),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "BYD-20: by hand, it names no value either",
            missed("1", json!({"a": named})),
            missed("1", json!({"a": "2"})),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "JOB-7: it fails at its start, and its parameter by hand names no other one",
            missed("${job}", json!({"a": "${param.q}"})),
            missed("${job}", json!({"a": "q"})),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "OPS-7: it fails at its start, and its text cannot become too long",
            missed(&"${job}".repeat(101), json!({})),
            missed(&"${job}".repeat(100), json!({})),
        ),
        case(rule, "skip, and it fails", coded(3, finished(1, "skipped")), coded(3, finished(1, "failed"))),
        case(
            rule,
            "skip, and it is tried again",
            coded(1, retry(1, 2, MINUTE)),
            coded(3, retry(1, 2, MINUTE)),
        ),
        case(rule, "no retry, and it is tried again", coded(2, finished(1, "failed")), {
            coded(2, retry(1, 2, MINUTE))
        }),
        case(
            Invariant::RetriesUsedBeforeFailure,
            "it fails without a word",
            coded(2, finished(1, "failed")),
            coded(1, finished(1, "failed")),
        ),
        case(
            Invariant::RetryIntervalKept,
            "the second pause is as long as the first",
            grown(false, "2026-03-02T10:03:30.000Z"),
            grown(false, "2026-03-02T10:02:30.000Z"),
        ),
        case(
            Invariant::RetryIntervalKept,
            "less than a half of it",
            grown(true, "2026-03-02T10:02:31.000Z"),
            grown(true, "2026-03-02T10:02:29.000Z"),
        ),
    ]
}

/// BYD-16
fn marks() -> Vec<Case> {
    let rule = Invariant::MarksAreAccountedFor;
    let marked = |result: &str| done().command([mark(1, result, json!({}))]);
    let waits = || waiting().command([mark(1, "skipped", json!({})), finished(1, "skipped")]);
    let killed = |result: &str| {
        let marked = running().command([mark(1, "success", json!({})), kill(1, 1)]);
        marked.command([ended(1, 1, "w", 1, "killed"), finished(1, result)])
    };
    let rerun = || done().command([generated(2, 1, json!({"run": 1, "origin": "rerun"}))]);
    let next = || {
        json!({"dependencies": [{"parent": job_id(1), "times": ["2026-03-02T09:00:00.000Z"],
        "mapping": "same", "met": ["2026-03-02T09:00:00.000Z"]}]})
    };
    vec![
        case(rule, "nobody says so", marked("failed"), {
            done().command([mark(1, "failed", json!({"by": {"app": ""}}))])
        }),
        case(rule, "no reason is given", waits(), {
            waiting().command([mark(1, "skipped", json!({"reason": " "})), finished(1, "skipped")])
        }),
        case(rule, "it ends otherwise", waits(), {
            waiting().command([mark(1, "skipped", json!({})), finished(1, "success")])
        }),
        case(rule, "killed, and not as it was marked", killed("success"), killed("killed")),
        case(rule, "of another time", marked("skipped"), {
            done().command([mark(1, "skipped", json!({"logical_time": "2026-03-02T08:00:00.000Z"}))])
        }),
        case(rule, "of a run that is not the newest", marked("failed"), {
            rerun().command([mark(1, "failed", json!({}))])
        }),
        case(rule, "as it was before", marked("failed"), marked("success")),
        case(
            Invariant::OnlyAllowedTransitions,
            "it ends as marked while it runs",
            killed("success"),
            running().command([mark(1, "success", json!({})), kill(1, 1), finished(1, "success")]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "a mark decides of its run's children",
            marked("skipped").command([generated(2, 2, next())]),
            marked("failed").command([generated(2, 2, next())]),
        ),
        case(
            Invariant::OnlyAllowedTransitions,
            "skipped without a mark",
            waits(),
            waiting().command([finished(1, "skipped")]),
        ),
    ]
}

/// Ad-hoc jobs leave the checker's memory, and their ends stay final.
#[test]
fn many_jobs_for_once_are_forgotten_without_a_violation() {
    let submitted = |n: u64| {
        let id = tidemill_model::JobId::mint(n, tidemill_model::ShardId(1)).0;
        let mut definition = crate::kit::definition(n, json!({"type": "anchor"}));
        definition["id"] = json!(id);
        let batch = json!({"job": id, "origin": "submission"});
        [
            event(json!({"job": {"submitted": {"definition": definition}}})),
            generated(n, n, batch),
            finished(n, "success"),
        ]
    };
    let many = (1..20_500).fold(world(), |history, n| history.timer(submitted(n)));
    let report = many.timer([finished(3, "success")]).check();
    assert_eq!(report.counts.into_iter().collect::<Vec<_>>(), [("finished_is_final", 1)]);
}

/// TMO-1, TMO-2: batch 1 waits, and has ten minutes to start and twenty to succeed.
fn timed() -> History {
    let timeouts = json!({"dependency_timeout_s": 600, "output_timeout_s": 1_200});
    let world = History::new().command([group(), job(1, timeouts), registered("w", "i", 4)]);
    world.command([generated(1, 1, json!({}))])
}

fn marked(kind: &str, deadline: &str) -> [Event; 2] {
    let alarm = format!("{kind}_timeout");
    [
        event(
            json!({"batch": {"timeout_reached": {"batch": batch_id(1), "kind": kind, "deadline": deadline}}}),
        ),
        event(json!({"alarm": {"raised": {
            "kind": alarm, "severity": "important", "job": job_id(1), "batch": batch_id(1), "message": "late",
        }}})),
    ]
}

fn timeouts() -> Vec<Case> {
    let rule = Invariant::TimeoutsMarkedOnce;
    let (ten, twenty) = ("2026-03-02T10:10:30.000Z", "2026-03-02T10:20:30.000Z");
    let waited = || timed().at(ten).timer(marked("dependency", ten));
    let started = || timed().timer([assigned(1, 1, "w", 1)]).command([granted(1, 1, "w", "i")]);
    let failed_late = || {
        let failed = started().command([ended(1, 1, "w", 1, "failed"), finished(1, "failed")]);
        failed.at(twenty).timer(marked("output", twenty))
    };
    let [mark, alarm] = marked("dependency", ten);
    let of_day = |deadline: &str| {
        let timeouts = json!({"not_successful_by": "07:00:00"});
        let world = History::new().command([group(), job(1, timeouts)]).command([generated(1, 1, json!({}))]);
        let mark = json!({"batch": {"timeout_reached": {"batch": batch_id(1), "kind": "by_time", "deadline": deadline}}});
        let alarm = json!({"alarm": {"raised": {
            "kind": "not_successful_by", "severity": "important", "batch": batch_id(1), "message": "late",
        }}});
        world.at(deadline).timer([event(mark), event(alarm)])
    };
    vec![
        case(
            rule,
            "TMO-1: marked before its time",
            waited(),
            timed().at("2026-03-02T10:10:29.000Z").timer(marked("dependency", ten)),
        ),
        case(rule, "TMO-1: marked for another time", waited(), {
            let other = "2026-03-02T10:09:30.000Z";
            timed().at(other).timer(marked("dependency", other))
        }),
        case(rule, "TMO-1: marked twice", waited(), waited().pass(1).timer(marked("dependency", ten))),
        case(rule, "TMO-1: marked though it runs", started(), {
            started().at(ten).timer(marked("dependency", ten))
        }),
        case(rule, "TMO-2: marked though its job sets no time", done(), {
            waiting().at(twenty).timer(marked("output", twenty))
        }),
        case(rule, "TMO-2: marked though it succeeded", failed_late(), {
            let done = started().command([ended(1, 1, "w", 1, "success"), finished(1, "success")]);
            done.at(twenty).timer(marked("output", twenty))
        }),
        case(rule, "TMO-2: one that failed is marked twice", failed_late(), {
            failed_late().pass(1).timer(marked("output", twenty))
        }),
        case(
            rule,
            "TMO-2: not at the first such time of day",
            of_day("2026-03-03T07:00:00.000Z"),
            of_day("2026-03-04T07:00:00.000Z"),
        ),
        case(rule, "ALM-5: a mark without its alarm", waited(), {
            timed().at(ten).timer([mark.clone(), harmless()])
        }),
        case(rule, "ALM-5: an alarm without its mark", waited(), timed().at(ten).timer([alarm])),
        case(
            rule,
            "TMO-3: missed at quiescence",
            waited().pass(60).command([harmless()]).at_rest(),
            timed().at(ten).pass(60).command([harmless()]).at_rest(),
        ),
    ]
}
