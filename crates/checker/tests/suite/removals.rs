//! Deletions of jobs.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{self, Case, History, case, definition, event, job_id};

const NINE: &str = "2026-03-02T09:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::JobsDeletedWhenNothingUnfinished;
    let whole = || of([defined(), asked(), heard(&[]), deleted(), decided("done")]);
    vec![
        case(rule, "nobody has answered", whole(), of([defined(), asked(), deleted(), decided("done")])),
        case(
            rule,
            "something is unfinished",
            of([defined(), asked(), heard(&[1]), refused()]),
            of([defined(), asked(), heard(&[1]), deleted(), decided("done")]),
        ),
        case(
            rule,
            "nobody was asked, and what is unfinished goes on",
            of([defined(), deleted(), cancelled()]),
            of([defined(), deleted(), defined()]),
        ),
        case(
            rule,
            "a refused deletion changes something",
            of([defined(), asked(), heard(&[1]), refused()]),
            of([defined(), asked(), heard(&[]), deleted(), refused()]),
        ),
        case(rule, "a question that was not asked", whole(), of([defined(), refused()])),
        case(
            Invariant::DeletedParentsOnRecord,
            "JOB-9: a parent is deleted, and nothing says that jobs name it",
            of([group(), defined(), child(), orphaned(1), deleted()]),
            of([group(), defined(), child(), deleted()]),
        ),
        case(
            Invariant::DeletedParentsOnRecord,
            "more jobs are said to name it than do",
            of([group(), defined(), child(), orphaned(1), deleted()]),
            of([group(), defined(), child(), orphaned(2), deleted()]),
        ),
        case(
            Invariant::DeletedParentsWaitedFor,
            "JOB-9: a batch goes on without the job that was deleted",
            waits_for_deleted(),
            waits_for_deleted().command([satisfied()]),
        ),
        case(
            Invariant::DependencyEventsMatchNewestRuns,
            "JOB-9: what a deleted parent had skipped counts for a job that comes from another group, too",
            comes_later(true),
            comes_later(false),
        ),
        case(
            Invariant::DeletedParentsWaitedFor,
            "JOB-9: what it skips as its own parent does is skipped until it is dropped",
            skips_as_its_parent(false),
            skips_as_its_parent(true),
        ),
        case(
            Invariant::DeletedParentsWaitedFor,
            "JOB-9: only a job that was submitted to run once still names the deleted parent",
            submitted().command([named_no_more()]).command([satisfied()]),
            submitted().command([satisfied()]),
        ),
    ]
}

/// In the group's shard: a batch of job 2 waits for job 1, which is deleted though job 2 goes on naming it.
fn waits_for_deleted() -> History {
    let dependencies = json!([{"parent": job_id(1), "mapping": "same", "times": [NINE]}]);
    let parents = json!({"parents": [{"job": job_id(1), "mapping": "same"}]});
    let here = History::with_partitions(3).on(1, 1).command([
        kit::group(),
        kit::job(1, json!({"type": "anchor"})),
        kit::job(2, parents),
    ]);
    let here = here.command([kit::generated(1, 2, json!({"dependencies": dependencies}))]);
    let deletion = json!({"parent": job_id(1), "name": "g/j1", "deleted_at": NINE, "jobs": [job_id(2)]});
    here.command([
        event(json!({"replication": {"parent_deletion_replicated": deletion}})),
        event(json!({"replication": {"job_dropped": {"job": job_id(1)}}})),
    ])
}

/// Job 1, whose next fire is at ten, is deleted; job 2, which names it, comes from another group after that, and takes nine
/// o'clock, which was skipped, for met or not.
fn comes_later(met: bool) -> History {
    let names = json!({"version": 2, "parents": [{"job": job_id(1), "mapping": "same"}]});
    let deletion = json!({"parent": job_id(1), "name": "g/j1", "deleted_at": NINE, "jobs": []});
    let hourly = json!({"period": "hour", "zone": "UTC"});
    let next = ("2026-03-02T10:01:00.000Z", "2026-03-02T10:00:00.000Z");
    let attached = json!({"definition": definition(2, names), "enabled": true, "moved": {"runs": []}});
    let mut dependency = json!({"parent": job_id(1), "mapping": "same", "times": [NINE]});
    if met {
        dependency["met"] = json!([NINE]);
    }
    History::with_partitions(3)
        .on(1, 1)
        .at("2026-03-02T09:30:00.000Z")
        .command([kit::group(), kit::scheduled(1, hourly, next)])
        .command([
            event(json!({"replication": {"job_dropped": {"job": job_id(1), "orphaned_in": [2]}}})),
            event(json!({"replication": {"parent_deletion_replicated": deletion}})),
            event(json!({"transfer": {"job_attached": attached}})),
        ])
        .command([kit::generated(1, 2, json!({"version": 2, "dependencies": [dependency]}))])
}

