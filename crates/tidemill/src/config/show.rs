//! The configuration for people and programs; secrets stay hidden.

use serde_json::{Map, Value, json};
use tidemill_cli::render::table;

use super::{Loaded, Settings, settings};

/// `SETTING VALUE FROM`, one line each.
pub(crate) fn as_table(loaded: &Loaded) -> String {
    let rows = loaded
        .values
        .iter()
        .map(|(path, (value, origin))| vec![path.clone(), plain(&shown(path, value)), origin.to_string()]);
    table(&["SETTING", "VALUE", "FROM"], rows)
}

/// `{setting: {value, from}}`.
pub(crate) fn as_json(loaded: &Loaded) -> Value {
    let fields: Map<_, _> = loaded
        .values
        .iter()
        .map(|(path, (value, origin))| {
            (path.clone(), json!({ "value": shown(path, value), "from": origin.to_string() }))
        })
        .collect();
    fields.into()
}

/// The JSON Schema of the configuration file.
pub(crate) fn schema() -> Value {
    let mut schema = schemars::schema_for!(Settings).to_value();
    // This default follows from the machine's cores; the schema is the same everywhere.
    for (holder, field) in [("/properties/executor/default", "slots"), (SLOTS, "default")] {
        if let Some(Value::Object(fields)) = schema.pointer_mut(holder) {
            fields.remove(field);
        }
    }
    schema
}

const SLOTS: &str = "/$defs/ExecutorSettings/properties/slots";

fn shown(path: &str, value: &Value) -> Value {
    if settings::SECRET.contains(&path) && !value.is_null() { json!("(hidden)") } else { value.clone() }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, load};

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let flags = [
            Flag::new("internal_key", "sesame-sesame-sesame", "--test"),
            Flag::new("logs_key", "sesame-for-the-logs", "--test"),
            Flag::new("operator_key", "sesame-of-operators", "--test"),
            Flag::new("store.url", "mysql://u:sesame@h/d", "--test"),
            Flag::new("log.security.protocol", "sasl_ssl", "--test"),
            Flag::new("log.security.user", "ann", "--test"),
            Flag::new("log.security.password", "sesame", "--test"),
        ];
        let loaded = load(None, &[], &flags).unwrap();
        assert!(!as_table(&loaded).contains("sesame"));
        assert!(!as_json(&loaded).to_string().contains("sesame"));
        assert!(as_table(&loaded).contains("(hidden)"));
    }

    #[test]
    fn schema_is_the_same_on_every_machine() {
        let schema = schema();
        assert!(schema.pointer(SLOTS).is_some_and(|slots| slots.get("default").is_none()));
        assert!(!schema["properties"]["executor"]["default"].to_string().contains("slots"));
    }

    /// Every field documented: the schema has a description for each setting.
    #[test]
    fn schema_describes_every_setting() {
        let schema = schema();
        let mut sections = vec![schema.clone()];
        sections.extend(schema["$defs"].as_object().unwrap().values().cloned());
        for section in sections {
            for (name, field) in section["properties"].as_object().into_iter().flatten() {
                assert!(field.get("description").is_some(), "{name} has no description");
            }
        }
    }
}
