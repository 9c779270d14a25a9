//! What the world needs to read the feed and to write commands: JSON Schemas and an AsyncAPI document, made
//! from the vocabulary, so that they cannot say anything else than the code does.

mod asyncapi;
mod defs;
mod page;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidemill_journal::event::{VERSION, schema_id, type_of};
use tidemill_model::{Audience, CommandRecord, Event, EventKind, Level};

use defs::{Variant, description, reachable, referred, sorted, variants};
pub use page::page;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Every file below `schemas/` that is generated: its path there and its text.
#[must_use]
pub fn files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, value: Value| {
        let text = serde_json::to_string_pretty(&sorted(value)).expect("a JSON value is JSON");
        files.insert(path, text + "\n");
    };
    let (events, commands) = (events(), commands());
    add("asyncapi.json".to_owned(), asyncapi::document(&events, commands.keys()));
    for (kind, schema) in events {
        add(event_path(&kind), schema);
    }
    for (name, schema) in commands {
        add(command_path(&name), schema);
    }
    files
}

pub(crate) fn event_path(kind: &str) -> String {
    format!("events/{kind}.v{VERSION}.json")
}

pub(crate) fn command_path(name: &str) -> String {
    format!("commands/{name}.v{VERSION}.json")
}

/// Every public kind of event, and its schema: the CloudEvents envelope with the event's fields as `data`.
///
/// # Panics
/// When the schema has other events than there are kinds.
#[must_use]
pub fn events() -> BTreeMap<String, Value> {
    let root = schemars::schema_for!(Event).to_value();
    let schema_of = |(kind, _, variant): (&EventKind, &str, Variant<'_>)| {
        let EventKind { name, audience: Audience::Public(sentence), level } = *kind else { return None };
        let mut schema = envelope(name, variant.schema.clone());
        schema["description"] = json!(sentence);
        schema["$defs"] = reachable(&root, variant.schema);
        if level > Level::FIRST {
            schema["x-level"] = json!(level.number());
        }
        Some((name.to_owned(), schema))
    };
    kinds(&root).into_iter().filter_map(schema_of).collect()
}

/// How a record of the journal begins each kind of event: `{"batch":{"finished":` is `batch.finished`.
#[must_use]
pub fn beginnings() -> Vec<(&'static EventKind, String)> {
    let root = schemars::schema_for!(Event).to_value();
    let beginning = |aggregate, name| format!(r#"{{"{aggregate}":{{"{name}":"#);
    kinds(&root).into_iter().map(|(kind, aggregate, it)| (kind, beginning(aggregate, it.name))).collect()
}

/// Every kind, with the name of its aggregate and its variant in there.
fn kinds(root: &Value) -> Vec<(&'static EventKind, &str, Variant<'_>)> {
    let aggregates = variants(root);
    let all: Vec<_> = aggregates
        .flat_map(|it| variants(referred(root, it.schema)).map(move |variant| (it.name, variant)))
        .collect();
    assert_eq!(all.len(), EventKind::all().count(), "an event has one kind");
    EventKind::all().zip(all).map(|(kind, (aggregate, variant))| (kind, aggregate, variant)).collect()
}

/// The schema of an object with this one field.
fn only(name: &str, schema: Value) -> Value {
    let properties: Map<String, Value> = [(name.to_owned(), schema)].into_iter().collect();
    json!({"type": "object", "properties": properties, "required": [name], "additionalProperties": false})
}

fn envelope(kind: &str, data: Value) -> Value {
    json!({
        "$schema": DIALECT,
        "$id": schema_id(kind),
        "title": type_of(kind),
        "type": "object",
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {
                "type": "string", "pattern": "^[0-9]+-[0-9]+$",
                "description": "Journal offset and place in that record; with `source` it names the event. A repeat has the same. \
                                Numbers of internal events are left out.",
            },
            "source": {
                "type": "string", "pattern": "^tidemill/[a-z0-9-]+/[0-9]+$",
                "description": "The log's id and the partition of the journal.",
            },
            "type": {"const": type_of(kind)},
            "subject": {"type": "string", "description": "What it is about, as noun/id."},
            "time": {
                "type": "string", "format": "date-time",
                "description": "The owner's clock when it decided; never goes back within a source.",
            },
            "datacontenttype": {"const": "application/json"},
            "dataschema": {"const": schema_id(kind)},
            "partitionkey": {"type": "string", "pattern": "^[0-9]+$", "description": "The shard."},
            "cause": {
                "enum": ["command", "timer", "observed", "unknown"],
                "description": "What asked for the decision.",
            },
            "causeoffset": {
                "type": "string", "pattern": "^[0-9]+$",
                "description": "Of a command: its offset in the commands of the same partition.",
            },
            "request": {"type": "string", "description": "Of a command: the request id its sender chose."},
            "actor": {"type": "string", "description": "Of a command: the application, or the role of the program."},
            "actoruser": {"type": "string", "description": "Of a command: the person, as the application names them."},
            "data": data,
        },
        "required": [
            "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema",
            "partitionkey", "cause", "data",
        ],
    })
}

/// Name of every command, and the schema of its record.
#[must_use]
pub fn commands() -> BTreeMap<String, Value> {
    let root = schemars::schema_for!(CommandRecord).to_value();
    let aggregates = variants(&root["$defs"]["Command"]);
    let commands = aggregates.flat_map(|aggregate| {
        variants(referred(&root, aggregate.schema)).map(move |variant| (aggregate.name, variant))
    });
    commands
        .map(|(aggregate, variant)| {
            let name = format!("{aggregate}.{}", variant.name);
            let mut properties = root["properties"].as_object().cloned().unwrap_or_default();
            let mut spec = only(aggregate, only(variant.name, variant.schema.clone()));
            spec["description"] = json!(description(&root["properties"]["command"]));
            properties.insert("command".to_owned(), spec);
            let mut schema = json!({
                "$schema": DIALECT,
                "$id": format!("urn:tidemill:schema:commands:{name}:v{VERSION}"),
                "title": format!("tidemill.commands.{name}.v{VERSION}"),
                "description": variant.description,
                "type": "object",
                "properties": properties,
                "required": root["required"],
            });
            schema["$defs"] = reachable(&root, &schema);
            (name, schema)
        })
        .collect()
}