/// Job 1 has its logical times from job 3, which made no batch for nine o'clock. Job 1 is deleted, and a batch of job 2, which
/// names it, takes that time for met: before or after it is dropped.
fn skips_as_its_parent(dropped: bool) -> History {
    let hourly = json!({"period": "hour", "zone": "UTC"});
    let next = ("2026-03-02T10:01:00.000Z", "2026-03-02T10:00:00.000Z");
    let of = |parent: u64| json!({"parents": [{"job": job_id(parent), "mapping": "same"}]});
    let deletion = json!({"parent": job_id(1), "name": "g/j1", "deleted_at": NINE, "jobs": [job_id(2)]});
    let gone = event(json!({"replication": {"job_dropped": {"job": job_id(1)}}}));
    let dependencies = json!([{"parent": job_id(1), "mapping": "same", "times": [NINE], "met": [NINE]}]);
    let here = History::with_partitions(3)
        .on(1, 1)
        .at("2026-03-02T09:30:00.000Z")
        .command([kit::group(), kit::scheduled(3, hourly, next), kit::job(1, of(3)), kit::job(2, of(1))])
        .command([event(json!({"replication": {"parent_deletion_replicated": deletion}}))]);
    let here = if dropped { here.command([gone]) } else { here };
    here.command([kit::generated(1, 2, json!({"dependencies": dependencies}))])
}

/// The same beside a job that was submitted to run once, which names the parent as well.
fn submitted() -> History {
    waits_for_deleted().command([names_once()])
}

fn names_once() -> Event {
    let mut once = definition(2, json!({"parents": [{"job": job_id(1), "mapping": "latest"}]}));
    once["id"] = json!(kit::batch_id(1));
    event(json!({"job": {"submitted": {"definition": once}}}))
}

/// Job 2 is given no parents.
fn named_no_more() -> Event {
    kit::job(2, json!({"version": 2}))
}

fn satisfied() -> Event {
    event(json!({"batch": {"dependency_satisfied": {
        "batch": kit::batch_id(1), "parent": job_id(1), "logical_time": NINE, "unmet": 0,
    }}}))
}

/// An envelope of the catalogue.
fn of<const N: usize>(events: [Event; N]) -> History {
    History::new().on(0, 0).command(events)
}

fn defined() -> Event {
    event(json!({"job": {"defined": {"definition": definition(1, json!({})), "enabled": true}}}))
}

/// A job that names the first one as its parent.
fn child() -> Event {
    let parents = json!({"parents": [{"job": job_id(1), "mapping": "same"}]});
    event(json!({"job": {"defined": {"definition": definition(2, parents), "enabled": true}}}))
}

fn orphaned(jobs: u32) -> Event {
    let children = json!([{"shard": 1, "jobs": jobs}]);
    event(json!({"job": {"parent_deleted": {"parent": job_id(1), "name": "g/j1", "children": children}}}))
}

fn group() -> Event {
    event(
        json!({"catalogue": {"group_defined": {"group": 1, "name": "g", "shard": 1, "worker_key": "aa", "settings": {}}}}),
    )
}

fn asked() -> Event {
    let deletion = json!({"delete": {"job": job_id(1)}});
    event(
        json!({"deletion": {"unfinished_queried": {"question": 1, "deletion": deletion, "jobs": [job_id(1)]}}}),
    )
}

fn heard(unfinished: &[u64]) -> Event {
    let unfinished = unfinished.iter().map(|n| json!({"job": job_id(*n), "batches": 1, "newest": 4_097}));
    let unfinished: Vec<_> = unfinished.collect();
    event(json!({"deletion": {"unfinished_received": {"question": 1, "from": 1, "jobs": unfinished}}}))
}

fn deleted() -> Event {
    event(json!({"job": {"deleted": {"job": job_id(1)}}}))
}

fn cancelled() -> Event {
    event(json!({"job": {"cancelled": {"job": job_id(1), "shard": 1, "by": {"app": "a"}}}}))
}

fn decided(answer: &str) -> Event {
    event(json!({"deletion": {"decided": {"question": 1, "outcome": {"answered": answer}}}}))
}

fn refused() -> Event {
    let rejection = json!({"job_in_use": {"job": "g/j1", "reason": "it has unfinished batches"}});
    event(json!({"deletion": {"decided": {"question": 1, "outcome": {"refused": rejection}}}}))
}
