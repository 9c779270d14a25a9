//! The AsyncAPI 3.0 document: topics, keys, partitions, and what is promised of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{command_path, event_path};

const ABOUT: &str = "Tidemill keeps everything it knows in a log. `events` is the public feed: one CloudEvents 1.0 \
JSON record per public fact, for anyone. `commands` takes requests from those with the right. The other topics are internal \
and named here so that an operator knows them. Topic names carry the installation's prefix, `tidemill.` by default.";

const EVENTS: &str = "One record per public fact; bookkeeping between shards stays in the journal. Key: the number of the shard, as text. Partition: the same number as \
that of the journal which holds the fact. Order: within a partition, that of the journal, by `id` (offset-index, with gaps where the \
journal has internal facts); none between partitions. Delivery: every public fact at least once; a repeat has the same `source` and `id`. After a lost \
acknowledgement a record may also stand after its successors: who needs the strict order sorts by `id`. Retention: \
set by the site.";

const COMMANDS: &str = "One record per request. Key: the number of the shard that decides it, as text. Partition: 0 for \
shard 0 (the catalogue), else 1 + (shard - 1) mod (partitions - 1); with one partition, 0. Order: a partition's requests \
are decided in the order of the topic. Delivery: send again with the same `request` until an outcome is known; a \
repeat gets the first outcome. Retention: at least 14 days.";

const JOURNAL: &str = "The truth: one record per decision, behind a binary header of frozen format, chained by hash. \
Only the owner of the partition writes; a record outside the chain is void. Read the feed instead. Key: empty. Kept \
for ever.";

const WORK: &str = "What owners tell workers. Key: the worker's id. Partition: the first 4 bytes (big endian) of \
SHA-256 of that id, modulo the number of partitions. Repeats are normal; receivers drop them by token. Kept 7 days.";

const REPLIES: &str = "Outcomes of commands. Key: the id of the instance that waits. Partition: as for `work`, over \
that id. Kept 1 day.";

const DEAD_LETTERS: &str = "What could not be decoded or decided: the raw record and the reason. Retention: set by \
the site.";

pub(super) fn document<'a>(
    events: &BTreeMap<String, Value>,
    commands: impl Iterator<Item = &'a String>,
) -> Value {
    let message = |name: &str, path: String| json!({"name": name, "contentType": "application/json", "payload": {"$ref": format!("./{path}")}});
    let of_events: Map<_, _> = events
        .iter()
        .map(|(kind, schema)| {
            let mut message = message(&tidemill_journal::event::type_of(kind), event_path(kind));
            message["summary"] = schema["description"].clone();
            message["bindings"] = key("The number of the shard, as text.");
            (kind.clone(), message)
        })
        .collect();
    let of_commands: Map<_, _> = commands
        .map(|name| {
            let mut message = message(name, command_path(name));
            message["bindings"] = key("The number of the shard that decides it, as text.");
            (name.clone(), message)
        })
        .collect();
    let channel = |topic: &str, description: &str, messages: Value| json!({"address": format!("tidemill.{topic}"), "description": description, "messages": messages});
    json!({
        "asyncapi": "3.0.0",
        "info": {"title": "Tidemill", "version": format!("{}", tidemill_journal::event::VERSION), "description": ABOUT},
        "defaultContentType": "application/json",
        "channels": {
            "events": channel("events", EVENTS, of_events.into()),
            "commands": channel("commands", COMMANDS, of_commands.into()),
            "journal": channel("journal", JOURNAL, json!({})),
            "work": channel("work", WORK, json!({})),
            "replies": channel("replies", REPLIES, json!({})),
            "dead-letters": channel("dead-letters", DEAD_LETTERS, json!({})),
        },
        "operations": {
            "publishEvents": {
                "action": "send", "channel": {"$ref": "#/channels/events"},
                "summary": "The publisher writes the feed; subscribe with any Kafka client.",
            },
            "takeCommands": {
                "action": "receive", "channel": {"$ref": "#/channels/commands"},
                "summary": "The owner of the partition decides each request.",
            },
        },
    })
}

fn key(description: &str) -> Value {
    json!({"kafka": {"key": {"type": "string", "pattern": "^[0-9]+$", "description": description}}})
}
