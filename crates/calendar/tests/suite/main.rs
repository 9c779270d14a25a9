//! Tests of the calendar through its public surface.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod corpus;
mod cron_days;
mod gaps_and_overlaps;
mod mapping_tables;
mod mappings;
mod oracle;
mod properties;
mod rotas;
mod rotations;
mod serde_forms;
mod templates;
mod timetables;

use std::fmt::Write;

use tidemill_calendar::{Cron, Fire, Period, Rule, Schedule, Zone};
use tidemill_model::Timestamp;

/// An instant from RFC 3339.
fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn zone(name: &str) -> Zone {
    Zone::try_from(name).unwrap()
}

fn every(period: Period, zone_name: &str) -> Schedule {
    Schedule { rule: Rule::Period(period), zone: zone(zone_name) }
}

fn cron(expression: &str, zone_name: &str) -> Schedule {
    Schedule { rule: Rule::Cron(Cron::try_from(expression).unwrap()), zone: zone(zone_name) }
}

/// Local time with offset.
fn local(zone: &Zone, time: Timestamp) -> String {
    let zoned = time.to_zoned(zone.time_zone().clone());
    zoned.strftime("%a %Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// One line for each fire: its logical time, and how much later it is due.
fn table(schedule: &Schedule, fires: impl IntoIterator<Item = Fire>) -> String {
    fires.into_iter().fold(String::new(), |mut out, fire| {
        let delay = fire.at.duration_since(fire.logical_time).as_secs();
        let delay = if delay == 0 { String::new() } else { format!(" +{delay}s") };
        writeln!(out, "{}{delay}", local(&schedule.zone, fire.logical_time)).unwrap();
        out
    })
}
