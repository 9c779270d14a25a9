//! What an attempt may use (EXE-2), and what it used (EXE-7).
//!
//! ```text
//! worker, once   find     where control groups can be had, and for which limits
//! worker, each   resolve  what the job, its type and its group say → the limits of the attempt
//! shim           guard    makes the group, lets the job's first process into it, looks once a second, reads what
//!                         came of it, removes the group
//!                  ├ group  the files of a control group
//!                  └ meter  the processes of the tree, by /proc
//! ```
//! The shim itself is never in the group. A job without limits has none, and is looked at seldom: that costs its start nothing.

mod find;
mod group;
mod guard;
mod meter;

pub(crate) use find::Found;
use serde::{Deserialize, Serialize};
use tidemill_model::{GroupLimits, LimitMeans, Limits, LimitsKept};

pub use group::{Place, Tree, Version};
pub(crate) use group::{leave, members, remove, sweep};
pub(crate) use guard::{Guard, protect_shim};
pub(crate) use meter::used;

/// The limits of an attempt, as its shim gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimLimits {
    /// The limits.
    pub limits: Limits,
    /// Where a group of the attempt may be made.
    #[serde(default)]
    pub tree: Tree,
}

/// The narrowest that says something counts: the job, the type, the group's default, its maximum. None is above the maximum.
pub(crate) fn resolve(of_job: &Limits, of_type: &Limits, of_group: &GroupLimits) -> Limits {
    Limits::from_each(|kind| {
        let most = of_group.max.of(kind);
        let said = [of_job.of(kind), of_type.of(kind), of_group.default.of(kind), most];
        let said = said.into_iter().flatten().next()?;
        Some(most.map_or(said, |most| said.min(most)))
    })
}

impl Tree {
    /// How the limits are kept that not every system can keep.
    pub(crate) fn kept(&self) -> LimitsKept {
        let by = |place: &Option<Place>, otherwise| match place {
            Some(_) => LimitMeans::ControlGroup,
            None => otherwise,
        };
        LimitsKept {
            memory: by(&self.memory, LimitMeans::Looks),
            cpu: by(&self.cpu, LimitMeans::Nothing),
            processes: by(&self.processes, LimitMeans::Looks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXE-2: the job before the type before the group, and nothing above the group's maximum.
    #[test]
    fn the_narrowest_limit_counts_and_none_is_above_the_maximum() {
        let memory = |memory_mb| Limits { memory_mb, ..Limits::default() };
        let table = [
            (Some(1), Some(2), Some(3), None, Some(1)),
            (None, Some(2), Some(3), None, Some(2)),
            (None, None, Some(3), None, Some(3)),
            (None, None, None, None, None),
            (None, None, None, Some(4), Some(4)),
            (Some(9), None, None, Some(4), Some(4)),
            (None, Some(9), Some(1), Some(4), Some(4)),
            (Some(1), Some(9), Some(9), Some(4), Some(1)),
        ];
        for (job, of_type, default, max, expected) in table {
            let group = GroupLimits { default: memory(default), max: memory(max) };
            let resolved = resolve(&memory(job), &memory(of_type), &group);
            assert_eq!(resolved, memory(expected), "{job:?} {of_type:?} {default:?} {max:?}");
        }
    }
}
