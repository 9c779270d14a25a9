use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Calendar, CalendarSpec, Timestamp};
use tidemill_store::rows::{CalendarRow, CalendarVersionRow, SkippedRunsRow};

use super::{string, time};
use crate::Problem;

/// A calendar, without its days.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CalendarView {
    /// Its name.
    pub(crate) name: String,
    /// Numbers its content; every change of any calendar gets the next one.
    pub(crate) version: i64,
    /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
    pub(crate) zone: Option<String>,
    /// Free text.
    pub(crate) comment: String,
    /// How many dates differ from its weekly pattern.
    pub(crate) date_count: i64,
    /// When it was last changed.
    pub(crate) changed_at: Timestamp,
}

impl From<CalendarRow> for CalendarView {
    fn from(row: CalendarRow) -> Self {
        Self {
            name: row.name.to_string(),
            version: row.version,
            zone: string(row.time_zone),
            comment: row.comment.to_string(),
            date_count: row.dates,
            changed_at: time(row.changed_at),
        }
    }
}

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

/// A version of a calendar, without its days.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CalendarVersionView {
    /// Numbers its content; every change of any calendar gets the next one.
    pub(crate) version: i64,
    /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
    pub(crate) zone: Option<String>,
    /// Free text.
    pub(crate) comment: String,
    /// How many dates differ from its weekly pattern.
    pub(crate) date_count: i64,
    /// When it was accepted.
    pub(crate) defined_at: Timestamp,
    /// Who defined it: application, or application/person; null: that is not on record.
    pub(crate) defined_by: Option<String>,
}

impl From<CalendarVersionRow> for CalendarVersionView {
    fn from(row: CalendarVersionRow) -> Self {
        Self {
            version: row.version,
            zone: string(row.time_zone),
            comment: row.comment.to_string(),
            date_count: row.dates,
            defined_at: time(row.defined_at),
            defined_by: string(row.defined_by),
        }
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

/// The calendar that a row holds.
pub(crate) fn calendar_of(row: &CalendarRow) -> Result<Calendar, Problem> {
    let spec = spec_of(&row.name, &row.definition)?;
    Ok(Calendar { version: u32::try_from(row.version).unwrap_or(u32::MAX), spec })
}

/// Fires that made no batch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkippedRunsView {
    /// The first one's logical time.
    pub(crate) from: Timestamp,
    /// The last one's.
    pub(crate) to: Timestamp,
    /// How many.
    pub(crate) count: i64,
    /// `policy`, `too_old`, `too_many`, `run_by_hand`, `too_late`, `overlap` or `calendar`.
    pub(crate) reason: String,
    /// When that was recorded.
    pub(crate) skipped_at: Timestamp,
}

impl From<SkippedRunsRow> for SkippedRunsView {
    fn from(row: SkippedRunsRow) -> Self {
        Self {
            from: time(row.from_time),
            to: time(row.to_time),
            count: row.fires,
            reason: row.reason.to_string(),
            skipped_at: time(row.skipped_at),
        }
    }
}
