//! A history with a bug in it, from its seed to those who notice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_planted::Bug;

use super::{SEEN_FROM_OUTSIDE, projected};
use crate::happening::Happening;
use crate::host::text_of;
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
    let panic = lived.err().map(|panic| text_of(&*panic));
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
