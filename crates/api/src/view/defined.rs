//! What administrators define by name: calendars and pools.

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Calendar, CalendarSpec, GroupName, PoolName, PoolSpec, Rate, Timestamp};
use tidemill_store::rows::{CalendarRow, CalendarVersionRow, PoolRow};

use super::{CalendarVersionView, View, time};
use crate::Problem;

/// A calendar with its days.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CalendarDetail {
    /// Numbers its content; every change of any calendar gets the next one.
    pub(crate) version: i64,
    /// When it was last changed.
    pub(crate) changed_at: Timestamp,
    /// As it could have been written.
    pub(crate) calendar: CalendarSpec,
}

impl CalendarDetail {
    pub(crate) fn of(row: &CalendarRow) -> Result<Self, Problem> {
        let calendar = calendar_of(row)?.spec;
        Ok(Self { version: row.version, changed_at: time(row.changed_at), calendar })
    }
}

/// A version of a calendar with its days.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CalendarVersionDetail {
    #[serde(flatten)]
    pub(crate) version: CalendarVersionView,
    /// As it could have been written.
    pub(crate) calendar: CalendarSpec,
}

impl CalendarVersionDetail {
    pub(crate) fn of(row: CalendarVersionRow) -> Result<Self, Problem> {
        let calendar = spec_of(&row.name, &row.definition)?;
        Ok(Self { version: CalendarVersionView::from(row), calendar })
    }
}

fn spec_of(name: &str, definition: &str) -> Result<CalendarSpec, Problem> {
    serde_json::from_str(definition).map_err(|error| {
        tracing::error!(calendar = %name, %error, "the definition in the row of a calendar cannot be read");
        Problem::internal("the definition of the calendar cannot be read")
    })
}

pub(crate) fn calendar_of(row: &CalendarRow) -> Result<Calendar, Problem> {
    let spec = spec_of(&row.name, &row.definition)?;
    Ok(Calendar { version: u32::try_from(row.version).unwrap_or(u32::MAX), spec })
}

/// A pool, of which batches take slots while they are assigned or run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PoolView {
    #[serde(flatten)]
    pub(crate) row: View<PoolRow>,
    /// How often batches may start; null: as often as there is room.
    pub(crate) rate: Option<Rate>,
}

fn number(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn rate_of(row: &PoolRow) -> Option<Rate> {
    let (starts, interval_s) = row.rate_starts.zip(row.rate_interval_s)?;
    Some(Rate { starts: number(starts), interval_s: number(interval_s) })
}

impl From<PoolRow> for PoolView {
    fn from(row: PoolRow) -> Self {
        Self { rate: rate_of(&row), row: View(row) }
    }
}

/// A pool with those that have slots of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PoolDetail {
    /// Numbers its content; every change of any pool gets the next one.
    pub(crate) version: i64,
    /// When it was last changed.
    pub(crate) changed_at: Timestamp,
    /// As it could have been written.
    pub(crate) pool: PoolSpec,
    /// Slots that are taken now; null: the owner could not be asked.
    pub(crate) used: Option<u64>,
    /// By group, those with most slots first.
    pub(crate) groups: Vec<GroupShare>,
    /// Batches of the groups that the key reaches.
    pub(crate) holders: Vec<HolderView>,
}

/// Slots that a group has.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GroupShare {
    /// The group.
    pub(crate) group: GroupName,
    /// So many.
    pub(crate) slots: u64,
}

/// Slots that a batch has.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HolderView {
    /// The batch.
    pub(crate) batch: i64,
    /// Its job.
    pub(crate) job: Option<i64>,
    /// Its group.
    pub(crate) group: GroupName,
    /// So many.
    pub(crate) slots: u64,
}

/// The pool that a row holds, as it could have been written.
pub(crate) fn pool_of(row: &PoolRow) -> Result<PoolSpec, Problem> {
    let unreadable = |error: &dyn std::fmt::Display| {
        tracing::error!(pool = %row.name, %error, "the row of a pool cannot be read");
        Problem::internal("the row of the pool cannot be read")
    };
    let group = row.group_name.as_deref().map(GroupName::try_from).transpose();
    Ok(PoolSpec {
        name: PoolName::try_from(row.name.as_ref()).map_err(|error| unreadable(&error))?,
        slots: number(row.slots),
        rate: rate_of(row),
        group: group.map_err(|error| unreadable(&error))?,
        comment: row.comment.to_string(),
    })
}
