//! Which of a parent's logical times a child's batch waits for (DEP-3).

use serde::{Deserialize, Serialize};
use tidemill_model::{Mapping, Timestamp};

use crate::timetable::{Grid, Timetable};
use crate::{Rule, Schedule};

/// The most logical times of one parent that one batch can wait for, and the furthest an offset reaches back.
pub const PARENT_TIMES_MAX: usize = 1_000;

/// The parent's logical times that a batch needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    /// Oldest first, at most [`PARENT_TIMES_MAX`].
    pub times: Vec<Timestamp>,
    /// Whether all of them must succeed or one is enough.
    pub quantifier: Quantifier,
}

/// How many of the required times must succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantifier {
    /// Each of them. With none required there is nothing to wait for.
    All,
    /// One of them. With none to choose from it can never hold.
    AnyOf,
}

/// Why a mapping gives no times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingError {
    /// *Same* between schedules that differ.
    #[error(
        "mapping 'same': the child's schedule ({child}) and the parent's ({parent}) differ; give both the same \
         rule and zone, or choose offset, all, latest or any"
    )]
    DifferentGrids {
        /// The child's rule and zone.
        child: String,
        /// The parent's rule and zone.
        parent: String,
    },
    /// An offset outside 1 to 1,000.
    #[error("mapping 'offset': {value} is out of range; write 1 to {PARENT_TIMES_MAX} periods back")]
    OffsetOutOfRange {
        /// The offset as given.
        value: u16,
    },
    /// More parent times than a batch may wait for.
    #[error(
        "mapping '{mapping}': more than {PARENT_TIMES_MAX} of the parent's logical times ({parent}) fall into \
         one period of the child ({child}); choose latest, or put a job between them"
    )]
    TooManyTimes {
        /// The mapping.
        mapping: Mapping,
        /// The child's rule and zone.
        child: String,
        /// The parent's rule and zone.
        parent: String,
    },
    /// A schedule has no logical time where the mapping looks for one.
    #[error("mapping '{mapping}': {schedule} has no logical time before {before}")]
    NoEarlierTime {
        /// The mapping.
        mapping: Mapping,
        /// The rule and zone that ran out.
        schedule: String,
        /// Where the search began.
        before: Timestamp,
    },
}

impl Required {
    /// Whether no success can ever meet it: one of no times.
    pub fn is_impossible(&self) -> bool {
        self.quantifier == Quantifier::AnyOf && self.times.is_empty()
    }

    fn all(times: Vec<Timestamp>) -> Required {
        Required { times, quantifier: Quantifier::All }
    }
}

/// Whether two grids have the same logical times: the same rule, however written, on clocks that agree, and the
/// same of it left out.
pub fn same_grid(a: &impl Grid, b: &impl Grid) -> bool {
    let (a, b) = (a.timetable(), b.timetable());
    same_schedule(a.schedule(), b.schedule()) && a.bounds_like(&b)
}

fn same_schedule(a: &Schedule, b: &Schedule) -> bool {
    let same_rule = match (&a.rule, &b.rule) {
        (Rule::Period(a), Rule::Period(b)) => a == b,
        (Rule::Cron(a), Rule::Cron(b)) => a.fires_like(b),
        (Rule::Period(_), Rule::Cron(_)) | (Rule::Cron(_), Rule::Period(_)) => false,
    };
    same_rule && a.zone.agrees_with(&b.zone)
}

/// Refuses, when a dependency is defined, a mapping that cannot work between the two grids.
///
/// *Same* needs a parent that has all of the child's logical times. *All* and *any* are tried on the child's first
/// three periods of 2025, so that a parent that is far too fine is refused here and not at each batch.
pub fn check_mapping(child: &impl Grid, parent: &impl Grid, mapping: Mapping) -> Result<(), MappingError> {
    let new_year_2025 = Timestamp::from_second(1_735_689_600).expect("2025-01-01 is in range");
    let (child, parent) = (&*child.timetable(), &*parent.timetable());
    match mapping {
        Mapping::Same => check_same(child, parent),
        Mapping::Offset(back) => check_offset(back),
        Mapping::Latest => Ok(()),
        Mapping::All | Mapping::Any => {
            let first = child.logical_after(new_year_2025);
            let periods = std::iter::successors(first, |time| child.logical_after(*time));
            for (time, next) in periods.clone().zip(periods.skip(1)).take(3) {
                times_between(child, parent, mapping, time, next)?;
            }
            Ok(())
        }
    }
}

/// The parent's logical times that the child's batch for `child_logical` needs.
pub fn parent_times(
    child: &impl Grid,
    parent: &impl Grid,
    mapping: Mapping,
    child_logical: Timestamp,
) -> Result<Required, MappingError> {
    let (child, parent) = (&*child.timetable(), &*parent.timetable());
    let newest = || {
        parent
            .logical_at_or_before(child_logical)
            .ok_or_else(|| no_earlier_time(mapping, parent, child_logical))
    };
    let interval = || {
        let previous = child
            .logical_before(child_logical)
            .ok_or_else(|| no_earlier_time(mapping, child, child_logical))?;
        times_between(child, parent, mapping, previous, child_logical)
    };
    match mapping {
        Mapping::Same => {
            check_same(child, parent)?;
            Ok(Required::all(vec![child_logical]))
        }
        Mapping::Offset(back) => {
            check_offset(back)?;
            let mut time = newest()?;
            for _ in 0..back {
                time = parent.logical_before(time).ok_or_else(|| no_earlier_time(mapping, parent, time))?;
            }
            Ok(Required::all(vec![time]))
        }
        Mapping::All => Ok(Required::all(interval()?)),
        Mapping::Latest => Ok(Required::all(vec![newest()?])),
        Mapping::Any => Ok(Required { times: interval()?, quantifier: Quantifier::AnyOf }),
    }
}

fn check_offset(back: u16) -> Result<(), MappingError> {
    if (1..=PARENT_TIMES_MAX).contains(&usize::from(back)) {
        return Ok(());
    }
    Err(MappingError::OffsetOutOfRange { value: back })
}

fn check_same(child: &Timetable, parent: &Timetable) -> Result<(), MappingError> {
    let has_all = parent.is_whole() || parent.bounds_like(child);
    if has_all && same_schedule(child.schedule(), parent.schedule()) {
        return Ok(());
    }
    Err(MappingError::DifferentGrids { child: child.to_string(), parent: parent.to_string() })
}

/// The parent's logical times in (`after`, `until`].
fn times_between(
    child: &Timetable,
    parent: &Timetable,
    mapping: Mapping,
    after: Timestamp,
    until: Timestamp,
) -> Result<Vec<Timestamp>, MappingError> {
    let times: Vec<Timestamp> =
        std::iter::successors(parent.logical_after(after), |time| parent.logical_after(*time))
            .take_while(|time| *time <= until)
            .take(PARENT_TIMES_MAX + 1)
            .collect();
    if times.len() > PARENT_TIMES_MAX {
        let (child, parent) = (child.to_string(), parent.to_string());
        return Err(MappingError::TooManyTimes { mapping, child, parent });
    }
    Ok(times)
}

fn no_earlier_time(mapping: Mapping, grid: &Timetable, before: Timestamp) -> MappingError {
    MappingError::NoEarlierTime { mapping, schedule: grid.to_string(), before }
}
