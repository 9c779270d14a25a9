//! Batches come to be: ids, runs, versions, fires, children.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, definition, done, event, generated, job, job_id, killed_by,
    scheduled, waiting, world,
};

/// The log is restored; ids go on above this counter.
fn restored(above: u64) -> Event {
    event(json!({"partition": {"restored": {"generation": 1, "ids_above": above, "by": "ann", "upto": 3}}}))
}

pub(crate) fn cases() -> Vec<Case> {
    [identity(), fires(), fires_elsewhere(), children()].into_iter().flatten().collect()
}

const LATER: &str = "2026-03-02T09:30:00.000Z";

fn identity() -> Vec<Case> {
    let second = |run: u32| generated(2, 1, json!({"run": run, "origin": "rerun"}));
    let off_one =
        || event(json!({"replication": {"job_switch_replicated": {"job": job_id(1), "enabled": false}}}));
    let off = || world().command([off_one()]);
    vec![
        case(
            Invariant::MintedIdsGrow,
            "a batch id is given again",
            waiting().command([generated(2, 2, json!({}))]),
            waiting().command([killed_by(1)]).command([generated(1, 2, json!({}))]),
        ),
        case(
            Invariant::MintedIdsGrow,
            "two equal tokens in one envelope",
            waiting()
                .command([generated(2, 2, json!({}))])
                .timer([assigned(1, 1, "w", 1), assigned(2, 2, "w", 1)]),
            waiting()
                .command([generated(2, 2, json!({}))])
                .timer([assigned(1, 1, "w", 1), assigned(2, 1, "w", 1)]),
        ),
        case(
            Invariant::MintedIdsGrow,
            "OPS-5: a batch id of the life before a restore",
            waiting().timer([restored(5)]).command([generated(6, 2, json!({}))]),
            waiting().timer([restored(5)]).command([generated(2, 2, json!({}))]),
        ),
        case(
            Invariant::OneGeneratedPerRun,
            "GEN-2: the same run twice",
            done().command([second(1)]),
            done().command([second(0)]),
        ),
        case(
            Invariant::RunNumbersWithoutGaps,
            "a run is left out",
            done().command([second(1)]),
            done().command([second(2)]),
        ),
        case(
            Invariant::GeneratedOnlyWhenEnabled,
            "a parent makes a batch of a job that is off",
            off().command([generated(1, 1, json!({"origin": "rerun"}))]),
            off().timer([generated(1, 1, json!({"origin": "parent"}))]),
        ),
        case(
            Invariant::ManualRunsAlone,
            "GEN-5: a run by hand beside another of its job, which was not asked for",
            waiting().command([generated(2, 1, json!({"logical_time": LATER, "concurrent": true}))]),
            waiting().command([generated(2, 1, json!({"logical_time": LATER, "concurrent": false}))]),
        ),
        case(
            Invariant::ManualRunsAlone,
            "GEN-5: a run by hand after another of its job has ended",
            waiting().command([killed_by(1)]).command([generated(
                2,
                1,
                json!({"logical_time": LATER, "concurrent": false}),
            )]),
            waiting()
                .command([generated(2, 1, json!({"logical_time": LATER, "concurrent": true}))])
                .command([killed_by(1)])
                .command([generated(3, 1, json!({"run": 1, "concurrent": false}))]),
        ),
        case(
            Invariant::AssignedOnlyWhenConditionsHeld,
            "DSP-1: a disabled job's batch of its schedule is assigned, rather than the one that was run by hand",
            waiting().command([off_one()]).timer([assigned(1, 1, "w", 1)]),
            world()
                .timer([generated(1, 1, json!({"origin": "parent"}))])
                .command([off_one()])
                .timer([assigned(1, 1, "w", 1)]),
        ),
        case(
            Invariant::GeneratedFromKnownVersion,
            "an unknown version",
            waiting(),
            world().command([generated(1, 1, json!({"version": 2}))]),
        ),
        case(
            Invariant::GeneratedFromKnownVersion,
            "JOB-5: an old version",
            world().command([job(1, json!({"version": 2}))]).command([generated(
                1,
                1,
                json!({"version": 2}),
            )]),
            world().command([job(1, json!({"version": 2}))]).command([generated(1, 1, json!({}))]),
        ),
    ]
}

fn fire(at: &str, logical_time: &str) -> Value {
    json!({"at": at, "logical_time": logical_time})
}

/// The batch of a fire, and the next one.
fn fired(n: u64, logical_time: &str, next: Value) -> Event {
    generated(n, 1, json!({"origin": "schedule", "logical_time": logical_time, "next": next}))
}

fn skipped(from: &str, to: &str, count: u64, next: Value) -> Event {
    event(json!({"schedule": {"skipped": {
        "job": job_id(1), "from": from, "to": to, "count": count, "reason": "policy", "next": next,
    }}}))
}

