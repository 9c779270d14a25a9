//! When batches are due, which parents' times they need, and how their templates read.
//!
//! Six questions are answered here, all of them pure functions of their arguments:
//!
//! - **When?** A [`Schedule`] is a [`Rule`] (a [`Period`] or a Quartz [`Cron`] expression) in a [`Zone`].
//!   [`Schedule::next_after`] names the next [`Fire`], [`Schedule::logical_at_or_before`] looks back.
//! - **On which of its days?** A [`Timetable`] is a schedule with its validity and the days of a calendar.
//! - **When does a task come again?** A [`Rotation`] is the grid of a rotating task ([`Rotation::next_at_or_after`]).
//! - **Who is on call?** [`OnCall`] is a rota at work ([`OnCall::at`]).
//! - **After what?** A [`Mapping`] turns a child's logical time into the parents' logical times
//!   ([`parent_times`]); [`check_mapping`] refuses at definition what could never work.
//! - **With which text?** A [`Template`] is parsed once and rendered for each batch.
//!
//! *Invariant:* nothing in this crate reads a clock, a file, the environment or a random number, and time-zone
//! data is the bundled copy, so that a replay on any machine gives the same answers.
//!
//! Start reading at [`Schedule`]. How an instant and a local clock relate is kept in `zone.rs` alone; the rules
//! for gaps and overlaps are in `cron/fire.rs` and `period.rs`.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

/// A value that is written as text: what `Display` writes is what `TryFrom` reads, also out of a document.
macro_rules! as_text {
    ($value:ident) => {
        impl TryFrom<String> for $value {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                Self::try_from(text.as_str())
            }
        }

        impl From<$value> for String {
            fn from(value: $value) -> String {
                value.to_string()
            }
        }
    };
}

mod cron;
mod days;
mod error;
mod mapping;
mod period;
mod rota;
mod rotation;
mod schedule;
mod template;
mod timetable;
mod zone;

pub use cron::Cron;
pub use days::{DayRule, Days, SHIFT_DAYS_MAX};
pub use error::Error;
pub use mapping::{
    MappingError, PARENT_TIMES_MAX, Quantifier, Required, check_mapping, parent_times, same_grid,
};
pub use rota::{Duty, OnCall, check_rota};
pub use rotation::{
    ROTATION_DAYS_MAX, ROTATION_MINUTES_MAX, Rotation, RotationDays, RotationMinutes, RotationTime,
};
pub use schedule::{Rule, Schedule};
pub use template::{JobField, Template, TemplateContext, TemplateError, TimeFormat};
pub use tidemill_model::{Fire, Mapping, Period};
pub use timetable::{Grid, Timetable};
pub use zone::{Zone, has_dst};
