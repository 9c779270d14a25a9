//! Deletions of jobs.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, job_id};

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
    ]
}

/// An envelope of the catalogue.
fn of<const N: usize>(events: [Event; N]) -> History {
    History::new().on(0, 0).command(events)
}

fn defined() -> Event {
    event(json!({"job_defined": {"definition": definition(1, json!({})), "enabled": true}}))
}

fn asked() -> Event {
    let removal = json!({"delete": {"job": job_id(1)}});
    event(json!({"unfinished_asked": {"question": 1, "removal": removal, "jobs": [job_id(1)]}}))
}

fn heard(unfinished: &[u64]) -> Event {
    let unfinished = unfinished.iter().map(|n| json!({"job": job_id(*n), "batches": 1, "newest": 4_097}));
    let unfinished: Vec<_> = unfinished.collect();
    event(json!({"unfinished_heard": {"question": 1, "from": 1, "jobs": unfinished}}))
}

fn deleted() -> Event {
    event(json!({"job_deleted": {"job": job_id(1)}}))
}

fn cancelled() -> Event {
    event(json!({"job_cancelled": {"job": job_id(1), "shard": 1, "by": {"app": "a"}}}))
}

fn decided(answer: &str) -> Event {
    event(json!({"removal_decided": {"question": 1, "outcome": {"answered": answer}}}))
}

fn refused() -> Event {
    let rejection = json!({"job_in_use": {"job": "g/j1", "reason": "it has unfinished batches"}});
    event(json!({"removal_decided": {"question": 1, "outcome": {"refused": rejection}}}))
}
