//! An example of every event, with every optional field given: what the golden file of a new event is made of, once.

use serde_json::{Map, Value, json};
use tidemill_model::Event;

/// What a text is where its schema says no more than a pattern: the first of these that fits.
const TEXTS: [&str; 8] = [
    "demo",
    "/data/day",
    "10:00:00",
    "10:00",
    "+4965112345",
    "ann@example.org",
    "k3v9c2m7q1x8b4z6",
    "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
];

/// How often a definition may stand within itself.
const MAX_DEPTH: usize = 12;

/// An event of every kind, made from the schema of all.
///
/// # Panics
/// When what is made is no event: then a type of the vocabulary needs an example of its own.
pub(crate) fn events() -> Vec<Event> {
    let root = schemars::schema_for!(Event).to_value();
    let mut events = Vec::new();
    for aggregate in alternatives(&root) {
        for (name, schema) in aggregate["properties"].as_object().into_iter().flatten() {
            for kind in alternatives(referred(&root, schema)) {
                let event = json!({name: example(&root, kind, 0)});
                let read = serde_json::from_value(event.clone());
                events.push(read.unwrap_or_else(|error| panic!("{event} is no event: {error}")));
            }
        }
    }
    events
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["oneOf"].as_array().into_iter().flatten()
}

/// The schema itself, or the definition that it refers to.
fn referred<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

/// A value that fits `schema`, whose references are to definitions of `root`.
fn example(root: &Value, schema: &Value, depth: usize) -> Value {
    let schema = referred(root, schema);
    let given = [&schema["const"], &schema["enum"][0], &schema["examples"][0]];
    if let Some(given) = given.into_iter().find(|given| !given.is_null()) {
        return given.clone();
    }
    let object = object(root, schema, depth);
    for alternatives in ["oneOf", "anyOf", "allOf"] {
        let mut alternatives = schema[alternatives].as_array().into_iter().flatten();
        if let Some(first) = alternatives.find(|alternative| alternative["type"] != "null") {
            let chosen = example(root, first, depth);
            return match (object, chosen) {
                (Some(mut fields), Value::Object(others)) => {
                    fields.extend(others);
                    fields.into()
                }
                (_, chosen) => chosen,
            };
        }
    }
    match type_of(schema) {
        "string" if schema["format"] == "date-time" => json!("2026-03-01T10:00:00Z"),
        "string" if schema["format"] == "partial-date-time" => json!("2026-03-01T10:00:00"),
        "string" if schema["format"] == "date" => json!("2026-03-01"),
        "string" => {
            let mut texts = TEXTS.iter().map(|text| json!(text));
            let fits = |text: &Value| {
                let pattern = json!({"pattern": schema.get("pattern").unwrap_or(&json!(""))});
                jsonschema::is_valid(&pattern, text)
            };
            texts
                .find(fits)
                .expect("a text of TEXTS fits every pattern; add one, or give the type an example")
        }
        "integer" | "number" => json!(schema["minimum"].as_i64().unwrap_or_default().max(1)),
        "boolean" => json!(true),
        "array" if schema["items"].is_object() && depth < MAX_DEPTH => {
            json!([example(root, &schema["items"], depth + 1)])
        }
        "array" => {
            let items = schema["prefixItems"].as_array().into_iter().flatten();
            items.map(|item| example(root, item, depth + 1)).collect()
        }
        "object" => object.unwrap_or_default().into(),
        _ => Value::Null,
    }
}

fn type_of(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(types) => {
            types.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("")
        }
        name => name.as_str().unwrap_or(""),
    }
}

fn object(root: &Value, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
    let fields = schema["properties"].as_object();
    let fields = fields.map(|fields| {
        fields
            .iter()
            .map(|(name, field)| (name.clone(), example(root, field, depth + 1)))
            .collect::<Map<_, _>>()
    });
    let others = schema["additionalProperties"].as_object().map(|_| {
        Map::from_iter([("day".to_owned(), example(root, &schema["additionalProperties"], depth + 1))])
    });
    fields.or(others)
}
