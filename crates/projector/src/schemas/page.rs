//! The manual of the public events, from their schemas.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::defs::description;

const HEAD: &str = "# Public events

This page is generated from the kinds in `crates/model/src/event/` and the schemas in `schemas/events`; `make schemas`
writes it anew.

These are the events of the public feed: the topic `tidemill.events`, `GET /api/events` and `tidemill events tail`. Each is a
CloudEvents 1.0 event; its `type` is the kind as `tidemill.<kind>.v1`, and its `data` has the fields below.
[schemas/asyncapi.json](../../schemas/asyncapi.json) describes the topic, keys, order and delivery. What shards tell one another,
acknowledge or evict is in the journal only (`tidemill journal export`): the `id` of an event, `offset-index`, therefore has gaps.

A time is RFC 3339 in UTC with three digits after the second. Other fields have the unit that their name ends with: `_ms`
milliseconds, `_s` seconds, `_hours` hours, `_days` days, `_mb` megabytes, `_kib` KiB, `_bytes` bytes, `_percent` percent. A field is
*optional* where the event may lack it. Types with a link are described below.

";

/// The page as Markdown.
#[must_use]
pub fn page() -> String {
    let events = super::events();
    let mut page = HEAD.to_owned();
    page.push_str("| kind | when it happens |\n|---|---|\n");
    for (kind, schema) in &events {
        let _ = writeln!(page, "| [`{kind}`](#{}) | {} |", anchor(kind), description(schema));
    }
    page.push('\n');
    let mut types = BTreeMap::new();
    for (kind, schema) in &events {
        let _ = writeln!(page, "## {kind}\n\n{}\n", description(schema));
        if let Some(level) = schema["x-level"].as_u64() {
            let _ = writeln!(
                page,
                "It is written since level {level} ([operations](../operations.md#upgrade)).\n"
            );
        }
        fields(&mut page, &schema["properties"]["data"]);
        for (name, schema) in schema["$defs"].as_object().into_iter().flatten() {
            types.insert(name.clone(), schema.clone());
        }
    }
    page.push_str("# Types\n\n");
    for (name, schema) in types {
        let _ = writeln!(page, "## {name}\n\n{}\n", one_line(description(&schema)));
        if schema.get("properties").is_some() {
            fields(&mut page, &schema);
        }
        alternatives(&mut page, &schema);
        if schema.get("properties").is_none() && schema.get("oneOf").is_none() {
            let _ = writeln!(page, "{}.\n", kind_of(&schema));
        }
    }
    page
}

/// As GitHub makes it from a heading.
fn anchor(heading: &str) -> String {
    heading.replace('.', "").to_lowercase()
}

fn fields(page: &mut String, schema: &Value) {
    let empty = Vec::new();
    let required = schema["required"].as_array().unwrap_or(&empty);
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let optional = if required.iter().any(|it| it == name) { "" } else { ", optional" };
        let meaning = one_line(description(field));
        let _ = writeln!(page, "| `{name}` | {}{optional} | {meaning} |", kind_of(field));
    }
    // Types that are one of several objects stand in their event or type itself.
    for part in schema["allOf"].as_array().into_iter().flatten().chain(schema.get("$ref").map(|_| schema)) {
        let _ = writeln!(page, "| | {} | its fields stand here, too |", kind_of(part));
    }
    page.push('\n');
}

/// The values of an enum, or what its variants hold.
fn alternatives(page: &mut String, schema: &Value) {
    let Some(all) = schema["oneOf"].as_array() else { return };
    page.push_str("| value | meaning |\n|---|---|\n");
    for one in all {
        let values = one["enum"].as_array().into_iter().flatten().chain(one.get("const"));
        let mut names: Vec<_> = values.map(|value| format!("`{value}`")).collect();
        for (name, held) in one["properties"].as_object().into_iter().flatten() {
            let inner = held["properties"].as_object().into_iter().flatten();
            let inner: Vec<_> = inner.map(|(name, field)| format!("`{name}`: {}", kind_of(field))).collect();
            names.push(match inner.is_empty() {
                true => format!("`{name}`: {}", kind_of(held)),
                false => format!("`{name}`: object of {}", inner.join(", ")),
            });
        }
        let _ = writeln!(page, "| {} | {} |", names.join(", "), one_line(description(one)));
    }
    page.push('\n');
}

/// The type of a field, in words.
fn kind_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return match name {
            "Timestamp" => "time".to_owned(),
            name => format!("[{name}](#{})", anchor(name)),
        };
    }
    for several in ["anyOf", "allOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            let kinds = all.iter().filter(|it| it["type"] != "null").map(kind_of);
            return kinds.collect::<Vec<_>>().join(" or ");
        }
    }
    let kind = match &schema["type"] {
        Value::Array(all) => all.iter().find(|it| *it != "null").and_then(Value::as_str),
        one => one.as_str(),
    };
    match kind {
        Some("array") => format!("list of {}", kind_of(&schema["items"])),
        Some("object") => match schema.get("additionalProperties") {
            Some(of) if of.is_object() => format!("object of text to {}", kind_of(of)),
            _ => "object".to_owned(),
        },
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => "time".to_owned(),
            _ => "text".to_owned(),
        },
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

/// What fits into a cell.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
