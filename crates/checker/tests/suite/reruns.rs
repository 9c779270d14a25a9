//! Reruns and cold starts.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, batch_id, case, definition, event, finished, generated, job, job_id};

const DAY: [&str; 2] = ["2026-06-29T00:00:00.000Z", "2026-06-30T00:00:00.000Z"];
const LATER: &str = "2026-07-01T00:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::RerunsKeepToPlan;
    let good = || of(whole());
    let without = |at: usize| {
        let mut events = whole();
        events.remove(at);
        of(events)
    };
    let with = |at: usize, other: Event| {
        let mut events = whole();
        events[at] = other;
        of(events)
    };
    let cut = |at: usize, more: Vec<Event>| {
        let mut events = whole();
        events.truncate(at);
        events.extend(more);
        of(events)
    };
    vec![
        case(rule, "a batch that was asked for is left out", good(), with(5, planned(1, &[(1, 0, &[])]))),
        case(
            rule,
            "a child does not wait for its parent",
            good(),
            with(5, planned(1, &[(1, 0, &[]), (2, 0, &[])])),
        ),
        case(rule, "a batch later than the rerun reaches", up_to(DAY[1]), up_to(DAY[0])),
        case(rule, "later batches left out, as beyond a reach that they are within", left_out(LATER), {
            left_out(DAY[1])
        }),
        case(rule, "a plan before the shards have answered", good(), without(4)),
        case(rule, "a start before its turn", good(), with(8, ordered(&[(2, 2)]))),
        case(rule, "one more at once than was requested", good(), with(8, ordered(&[(1, 1), (2, 2)]))),
        case(rule, "a start without approval", good(), without(7)),
        case(rule, "an end of what did not start", good(), without(8)),
        case(
            rule,
            "an approval after a change",
            good(),
            cut(
                7,
                vec![
                    defined(2, json!({"version": 2, "parents": [{"job": job_id(1), "mapping": "same"}]})),
                    approved(),
                ],
            ),
        ),
        case(rule, "an end with batches left", good(), cut(10, vec![over("done")])),
        case(
            rule,
            "a start after it was cancelled",
            good(),
            cut(8, vec![cancelled(), ordered(&[(1, 1)]), run_finished(1, "success"), over("cancelled")]),
        ),
        case(rule, "a block without a cause", of_failed(true), of_failed(false)),
        case(rule, "a start after a failure that its job does not bear", after_failure("run"), {
            after_failure("wait")
        }),
        case(rule, "a block of what goes on after a failure", of_failed(true), {
            let rule =
                json!({"parents": [{"job": job_id(1), "mapping": "same"}], "on_parent_failure": "skip"});
            of([vec![defined(1, json!({})), defined(2, rule)], failed_and_blocked(true)].concat())
        }),
        case(rule, "a turn that comes twice", shard(&[1, 2]), shard(&[1, 1])),
        case(rule, "another end than the shard told", told("success"), told("failed")),
    ]
}

/// A rerun of job 1 and its child for one day, one at a time, from its request to its end.
fn whole() -> Vec<Event> {
    vec![
        defined(1, json!({})),
        defined(2, json!({"parents": [{"job": job_id(1), "mapping": "same"}]})),
        requested(),
        asked(),
        heard(),
        planned(1, &[(1, 0, &[]), (2, 0, &[1])]),
        event(json!({"rerun": {"planned": {"rerun": 4096, "batches": 2}}})),
        approved(),
        ordered(&[(1, 1)]),
        run_finished(1, "success"),
        ordered(&[(2, 2)]),
        run_finished(2, "success"),
        over("done"),
    ]
}

/// A rerun of the first day that reaches so far, and plans the second.
fn up_to(reach: &str) -> History {
    let mut events = whole();
    events[2] = rerun_of(DAY[0], Some(reach));
    of(events)
}

/// It leaves out the child's logical times from this one on.
fn left_out(from: &str) -> History {
    let times = json!([{"job": job_id(2), "from": from, "reason": "beyond_reach"}]);
    let mut events = whole();
    events.insert(5, event(json!({"rerun": {"jobs_skipped": {"rerun": 4096, "jobs": [], "times": times}}})));
    of(events)
}

fn of_failed(failed: bool) -> History {
    let mut events = whole();
    events.truncate(2);
    events.extend(failed_and_blocked(failed));
    of(events)
}

/// From the request to the end.
fn failed_and_blocked(failed: bool) -> Vec<Event> {
    let mut events = whole()[2..9].to_vec();
    events.push(run_finished(1, if failed { "failed" } else { "success" }));
    events.push(event(json!({"rerun": {"runs_blocked": {"rerun": 4096, "numbers": [2]}}})));
    events.push(over("done_with_failures"));
    events
}

