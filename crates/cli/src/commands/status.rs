//! `tidemill status`, and the clocks of partitions.

use serde_json::{Value, json};
use tidemill_model::Timestamp;

use super::{Session, write};
use crate::exit::Exit;
use crate::failure::Done;
use crate::render;

const PARTITIONS: &str =
    "partition, owner, epoch, journal_end, projected, LAG: lag_records, lag_ms, VOID: void_records";

const SINKS: &str = "sink, partition, stored, LAG: lag_records, changes, noted_at, error";

/// Each partition of each sink, where there is any.
fn sinks(answer: &Value) -> String {
    let mut rows = Vec::new();
    for sink in answer["sinks"].as_array().into_iter().flatten() {
        for partition in sink["partitions"].as_array().into_iter().flatten() {
            let mut row = partition.clone();
            row["sink"] = sink["sink"].clone();
            rows.push(row);
        }
    }
    format!("\n\n{}", render::items(&rows.into(), SINKS, "No sinks."))
}

pub(super) fn run(session: &Session<'_>) -> Done<Exit> {
    let answer = session.server.get("/api/status", &[])?;
    Ok(session.show(&answer, |answer| {
        let rest = render::fields(answer, &["partitions", "sinks"]);
        let sinks = answer["sinks"].as_array().map(|_| sinks(answer)).unwrap_or_default();
        format!("{rest}\n{}{sinks}", render::items(&answer["partitions"], PARTITIONS, "No partitions."))
    }))
}

pub(super) fn set_time(session: &Session<'_>, partition: u32, at: Timestamp) -> Done<Exit> {
    let path = format!("/api/admin/partitions/{partition}/set-time");
    let done = format!("Partition {partition} goes on at {at}.");
    write::post(session, &path, Some(&json!({ "at": at })), done)
}
