//! What a task log and a position are as documents.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_log::Head;
use tidemill_model::Timestamp;

use crate::Change;

#[derive(Serialize)]
struct Document<'a> {
    grant_id: i64,
    task_id: i64,
    task_version: i64,
    task_name: Option<&'a str>,
    template: Option<&'a str>,
    parameters: Value,
    group: &'a str,
    user: &'a str,
    start_at: Option<Timestamp>,
    granted_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    state: &'static str,
    ended_at: Option<Timestamp>,
    result: Option<&'a str>,
    returned_by: Option<&'a str>,
    reason: Option<&'a str>,
    partition: u32,
    journal_offset: u64,
    event_index: u32,
}

/// One line.
pub(super) fn task_log(change: &Change, partition: u32) -> Vec<u8> {
    let (given, state) = (&change.given, &change.state);
    let time = |millis: i64| Timestamp::from_millisecond(millis).ok();
    let document = Document {
        grant_id: given.grant,
        task_id: given.task,
        task_version: given.task_version,
        task_name: given.task_name.as_deref(),
        template: given.template.as_deref(),
        parameters: serde_json::from_str(&given.parameters).unwrap_or_default(),
        group: &given.group,
        user: &given.user,
        start_at: time(given.start_at),
        granted_at: time(given.granted_at),
        expires_at: given.expires_at.and_then(time),
        state: state.word(),
        ended_at: change.ended_at().and_then(time),
        result: state.result(),
        returned_by: state.returned_by(),
        reason: state.reason(),
        partition,
        journal_offset: change.offset,
        event_index: change.index,
    };
    serde_json::to_vec(&document).expect("a document is plain texts and numbers")
}

/// The place of a fact in its journal as one number that grows with it. A record holds less than 2^20 facts, for it
/// has less than 2^20 bytes.
pub(super) fn version(change: &Change) -> u64 {
    (change.offset << 20) | u64::from(change.index)
}

/// Parameters are kept and not indexed: tasks have whatever fields they like, and an index bears only so many.
pub(super) fn mappings() -> Value {
    let keyword = json!({"type": "keyword", "ignore_above": 8191});
    let (long, date) = (json!({"type": "long"}), json!({"type": "date"}));
    json!({
        "dynamic": false,
        "properties": {
            "grant_id": long, "task_id": long, "task_version": long, "task_name": keyword, "template": keyword,
            "parameters": {"type": "object", "enabled": false}, "group": keyword, "user": keyword,
            "start_at": date, "granted_at": date, "expires_at": date, "state": keyword, "ended_at": date,
            "result": keyword, "returned_by": keyword, "reason": keyword,
            "partition": long, "journal_offset": long, "event_index": long,
        },
    })
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "_source")]
    source: Position,
}

#[derive(Deserialize)]
struct Position {
    head: String,
}

/// A position as a document.
pub(super) fn position(head: &Head) -> Value {
    let text = serde_json::to_string(head).expect("a head is plain strings and numbers");
    json!({"log_id": head.log_id, "partition": head.partition, "offset": head.offset, "head": text})
}

/// The position of an answer that has one.
pub(super) fn head(answer: &str) -> Result<Head, serde_json::Error> {
    let found: Found = serde_json::from_str(answer)?;
    serde_json::from_str(&found.source.head)
}
