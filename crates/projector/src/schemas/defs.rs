//! Taking generated schemas apart.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One variant of an enum that is written as an object with one field.
pub(super) struct Variant<'a> {
    /// The field.
    pub(super) name: &'a str,
    /// What it holds.
    pub(super) schema: &'a Value,
    /// What the variant means.
    pub(super) description: &'a str,
}

/// The variants of an enum's schema.
///
/// # Panics
/// When a variant is not written as an object with one field: then the vocabulary has changed its form.
pub(super) fn variants(schema: &Value) -> impl Iterator<Item = Variant<'_>> {
    let all = schema["oneOf"].as_array().expect("an enum with data has a schema of alternatives");
    all.iter().map(|variant| {
        let properties = variant["properties"].as_object().expect("a variant is an object");
        let (name, schema) = properties.iter().next().expect("with one field");
        Variant { name, schema, description: description(variant) }
    })
}

pub(super) fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The schema itself, or the definition of `root` that it refers to.
pub(super) fn referred<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

/// The definitions of `root` that a schema refers to, directly or not.
pub(super) fn reachable(root: &Value, schema: &Value) -> Value {
    let (mut found, mut open) = (BTreeSet::new(), Vec::new());
    references(schema, &mut open);
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            references(&root["$defs"][&name], &mut open);
        }
    }
    found.into_iter().map(|name| (name.clone(), root["$defs"][&name].clone())).collect::<Map<_, _>>().into()
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            let name = object.get("$ref").and_then(Value::as_str);
            into.extend(name.and_then(|name| name.strip_prefix("#/$defs/")).map(ToOwned::to_owned));
            object.values().for_each(|value| references(value, into));
        }
        Value::Array(array) => array.iter().for_each(|value| references(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same value with the fields of every object in the order of their names, whatever features the JSON
/// library was built with.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.into_iter().collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            fields.into_iter().map(|(name, value)| (name, sorted(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(array) => array.into_iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
