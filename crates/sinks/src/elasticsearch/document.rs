//! What a task log and a position are as documents.

use serde::{Deserialize, Serializer as _};
use serde_json::{Value, json};
use tidemill_log::Head;
use tidemill_model::Timestamp;

use crate::Change;

/// A field of the documents: its name, how the index keeps it, and what a change has in it.
type Field = (&'static str, Kept, fn(&Change, u32) -> Value);

enum Kept {
    Long,
    Date,
    Keyword,
    /// Kept and not indexed: tasks have whatever parameters they like, and an index bears only so many fields.
    Opaque,
}

const FIELDS: &[Field] = &[
    ("grant_id", Kept::Long, |change, _| json!(change.given.grant)),
    ("task_id", Kept::Long, |change, _| json!(change.given.task)),
    ("task_version", Kept::Long, |change, _| json!(change.given.task_version)),
    ("task_name", Kept::Keyword, |change, _| json!(change.given.task_name.as_deref())),
    ("template", Kept::Keyword, |change, _| json!(change.given.template.as_deref())),
    ("parameters", Kept::Opaque, |change, _| {
        serde_json::from_str(&change.given.parameters).unwrap_or_default()
    }),
    ("group", Kept::Keyword, |change, _| json!(&*change.given.group)),
    ("user", Kept::Keyword, |change, _| json!(&*change.given.user)),
    ("start_at", Kept::Date, |change, _| time(Some(change.given.start_at))),
    ("granted_at", Kept::Date, |change, _| time(Some(change.given.granted_at))),
    ("expires_at", Kept::Date, |change, _| time(change.given.expires_at)),
    ("state", Kept::Keyword, |change, _| json!(change.state.word())),
    ("ended_at", Kept::Date, |change, _| time(change.ended_at())),
    ("result", Kept::Keyword, |change, _| json!(change.state.result())),
    ("returned_by", Kept::Keyword, |change, _| json!(change.state.returned_by())),
    ("reason", Kept::Keyword, |change, _| json!(change.state.reason())),
    ("partition", Kept::Long, |_, partition| json!(partition)),
    ("journal_offset", Kept::Long, |change, _| json!(change.offset)),
    ("event_index", Kept::Long, |change, _| json!(change.index)),
];

fn time(millis: Option<i64>) -> Value {
    json!(millis.and_then(|millis| Timestamp::from_millisecond(millis).ok()))
}

/// One line.
pub(super) fn task_log(change: &Change, partition: u32) -> Vec<u8> {
    let fields = FIELDS.iter().map(|(name, _, value)| (name, value(change, partition)));
    let mut line = Vec::new();
    let written = serde_json::Serializer::new(&mut line).collect_map(fields);
    written.expect("a document is plain texts and numbers");
    line
}

/// The place of a fact in its journal as one number that grows with it. A record holds less than 2^20 facts, for it
/// has less than 2^20 bytes.
pub(super) fn version(change: &Change) -> u64 {
    (change.offset << 20) | u64::from(change.index)
}

/// How an index keeps the documents.
pub(super) fn mappings() -> Value {
    let property = |(name, kept, _): &Field| {
        let how = match kept {
            Kept::Long => json!({"type": "long"}),
            Kept::Date => json!({"type": "date"}),
            Kept::Keyword => json!({"type": "keyword", "ignore_above": 8191}),
            Kept::Opaque => json!({"type": "object", "enabled": false}),
        };
        ((*name).to_owned(), how)
    };
    json!({"dynamic": false, "properties": FIELDS.iter().map(property).collect::<Value>()})
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

pub(super) fn position(head: &Head) -> Value {
    let text = serde_json::to_string(head).expect("a head is plain strings and numbers");
    json!({"log_id": head.log_id, "partition": head.partition, "offset": head.offset, "head": text})
}

/// The position of an answer that has one.
pub(super) fn head(answer: &str) -> Result<Head, serde_json::Error> {
    let found: Found = serde_json::from_str(answer)?;
    serde_json::from_str(&found.source.head)
}
