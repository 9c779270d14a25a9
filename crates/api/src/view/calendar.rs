use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Calendar, CalendarSpec, Timestamp};
use tidemill_store::rows::{CalendarRow, CalendarVersionRow};

use super::{CalendarVersionView, time};
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

/// The calendar that a row holds.
pub(crate) fn calendar_of(row: &CalendarRow) -> Result<Calendar, Problem> {
    let spec = spec_of(&row.name, &row.definition)?;
    Ok(Calendar { version: u32::try_from(row.version).unwrap_or(u32::MAX), spec })
}
