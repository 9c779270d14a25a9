//! Large requests of the catalogue.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, job_id};

/// JOB-9: renames.
pub(crate) fn names() -> Vec<Case> {
    let rule = Invariant::NamesMeanOneJob;
    let renamed = |name: &str, previous: Value| {
        let definition = definition(2, json!({"version": 2, "name": name}));
        event(
            json!({"job": {"defined": {"definition": definition, "enabled": true, "previous_name": previous}}}),
        )
    };
    let good = || of([defined(1), defined(2), renamed("x", json!("j2"))]);
    vec![
        case(
            rule,
            "a job gets the name of another one",
            good(),
            of([defined(1), defined(2), renamed("j1", json!("j2"))]),
        ),
        case(
            rule,
            "a record of a rename does not say so",
            good(),
            of([defined(1), defined(2), renamed("x", Value::Null)]),
        ),
        case(
            rule,
            "a record of a rename names another job",
            good(),
            of([defined(1), defined(2), renamed("x", json!("j1"))]),
        ),
        case(
            rule,
            "the name of a renamed job is free",
            of([defined(1), defined(2), renamed("x", json!("j2")), named(3, "j2")]),
            of([defined(1), defined(2), renamed("x", json!("j2")), named(3, "x")]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::AppliesCarriedOut;
    let whole = || {
        of([
            defined(3),
            staged(0, 1),
            staged(1, 2),
            committed(),
            defined(1),
            advanced(1),
            defined(2),
            deleted(3),
            cancelled(3),
            finished(),
        ])
    };
    vec![
        case(
            rule,
            "a job of the commit is left out",
            whole(),
            of([
                defined(3),
                staged(0, 1),
                staged(1, 2),
                committed(),
                defined(1),
                deleted(3),
                cancelled(3),
                finished(),
            ]),
        ),
        case(
            rule,
            "a deletion of the commit is left out",
            whole(),
            of([defined(3), staged(0, 1), committed(), defined(1), finished()]),
        ),
        case(
            rule,
            "a job is not as it was staged",
            whole(),
            of([staged(0, 1), committed(), owned(1, "eve"), finished()]),
        ),
        case(
            rule,
            "another change comes in between",
            whole(),
            of([staged(0, 1), committed(), defined(2), defined(1), finished()]),
        ),
        case(rule, "a commit of what is not staged", whole(), of([committed(), finished()])),
        case(
            rule,
            "a commit of what was dropped",
            of([staged(0, 1), dropped(), staged(0, 1), committed(), defined(1), finished()]),
            of([staged(0, 1), dropped(), committed(), finished()]),
        ),
        case(
            rule,
            "a commit with a part missing",
            whole(),
            of([staged(1, 1), committed(), defined(1), finished()]),
        ),
        case(rule, "an end without a commit", whole(), of([staged(0, 1), finished()])),
        case(
            rule,
            "a step back",
            whole(),
            of([
                staged(0, 1),
                staged(1, 2),
                committed(),
                defined(1),
                advanced(1),
                defined(2),
                advanced(1),
                finished(),
            ]),
        ),
    ]
}

/// An envelope of the catalogue.
fn of<const N: usize>(events: [Event; N]) -> History {
    History::new().on(0, 0).command(events)
}

fn staged(part: u32, n: u64) -> Event {
    let job = json!({"name": format!("j{n}"), "group": "g", "type": "noop"});
    event(json!({"apply": {"staged": {"apply": "a", "part": part, "jobs": [job]}}}))
}

fn committed() -> Event {
    event(json!({"apply": {"committed": {"apply": "a", "delete": [job_id(3)], "cancel": {"app": "a"}}}}))
}

fn advanced(done: u32) -> Event {
    event(json!({"apply": {"advanced": {"apply": "a", "done": done}}}))
}

fn finished() -> Event {
    event(json!({"apply": {"finished": {"apply": "a"}}}))
}

fn dropped() -> Event {
    event(json!({"apply": {"staging_discarded": {"apply": "a"}}}))
}

fn defined(n: u64) -> Event {
    defined_with(n, json!({}))
}

fn named(n: u64, name: &str) -> Event {
    defined_with(n, json!({"name": name}))
}

fn owned(n: u64, owner: &str) -> Event {
    defined_with(n, json!({"owner": owner}))
}

fn defined_with(n: u64, more: Value) -> Event {
    event(json!({"job": {"defined": {"definition": definition(n, more), "enabled": true}}}))
}

fn deleted(n: u64) -> Event {
    event(json!({"job": {"deleted": {"job": job_id(n)}}}))
}

fn cancelled(n: u64) -> Event {
    event(json!({"job": {"cancelled": {"job": job_id(n), "shard": 1, "by": {"app": "a"}}}}))
}
