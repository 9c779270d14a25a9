//! `tidemill status`, and the clocks of partitions.

use serde_json::{Value, json};
use tidemill_model::Timestamp;

use super::Session;
use crate::exit::Exit;
use crate::failure::Done;
use crate::render::{self, Column};

const PARTITIONS: &[Column] = &[
    Column("PARTITION", &["/partition"]),
    Column("OWNER", &["/owner"]),
    Column("EPOCH", &["/epoch"]),
    Column("JOURNAL END", &["/journal_end"]),
    Column("PROJECTED", &["/projected"]),
    Column("LAG", &["/lag_records"]),
    Column("LAG MS", &["/lag_ms"]),
    Column("VOID", &["/void_records"]),
];

const SINKS: &[Column] = &[
    Column("SINK", &["/sink"]),
    Column("PARTITION", &["/partition"]),
    Column("STORED", &["/stored"]),
    Column("LAG", &["/lag_records"]),
    Column("CHANGES", &["/changes"]),
    Column("NOTED AT", &["/noted_at"]),
    Column("ERROR", &["/error"]),
];

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
    format!("\n\n{}", render::list(&json!({ "items": rows }), SINKS, "No sinks."))
}

pub(super) fn run(session: &Session<'_>) -> Done<Exit> {
    let answer = session.server.get("/api/status", &[])?;
    Ok(session.show(&answer, |answer| {
        let partitions = json!({ "items": answer["partitions"] });
        let rest = render::fields(answer, &["partitions", "sinks"]);
        let sinks = answer["sinks"].as_array().map(|_| sinks(answer)).unwrap_or_default();
        format!("{rest}\n{}{sinks}", render::list(&partitions, PARTITIONS, "No partitions."))
    }))
}

pub(super) fn set_time(session: &Session<'_>, partition: u32, at: Timestamp) -> Done<Exit> {
    let path = format!("/api/admin/partitions/{partition}/set-time");
    let answer = session.server.post(&path, Some(&json!({ "at": at })))?;
    Ok(session.show(&answer, |_| format!("Partition {partition} goes on at {at}.")))
}
