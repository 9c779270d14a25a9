//! What can be wrong with a schedule, a mapping or a template.

use serde::{Deserialize, Serialize};

use crate::{MappingError, TemplateError};

/// Why a value was refused: the field, the value, the rule it broke, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// The name is not in the bundled time-zone data.
    #[error("zone: '{value}' is not an IANA time zone; write a name such as 'Europe/Berlin' or 'UTC'")]
    UnknownZone {
        /// The name as given.
        value: String,
    },
    /// A calendar is not known where its days are asked for.
    #[error("calendar: there is no calendar '{name}'; define it first")]
    UnknownCalendar {
        /// Its name.
        name: String,
    },
    /// A cron expression does not have six or seven fields.
    #[error(
        "cron: '{expression}' has {found} fields, it needs 6 or 7: second, minute, hour, day of month, month, \
         day of week, and optionally year"
    )]
    CronFieldCount {
        /// The expression as given.
        expression: String,
        /// How many fields it has.
        found: usize,
    },
    /// One field of a cron expression breaks a rule.
    #[error("cron: {field} '{value}' in '{expression}': {rule}")]
    CronField {
        /// The expression as given.
        expression: String,
        /// The field's name, such as `day of week`.
        field: String,
        /// The part of the field that is wrong.
        value: String,
        /// The rule it breaks.
        rule: String,
    },
    /// The fields of a cron expression are valid, but no date has all of them.
    #[error("cron: '{expression}' never fires: no date from 1970 to 2199 matches; check day, month and year")]
    CronNeverFires {
        /// The expression as given.
        expression: String,
    },
    /// A rotating task comes again too soon or too late.
    #[error("rotation: {field} {value} must be 1 to {max}, from one occurrence to the next")]
    RotationSpace {
        /// `minutes` or `days`.
        field: String,
        /// The number as given.
        value: u32,
        /// The largest.
        max: u32,
    },
    /// The time of day of a rotating task is not one.
    #[error("rotation: at '{value}' must be HH:MM, 00:00 to 23:59")]
    RotationTime {
        /// The text as given.
        value: String,
    },
    /// The mapping between a child and a parent cannot be used.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A template cannot be parsed or rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
}
