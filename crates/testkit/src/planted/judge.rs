//! A history with a bug in it, from its seed to those who notice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use tidemill_planted::Bug;

use super::{Expected, SEEN_FROM_OUTSIDE, Stage, projected};
use crate::happening::Happening;
use crate::host::text_of;
use crate::plan::{Fault, Mask, Mode, Plan, Planned};
use crate::power_cut::{Trace, cut};
use crate::world::World;

/// How many faults of a kind a history gets in addition, where that is asked for.
const MORE: u64 = 8;
/// Moments at which the power is cut in a history.
const CUTS: usize = 300;

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

/// Runs the history of a seed to its end, whatever goes wrong, and asks who notices.
#[must_use]
pub fn judge(seed: u64, expected: &Expected) -> Verdict {
    tidemill_planted::forget();
    match expected.stage {
        Stage::Simulated | Stage::Projected | Stage::Restored => {
            simulated(seed, expected.more, expected.stage)
        }
        Stage::PowerCut => power_cut(seed),
    }
}

/// Of this program, as the writer.
fn power_cut(seed: u64) -> Verdict {
    let bug = Bug::ALL.iter().find(|bug| tidemill_planted::is(**bug)).map_or("none", |bug| bug.name());
    let writer = |directory: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap_or_default());
        command.arg("--writer").arg(directory).args([&seed.to_string(), bug]);
        command
    };
    match Trace::record(seed, writer) {
        Ok(trace) => {
            let lost = cut(&trace, seed, CUTS).err();
            Verdict { broken: named(lost.map(|what| format!("a power cut: {what}"))), panic: None }
        }
        Err(error) => Verdict { broken: Vec::new(), panic: Some(error) },
    }
}

fn simulated(seed: u64, more: &[Fault], stage: Stage) -> Verdict {
    let mut world = match stage {
        Stage::Restored => World::of(Plan::new(seed, Mode::Restored, &Mask::default()), false),
        Stage::Simulated | Stage::Projected | Stage::PowerCut => World::new(seed),
    };
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
    let comes_to_rest = stage != Stage::Restored;
    let at_rest = comes_to_rest && panic.is_none() && !noted.iter().any(|what| what.contains("not within"));
    let report = world.checked(at_rest);
    if stage == Stage::Projected
        && let Err(difference) = projected::differs(seed, &world.journal)
    {
        noted.push(format!("the tables are not the fold: {difference}"));
    }
    let mut broken: Vec<(String, String)> = Vec::new();
    let checked = report.violations.iter().map(|it| (it.invariant.to_owned(), it.to_string()));
    for (rule, what) in checked.chain(named(noted)) {
        if !broken.iter().any(|(known, _)| *known == rule) {
            broken.push((rule, what));
        }
    }
    Verdict { broken, panic }
}

/// With the rule that each breaks.
fn named(noted: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let named = noted.into_iter().filter_map(|what| {
        let known = SEEN_FROM_OUTSIDE.iter().find(|(text, _, _)| what.contains(text));
        known.map(|(_, name, _)| ((*name).to_owned(), what))
    });
    named.collect()
}
