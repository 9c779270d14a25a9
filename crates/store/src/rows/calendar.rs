//! Calendars, as the catalogue has them.

use std::sync::Arc;

use crate::Kind::{Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A calendar that jobs can keep to. Gone when it is removed.
    CalendarRow in "calendars", key (name: Arc<str>),
    fixed (), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64),
        /// Numbers its content; every change of any calendar gets the next one.
        version: i64 = Int,
        /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
        time_zone: Option<Arc<str>> = Text => As("zone"),
        /// Free text.
        comment: Arc<str> = Text,
        /// How many dates differ from its weekly pattern.
        dates: i64 = Int => As("date_count"),
        /// The whole calendar as written.
        definition: Arc<str> = Json => Hidden,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}

row! {
    /// A version of a calendar, in use or not. Batches name the version that they were generated with.
    CalendarVersionRow in "calendar_versions", key (name: Arc<str>, version: i64),
    fixed (time_zone, comment, dates, definition, defined_at, defined_by), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64) => Hidden,
        /// Numbers its content; every change of any calendar gets the next one.
        version: i64 = Int,
        /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
        time_zone: Option<Arc<str>> = Text => As("zone"),
        /// Free text.
        comment: Arc<str> = Text,
        /// How many dates differ from its weekly pattern.
        dates: i64 = Int => As("date_count"),
        /// The whole calendar as written.
        definition: Arc<str> = Json => Hidden,
        /// When it was accepted.
        defined_at: i64 = Time,
        /// Who defined it: application, or application/person; null: that is not on record.
        defined_by: Option<Arc<str>> = Text,
    }
}
