//! Which of a parent's logical times a child's batch waits for (DEP-3).

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Rule, Schedule};

/// The most logical times of one parent that one batch can wait for, and the furthest an offset reaches back.
pub const PARENT_TIMES_MAX: usize = 1_000;

/// How a child's logical time t maps onto its parent's logical times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// The parent's batch for t; both schedules must be the same.
    Same,
    /// The parent's n-th logical time before its newest one that is not after t.
    Offset(PeriodsBack),
    /// Every logical time of the parent in (the child's previous, t].
    All,
    /// The parent's newest logical time that is not after t.
    Latest,
    /// At least one logical time of the parent in (the child's previous, t].
    Any,
}

/// How many periods an offset goes back: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "i32", into = "i32")]
pub struct PeriodsBack(u16);

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
        value: i32,
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

/// Whether two schedules have the same logical times: the same rule, however written, on clocks that agree.
pub fn same_grid(a: &Schedule, b: &Schedule) -> bool {
    let same_rule = match (&a.rule, &b.rule) {
        (Rule::Period(a), Rule::Period(b)) => a == b,
        (Rule::Cron(a), Rule::Cron(b)) => a.fires_like(b),
        (Rule::Period(_), Rule::Cron(_)) | (Rule::Cron(_), Rule::Period(_)) => false,
    };
    same_rule && a.zone.agrees_with(&b.zone)
}

/// Refuses, when a dependency is defined, a mapping that cannot work between the two schedules.
///
/// *Same* needs equal grids. *All* and *any* are tried on the child's first three periods of 2025, so that a
/// parent that is far too fine is refused here and not at each batch.
pub fn check_mapping(child: &Schedule, parent: &Schedule, mapping: Mapping) -> Result<(), MappingError> {
    let new_year_2025 = Timestamp::from_second(1_735_689_600).expect("2025-01-01 is in range");
    match mapping {
        Mapping::Same => check_same(child, parent),
        Mapping::Offset(_) | Mapping::Latest => Ok(()),
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
    child: &Schedule,
    parent: &Schedule,
    mapping: Mapping,
    child_logical: Timestamp,
) -> Result<Required, MappingError> {
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
            let mut time = newest()?;
            for _ in 0..back.0 {
                time = parent.logical_before(time).ok_or_else(|| no_earlier_time(mapping, parent, time))?;
            }
            Ok(Required::all(vec![time]))
        }
        Mapping::All => Ok(Required::all(interval()?)),
        Mapping::Latest => Ok(Required::all(vec![newest()?])),
        Mapping::Any => Ok(Required { times: interval()?, quantifier: Quantifier::AnyOf }),
    }
}

fn check_same(child: &Schedule, parent: &Schedule) -> Result<(), MappingError> {
    if same_grid(child, parent) {
        return Ok(());
    }
    Err(MappingError::DifferentGrids { child: child.to_string(), parent: parent.to_string() })
}

/// The parent's logical times in (`after`, `until`].
fn times_between(
    child: &Schedule,
    parent: &Schedule,
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

fn no_earlier_time(mapping: Mapping, schedule: &Schedule, before: Timestamp) -> MappingError {
    MappingError::NoEarlierTime { mapping, schedule: schedule.to_string(), before }
}

impl PeriodsBack {
    /// The number of periods.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<i32> for PeriodsBack {
    type Error = MappingError;

    fn try_from(value: i32) -> Result<PeriodsBack, MappingError> {
        match u16::try_from(value) {
            Ok(periods) if (1..=PARENT_TIMES_MAX).contains(&usize::from(periods)) => Ok(PeriodsBack(periods)),
            Ok(_) | Err(_) => Err(MappingError::OffsetOutOfRange { value }),
        }
    }
}

impl From<PeriodsBack> for i32 {
    fn from(back: PeriodsBack) -> i32 {
        back.0.into()
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mapping::Same => f.write_str("same"),
            Mapping::Offset(back) => write!(f, "offset {}", back.0),
            Mapping::All => f.write_str("all"),
            Mapping::Latest => f.write_str("latest"),
            Mapping::Any => f.write_str("any"),
        }
    }
}
