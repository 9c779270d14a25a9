//! Operations on many batches or jobs.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, event};

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::BulkItemsDecidedOnce;
    let whole = || of([requested(1, json!([1, 2])), advanced(1, &[1], false), advanced(1, &[2], true)]);
    vec![
        case(
            rule,
            "an item has two outcomes",
            whole(),
            of([requested(1, json!([1, 2])), advanced(1, &[1], false), advanced(1, &[1, 2], true)]),
        ),
        case(
            rule,
            "an operation ends before its last item",
            whole(),
            of([requested(1, json!([1, 2])), advanced(1, &[1], true)]),
        ),
        case(
            rule,
            "an operation goes on after its last item",
            whole(),
            of([requested(1, json!([1, 2])), advanced(1, &[1, 2], false)]),
        ),
        case(
            rule,
            "an item of another operation",
            whole(),
            of([requested(1, json!([1])), advanced(1, &[1, 7], true)]),
        ),
        case(rule, "an item stands twice", whole(), of([requested(1, json!([1, 1]))])),
        case(rule, "an id is given twice", whole(), of([requested(1, json!([1])), requested(1, json!([2]))])),
    ]
}

fn of<const N: usize>(events: [Event; N]) -> History {
    History::new().on(0, 0).command(events)
}

fn requested(n: i64, items: Value) -> Event {
    event(json!({"bulk": {"requested": {
        "bulk": n << 12, "action": "kill", "items": items, "reason": "so", "by": {"app": "a"},
    }}}))
}

fn advanced(n: i64, items: &[i64], ended: bool) -> Event {
    let outcomes: Vec<Value> = items.iter().map(|item| json!({"item": item})).collect();
    event(json!({"bulk": {"advanced": {"bulk": n << 12, "outcomes": outcomes, "ended": ended}}}))
}