fn hourly() -> History {
    let first = ("2026-03-02T10:01:00.000Z", "2026-03-02T10:00:00.000Z");
    History::new()
        .timer([scheduled(1, json!({"period": "hour", "zone": "UTC"}), first)])
        .at("2026-03-02T10:01:00.000Z")
}

fn fires() -> Vec<Case> {
    let rule = Invariant::DueTimesGeneratedOrSkipped;
    let (ten, eleven) =
        ("2026-03-02T10:00:00.000Z", fire("2026-03-02T11:01:00.000Z", "2026-03-02T11:00:00.000Z"));
    let noon = fire("2026-03-02T12:01:00.000Z", "2026-03-02T12:00:00.000Z");
    let good = || hourly().timer([fired(1, ten, eleven.clone())]);
    let redefined = |next: Value| {
        let schedule = json!({"period": "hour", "zone": "UTC"});
        let definition = definition(1, json!({"version": 2, "schedule": schedule}));
        event(
            json!({"replication": {"job_replicated": {"definition": definition, "enabled": true, "next": next}}}),
        )
    };
    let first = fire("2026-03-02T10:01:00.000Z", ten);
    vec![
        case(rule, "JOB-3: an hour is left out", good(), hourly().timer([fired(1, ten, noon.clone())])),
        case(
            rule,
            "GEN-2: the fire to come is passed over",
            good(),
            hourly().at("2026-03-02T11:01:00.000Z").timer([fired(
                1,
                "2026-03-02T11:00:00.000Z",
                noon.clone(),
            )]),
        ),
        case(
            rule,
            "before its time",
            good(),
            hourly().at("2026-03-02T10:00:59.000Z").timer([fired(1, ten, eleven.clone())]),
        ),
        case(
            rule,
            "a skip counts wrong",
            hourly().at("2026-03-02T12:00:30.000Z").timer([skipped(
                ten,
                "2026-03-02T11:00:00.000Z",
                2,
                noon.clone(),
            )]),
            hourly().at("2026-03-02T12:00:30.000Z").timer([skipped(
                ten,
                "2026-03-02T11:00:00.000Z",
                3,
                noon,
            )]),
        ),
        case(
            rule,
            "GEN-3: a new definition drops what was due",
            hourly().at("2026-03-02T10:30:00.000Z").command([redefined(first)]),
            hourly().at("2026-03-02T10:30:00.000Z").command([redefined(eleven.clone())]),
        ),
        case(
            rule,
            "something due is left at rest",
            good().at_rest(),
            hourly().at("2026-03-02T10:30:00.000Z").timer([crate::kit::harmless()]).at_rest(),
        ),
    ]
}

fn fires_elsewhere() -> Vec<Case> {
    let rule = Invariant::DueTimesGeneratedOrSkipped;
    let weekdays = || {
        let schedule = json!({"cron": "0 0 6 ? * MON-FRI", "zone": "UTC"});
        let friday = ("2026-03-06T06:00:00.000Z", "2026-03-06T06:00:00.000Z");
        History::new()
            .at("2026-03-05T07:00:00.000Z")
            .timer([scheduled(1, schedule, friday)])
            .at("2026-03-06T06:00:00.000Z")
    };
    let cron = |day: &str| {
        let next = format!("2026-03-{day}T06:00:00.000Z");
        weekdays().timer([fired(1, "2026-03-06T06:00:00.000Z", fire(&next, &next))])
    };
    let overlap = |again: &str| {
        let schedule = json!({"cron": "0 30 2 * * ?", "zone": "Europe/Berlin"});
        let first = "2026-10-25T00:30:00.000Z";
        History::new()
            .at("2026-10-24T12:00:00.000Z")
            .timer([scheduled(1, schedule, (first, first))])
            .at(first)
            .timer([fired(1, first, fire(again, again))])
    };
    vec![
        case(rule, "JOB-3: cron after Friday is Monday", cron("09"), cron("07")),
        case(
            rule,
            "JOB-3: a local time that comes twice fires once",
            overlap("2026-10-26T01:30:00.000Z"),
            overlap("2026-10-25T01:30:00.000Z"),
        ),
    ]
}

fn children() -> Vec<Case> {
    let family = || {
        let child = job(3, json!({"parents": [{"job": job_id(1), "mapping": "same"}]}));
        world().command([child]).command([generated(1, 1, json!({}))])
    };
    let dependencies =
        json!([{"parent": job_id(1), "mapping": "same", "times": ["2026-03-02T09:00:00.000Z"]}]);
    let born =
        || family().timer([generated(2, 3, json!({"origin": "parent", "dependencies": dependencies}))]);
    assert!(batch_id(2) > batch_id(1));
    vec![case(
        Invariant::ChildrenGeneratedWithParents,
        "GEN-9: a child's batch is missing",
        born().at_rest(),
        family().at_rest(),
    )]
}
