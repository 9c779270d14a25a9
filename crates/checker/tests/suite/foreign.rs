//! Parents in other groups: job 1 runs in shard 1, its child, job 2, in shard 2, each in a partition of its own.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{BatchId, Event, ShardId};

use crate::kit::{Case, History, batch_id, case, definition, event, finished, generated, group, job, job_id};

const NINE: &str = "2026-03-02T09:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    let was_so = Invariant::HeardOfOtherGroupsWasSo;
    let answered = Invariant::WatchesAnswered;
    let ran = || parent(watched(), [generated(1, 1, json!({})), finished(1, "success")]);
    let told_all =
        || child(ran(), [heard([none()]), heard([unfinished(0)]), heard([success(0)]), satisfied()]);
    let rerun = || parent(told_all(), [generated(2, 1, json!({"run": 1, "origin": "rerun"}))]);
    let triggered = || parent(follows("generations", pair()), [generated(1, 1, json!({}))]);
    let told = || child(triggered(), [generations(), waiting(json!({"origin": "parent"}))]);
    vec![
        case(was_so, "DEP-3: a success that was not", told_all(), child(watched(), [heard([success(0)])])),
        case(
            was_so,
            "DEP-3: a success that was not, of a job that moved after it was watched",
            child(moved_later(), [heard([none()]), heard([unfinished(0)]), heard([success(0)]), satisfied()]),
            child(moved_later(), [heard([success(1)])]),
        ),
        case(
            was_so,
            "heard in another order",
            told_all(),
            child(ran(), [heard([success(0)]), heard([unfinished(0)]), heard([success(0)])]),
        ),
        case(was_so, "BYD-20: values that its batch did not pass on", told_all(), {
            let mut other = success(0);
            other["values"] = json!({"rows": "7"});
            child(ran(), [heard([none()]), heard([unfinished(0)]), heard([other]), satisfied()])
        }),
        case(
            was_so,
            "watched, though nothing waits",
            watched(),
            parent(follows("standings", pair()), [watch("parent_times_subscribed")]),
        ),
        case(
            was_so,
            "followed, though it is no parent there",
            follows("standings", pair()),
            History::with_partitions(3)
                .on(1, 1)
                .command([group(), job(1, json!({"type": "anchor"}))])
                .command([followed("standings")]),
        ),
        case(
            was_so,
            "JOB-9: deleted though a job of its own group names it, which the other shard's jobs do not",
            child(deleted(watched()), [heard([skipped()]), left_out()]),
            child(watched(), [heard([skipped()]), left_out()]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "JOB-9: a time of which nothing was heard is left out for a deleted parent that is named no more",
            child(pair(), [gone(), waiting(json!({})), named_no_more(), left_out()]),
            child(pair(), [waiting(json!({})), named_no_more(), left_out()]),
        ),
        case(
            was_so,
            "JOB-9: who watches anew what was deleted may hear nothing, for its owner kept nothing of it",
            child(anew(deleted(told_all())), [heard([none()])]),
            child(anew(told_all()), [heard([none()])]),
        ),
        case(was_so, "GEN-9: a generation heard twice", told(), child(told(), [generations()])),
        case(
            answered,
            "DEP-3: a rerun that is not heard",
            child(rerun(), [heard([unfinished(1)]), withdrawn()]).at_rest(),
            rerun().at_rest(),
        ),
        case(
            answered,
            "a watch without an answer",
            child(watched(), [heard([none()])]).at_rest(),
            watched().at_rest(),
        ),
        case(
            answered,
            "what was not heard before it was let go of",
            parent(child(rerun(), [heard([unfinished(1)]), ended()]), [watch("parent_times_unsubscribed")])
                .at_rest(),
            parent(child(rerun(), [ended()]), [watch("parent_times_unsubscribed")]).at_rest(),
        ),
        case(
            answered,
            "GEN-9: a generation that is not heard",
            parent(child(told(), [heard([unfinished(0)])]), [watch("parent_times_subscribed")]).at_rest(),
            triggered().at_rest(),
        ),
        case(
            Invariant::ChildrenGeneratedWithParents,
            "GEN-9: a child in another group is left out",
            parent(child(told(), [heard([unfinished(0)])]), [watch("parent_times_subscribed")]).at_rest(),
            child(triggered(), [generations()]).at_rest(),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "DEP-3: satisfied before it was heard",
            told_all(),
            child(ran(), [heard([none()]), satisfied()]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "generated as met without having been heard",
            child(ran(), [heard([none()]), heard([success(0)]), satisfied(), ended(), again(json!({}))]),
            child(pair(), [waiting(json!({"dependencies": [waits(json!({"met": [NINE]}))]}))]),
        ),
    ]
}

fn pair() -> History {
    pair_with([group(), job(1, json!({"type": "anchor"}))])
}

/// Shard 1 hears who follows and watches job 1 before it hears that the job moved to it; then job 1 runs.
fn moved_later() -> History {
    let came = definition(1, json!({"type": "anchor", "version": 2}));
    let came = json!({"transfer": {"job_attached": {"definition": came, "enabled": true, "moved": {}}}});
    let waits = child(follows("standings", pair_with([group()])), [waiting(json!({}))]);
    let ran = [event(came), generated(1, 1, json!({"version": 2})), finished(1, "success")];
    parent(parent(waits, [watch("parent_times_subscribed")]), ran)
}

fn pair_with<const N: usize>(parent: [Event; N]) -> History {
    let parents = json!([{"job": job_id(1), "name": "g/j1", "shard": 1}]);
    let fields = json!({"group": "h", "group_id": 2, "parents": [{"job": job_id(1), "mapping": "same"}]});
    let received =
        json!({"replication": {"job_replicated": {"definition": definition(2, fields), "enabled": true}}});
    let h = json!({"replication": {"group_replicated": {"group": 2, "name": "h", "worker_key": "k", "settings": {}}}});
    let here = History::with_partitions(3).on(1, 1).command(parent);
    here.on(2, 2).command([
        event(h),
        event(json!({"replication": {"parents_replicated": {"parents": parents}}})),
        event(received),
    ])
}

fn follows(what: &str, history: History) -> History {
    history.on(1, 1).command([followed(what)])
}

fn followed(what: &str) -> Event {
    event(json!({"subscription": {"parent_subscribed": {"job": job_id(1), "by": 2, "what": what}}}))
}

/// A batch of job 2 waits, and shard 1 knows.
fn watched() -> History {
    let waits = child(follows("standings", pair()), [waiting(json!({}))]);
    parent(waits, [watch("parent_times_subscribed")])
}

fn parent<const N: usize>(history: History, events: [Event; N]) -> History {
    history.on(1, 1).command(events)
}

fn child<const N: usize>(history: History, events: [Event; N]) -> History {
    history.on(2, 2).command(events)
}

fn of_child(n: u64) -> i64 {
    BatchId::mint(n, ShardId(2)).0
}

fn waits(more: Value) -> Value {
    let mut waits = json!({"parent": job_id(1), "mapping": "same", "times": [NINE]});
    waits.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    waits
}

fn waiting(more: Value) -> Event {
    let mut fields = json!({"batch": of_child(1), "dependencies": [waits(json!({}))]});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    generated(1, 2, fields)
}

/// The same logical time once more; whether its parent counts as met, the owner may have forgotten.
fn again(more: Value) -> Event {
    let dependencies = json!([waits(more)]);
    generated(2, 2, json!({"batch": of_child(2), "run": 1, "dependencies": dependencies}))
}

fn watch(what: &str) -> Event {
    event(json!({"subscription": {what: {"job": job_id(1), "by": 2, "times": [NINE]}}}))
}

fn ended() -> Event {
    event(json!({"batch": {"finished": {"batch": of_child(1), "result": "killed", "by": {"app": "me"}}}}))
}

fn satisfied() -> Event {
    event(json!({"batch": {"dependency_satisfied": {
        "batch": of_child(1), "parent": job_id(1), "logical_time": NINE, "unmet": 0,
    }}}))
}

/// Job 1 is deleted, and job 3 of its group goes on naming it.
fn deleted(history: History) -> History {
    let deletion = json!({"parent": job_id(1), "name": "g/j1", "deleted_at": NINE, "jobs": [job_id(3)]});
    let names = job(3, json!({"parents": [{"job": job_id(1), "mapping": "same"}]}));
    parent(
        history,
        [
            names,
            event(json!({"replication": {"parent_deletion_replicated": deletion}})),
            event(json!({"replication": {"job_dropped": {"job": job_id(1), "orphaned_in": [1]}}})),
        ],
    )
}

/// The child's shard hears that job 1 was deleted.
fn gone() -> Event {
    let deletion = json!({"parent": job_id(1), "name": "g/j1", "deleted_at": NINE, "jobs": [job_id(2)]});
    event(json!({"replication": {"parent_deletion_replicated": deletion}}))
}

/// Job 2 is given no parents.
fn named_no_more() -> Event {
    let fields = definition(2, json!({"group": "h", "group_id": 2, "version": 2}));
    event(json!({"replication": {"job_replicated": {"definition": fields, "enabled": true}}}))
}

fn anew(history: History) -> History {
    let history = parent(history, [watch("parent_times_unsubscribed")]);
    parent(history, [watch("parent_times_subscribed")])
}

fn skipped() -> Value {
    json!({"logical_time": NINE, "succeeded": false, "skipped": true})
}

fn left_out() -> Event {
    event(json!({"batch": {"dependency_satisfied": {
        "batch": of_child(1), "parent": job_id(1), "logical_time": NINE, "unmet": 0, "left_out": true,
    }}}))
}

fn withdrawn() -> Event {
    event(json!({"batch": {"dependency_revoked": {
        "batch": of_child(1), "parent": job_id(1), "logical_time": NINE, "unmet": 1,
    }}}))
}

fn generations() -> Event {
    event(json!({"replication": {"parent_generations_received": {"parent": job_id(1), "times": [NINE]}}}))
}

fn heard<const N: usize>(standings: [Value; N]) -> Event {
    event(
        json!({"replication": {"parent_status_updated": {"parent": job_id(1), "standings": standings.to_vec()}}}),
    )
}

fn none() -> Value {
    json!({"logical_time": NINE, "succeeded": false})
}

fn unfinished(run: u32) -> Value {
    json!({"logical_time": NINE, "succeeded": false, "run": run, "batch": batch_id(u64::from(run) + 1)})
}

fn success(run: u32) -> Value {
    let batch = batch_id(u64::from(run) + 1);
    json!({"logical_time": NINE, "succeeded": true, "run": run, "batch": batch, "result": "success"})
}
