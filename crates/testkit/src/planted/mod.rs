//! Histories with a bug in them, and who notices: the checker, over what the history left on record, or those
//! who look from outside. Assertions and panics of the product do not count.

mod expected;
mod projected;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_planted::Bug;

pub use expected::{EXPECTED, Expected};

use crate::happening::Happening;
use crate::plan::{Fault, Planned};
use crate::world::World;

/// How many faults of a kind a history gets in addition, where that is asked for.
const MORE: u64 = 8;

/// What a history showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The rules that it breaks: name, and the first place.
    pub broken: Vec<(String, String)>,
    /// A panic of the product, which ended the history.
    pub panic: Option<String>,
}

/// What is seen from outside, where a bug leaves no trace on record: the beginning of what the simulator says,
/// the rule's name.
const SEEN_FROM_OUTSIDE: &[(&str, &str, &str)] = &[
    ("two live processes of batch", "one_process_per_batch", "No batch ever has two live processes."),
    ("two live runs of job", "one_process_per_run", "No logical time of a job ever has two live processes."),
    (
        "after its end is on record",
        "nothing_runs_after_its_end",
        "Nothing of an attempt runs once its end is on record.",
    ),
    ("was answered", "answers_agree", "Everybody is answered what is on record, once."),
    ("holds another state", "state_is_the_fold", "An owner's state is the fold of its journal."),
    (
        "the tables are not the fold",
        "projection_is_the_fold",
        "The read tables are the fold of the journal at their position, whatever broke off a write.",
    ),
];

/// The sentence of a rule, whoever watches it.
#[must_use]
pub fn sentence(rule: &str) -> Option<String> {
    let checked = tidemill_checker::Invariant::ALL.iter().find(|known| known.name() == rule);
    let seen = SEEN_FROM_OUTSIDE.iter().find(|(_, name, _)| *name == rule);
    checked.map(|known| known.sentence().to_owned()).or(seen.map(|(_, _, sentence)| (*sentence).to_owned()))
}

/// Whether the checker watches this rule; else the simulator does.
#[must_use]
pub fn is_checked(rule: &str) -> bool {
    tidemill_checker::Invariant::ALL.iter().any(|known| known.name() == rule)
}

/// Switches a bug on, or all of them off, in the whole process.
pub fn plant(bug: Option<Bug>) {
    tidemill_planted::choose(bug);
}

/// Runs the history of a seed to its end, whatever goes wrong, and asks who notices. `more`: these faults come
/// more often than their share. `with_tables`: the journals are projected as well.
#[must_use]
pub fn judge(seed: u64, more: &[Fault], with_tables: bool) -> Verdict {
    tidemill_planted::forget();
    let mut world = World::new(seed);
    world.noted = Some(Vec::new());
    let times = (1..=MORE).map(|number| world.plan.end * number / (MORE + 1));
    let added: Vec<(u64, Fault)> = times.flat_map(|at| more.iter().map(move |fault| (at, *fault))).collect();
    for (index, (at, fault)) in (2_000..).zip(added) {
        world.at(at, Happening::Fault { fault: Planned { index, fault, at } });
    }
    let lived = catch_unwind(AssertUnwindSafe(|| {
        world.live();
        world.compare();
    }));
    let panic = lived.err().map(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".to_owned())
    });
    let mut noted = world.noted.take().unwrap_or_default();
    // What never came to rest is not held to what holds at rest.
    let at_rest = panic.is_none() && !noted.iter().any(|what| what.contains("not within"));
    let report = world.checked(at_rest);
    if with_tables && let Err(difference) = projected::differs(seed, &world.journal) {
        noted.push(format!("the tables are not the fold: {difference}"));
    }
    let mut broken: Vec<(String, String)> = Vec::new();
    let checked = report.violations.iter().map(|it| (it.invariant.to_owned(), it.to_string()));
    let seen = noted.into_iter().filter_map(|what| {
        let known = SEEN_FROM_OUTSIDE.iter().find(|(text, _, _)| what.contains(text));
        known.map(|(_, name, _)| ((*name).to_owned(), what))
    });
    for (rule, what) in checked.chain(seen) {
        if !broken.iter().any(|(known, _)| *known == rule) {
            broken.push((rule, what));
        }
    }
    Verdict { broken, panic }
}