/// BYD-18: the parent fails; the child, with this rule, is started.
fn after_failure(rule: &str) -> History {
    let parents = json!([{"job": job_id(1), "mapping": "same"}]);
    let mut events = whole();
    events[1] = defined(2, json!({"parents": parents, "on_parent_failure": rule}));
    events[9] = run_finished(1, "failed");
    events[12] = over("done_with_failures");
    of(events)
}

/// What a shard makes of it: two batches, with these numbers.
fn shard(numbers: &[u32]) -> History {
    let place = |number: u32| json!({"rerun": {"rerun": 4096, "number": number}, "origin": "rerun"});
    let first = [job(3, json!({"max_concurrent": 9}))];
    let mut history = crate::kit::world().command(first);
    for (batch, (number, day)) in numbers.iter().zip(DAY).enumerate() {
        let mut more = place(*number);
        more["logical_time"] = json!(day);
        history = history.command([generated(batch as u64 + 1, 3, more)]);
    }
    history
}

/// The shard's batch ends well; the catalogue hears this.
fn told(result: &str) -> History {
    let mut before = whole();
    before.truncate(9);
    let end =
        json!({"rerun": 4096, "number": 1, "end": {"finished": {"batch": batch_id(1), "result": result}}});
    let anchor = json!({"type": "anchor"});
    let place = json!({"rerun": {"rerun": 4096, "number": 1}, "origin": "rerun", "logical_time": DAY[1]});
    let catalogue =
        before.into_iter().fold(crate::kit::world().on(0, 0), |history, event| history.command([event]));
    catalogue
        .on(0, 1)
        .command([job(3, anchor)])
        .command([generated(1, 3, place)])
        .command([finished(1, "success")])
        .on(0, 0)
        .command([event(json!({"rerun": {"run_finished": end}}))])
}

fn of(events: Vec<Event>) -> History {
    events.into_iter().fold(History::new().on(0, 0), |history, event| history.command([event]))
}

fn defined(n: u64, more: Value) -> Event {
    event(json!({"job": {"defined": {"definition": definition(n, more), "enabled": true}}}))
}

fn requested() -> Event {
    rerun_of(DAY[1], None)
}

fn rerun_of(day: &str, reach: Option<&str>) -> Event {
    let mut spec = json!({
        "scope": {"rerun": {"jobs": [job_id(1)], "cascade": "logic"}}, "from": day, "to": day,
        "concurrency": 1,
    });
    if let Some(reach) = reach {
        spec["reach"] = json!(reach);
    }
    let jobs = json!([{"job": job_id(1), "version": 1, "touches": 1}, {"job": job_id(2), "version": 1}]);
    event(json!({"rerun": {"requested": {
        "rerun": 4096, "spec": spec, "by": {"app": "test"}, "jobs": jobs, "groups": ["g"],
    }}}))
}

fn asked() -> Event {
    let of = |n| json!({"job": job_id(n), "times": [DAY[1]]});
    event(
        json!({"rerun": {"runs_queried": {"rerun": 4096, "part": 1, "shard": 1, "asked": [of(1), of(2)], "upto": 2}}}),
    )
}

fn heard() -> Event {
    event(json!({"rerun": {"runs_received": {"rerun": 4096, "part": 1, "from": 1}}}))
}

/// Job, day before, and what it waits for.
fn planned(first: u32, batches: &[(u64, usize, &[u32])]) -> Event {
    let batches: Vec<Value> = batches
        .iter()
        .map(|(n, back, after)| json!({"job": job_id(*n), "logical_time": DAY[1 - back], "after": after}))
        .collect();
    event(json!({"rerun": {"batches_planned": {"rerun": 4096, "first": first, "batches": batches}}}))
}

fn approved() -> Event {
    event(json!({"rerun": {"approved": {"rerun": 4096, "by": {"app": "test"}}}}))
}

fn cancelled() -> Event {
    event(json!({"rerun": {"cancelled": {"rerun": 4096, "by": {"app": "test"}}}}))
}

fn ordered(runs: &[(u32, u64)]) -> Event {
    let runs: Vec<Value> = runs
        .iter()
        .map(|(number, n)| json!({"number": number, "job": job_id(*n), "logical_time": DAY[1]}))
        .collect();
    event(json!({"rerun": {"runs_requested": {"rerun": 4096, "runs": runs}}}))
}

fn run_finished(number: u32, result: &str) -> Event {
    let end = json!({"finished": {"batch": batch_id(u64::from(number)), "result": result}});
    event(json!({"rerun": {"run_finished": {"rerun": 4096, "number": number, "end": end}}}))
}

fn over(result: &str) -> Event {
    event(json!({"rerun": {"finished": {"rerun": 4096, "result": result}}}))
}
