//! What cannot be read: the field at fault, what was given there, and the rule, in the words of people.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::FieldError;

/// Reads what people call by that noun, or says which field is at fault.
pub(crate) fn read<T: DeserializeOwned>(value: Value, noun: &str) -> Result<T, FieldError> {
    let given = value.clone();
    serde_path_to_error::deserialize(value).map_err(|error| field_at_fault(&given, &error, noun))
}

/// What is said of the value once `fields` are set in it.
#[cfg(test)]
pub(crate) fn fault<T: std::fmt::Debug>(
    mut value: Value,
    fields: &Value,
    read: fn(Value) -> Result<T, FieldError>,
) -> FieldError {
    for (name, given) in fields.as_object().unwrap() {
        value[name] = given.clone();
    }
    read(value).unwrap_err()
}

/// The path of the field at fault, what was given there, and the rule.
fn field_at_fault(
    given: &Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
    noun: &str,
) -> FieldError {
    let text = error.inner().to_string();
    let path = match error.path().to_string() {
        path if path == "." => String::new(),
        path => path,
    };
    let named = text.split('`').nth(1).unwrap_or_default();
    if text.starts_with("missing field") {
        let field = [path.as_str(), named].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        return FieldError::new(field.join("."), "", "is missing, and must be there");
    }
    let value = at(given, &path).map(plain).unwrap_or_default();
    if text.starts_with("unknown field") {
        let parent = path.strip_suffix(named).and_then(|parent| parent.strip_suffix('.')).unwrap_or("");
        let known = text.split("expected ").nth(1).unwrap_or_default().replace('`', "");
        let known = known.strip_prefix("one of ").unwrap_or(&known);
        let what = if parent.is_empty() { format!("a {noun}") } else { parent.to_owned() };
        let value = if value.is_empty() { at(given, named).map(plain).unwrap_or_default() } else { value };
        let field = if path.ends_with(named) { path.clone() } else { named.to_owned() };
        let rule = match crate::closest(named, known.split(", ")) {
            Some(meant) => format!("is no field of {what}; did you mean `{meant}`? Known are {known}"),
            None => format!("is no field of {what}; known are {known}"),
        };
        return FieldError::new(field, value, rule);
    }
    if path.starts_with("parents[") && text.contains("untagged enum") {
        let rule =
            "must be a name, group/name, or {job: name, mapping: same | all | any | latest | {offset: n}}";
        return FieldError::new(path, value, rule);
    }
    if text.contains("enum PathSpec") {
        let rule = "must be a path, or {path: /data/${yyyyMMdd}, mark: _SUCCESS}";
        return FieldError::new(path, value, rule);
    }
    if path.starts_with("pools[") && text.contains("untagged enum") {
        return FieldError::new(path, value, "must be the name of a pool, or {name: api, weight: 2}");
    }
    if path == "missed_runs" && text.contains("untagged enum") {
        let rule = "must be all, latest or none, or with a bound {policy: all, max_lateness_s: 3600}";
        return FieldError::new(path, value, rule);
    }
    let field = if path.is_empty() { noun.to_owned() } else { path };
    FieldError::new(field, value, rule(&text))
}

/// What the reader wanted, in the words of people.
fn rule(text: &str) -> String {
    let wanted = text.split("expected ").nth(1).filter(|_| text.starts_with("invalid "));
    let rule = match wanted {
        Some("u16" | "u32" | "i64") => "must be a whole number from 0 on",
        Some("u8") => "must be a whole number from 0 to 255",
        Some("f64") => "must be a number",
        Some("a string") => "must be text; quote it where YAML takes it for something else",
        Some("a boolean") => "must be true or false",
        Some("a sequence") => "must be a list",
        Some("a map") => "must be a mapping of names to values",
        _ => text,
    };
    rule.to_owned()
}

/// The value at a path such as `parents[1].job`.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
    steps.into_iter().try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// As people wrote it: text without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
