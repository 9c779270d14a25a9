//! The manual of job files, from the fields of [`JobSpec`].

use std::fmt::Write;

use serde_json::Value;

use super::SpecField;
use crate::JobSpec;

const HEAD: &str = "# Fields of a job

This page is generated from `crates/model/src/spec.rs`; `make schemas` writes it again.

A job file is YAML or JSON: a list `jobs` of objects with these fields. `name`, `group` and `type` are required, and so is
`command` or `program` for every type but `noop` and `anchor`; an unknown field is refused. `tidemill job validate FILE` checks a file without
a server, and `tidemill job apply -f FILE --dry-run` says what would change. What templates such as `${yyyyMMdd}` become is in
[job types](../job-types.md#templates).
";

/// The page as Markdown.
#[must_use]
pub(super) fn reference() -> String {
    let mut page = HEAD.to_owned();
    for field in JobSpec::fields() {
        let SpecField { name, description, schema, .. } = field;
        let required = if field.is_required { ", required" } else { "" };
        let default = match schema.get("default") {
            Some(Value::String(text)) if text.is_empty() => ", default empty".to_owned(),
            Some(Value::String(text)) => format!(", default `{text}`"),
            Some(Value::Null) | None => String::new(),
            Some(default) => format!(", default `{default}`"),
        };
        let _ = writeln!(page, "\n## {name}\n\n{}{required}{default}.\n\n{description}", kind(schema));
        for example in field.examples() {
            let _ = writeln!(page, "\n```yaml\n{name}: {example}\n```");
        }
    }
    page
}

/// What values a schema allows, for people.
fn kind(schema: &Value) -> String {
    let variants = ["anyOf", "oneOf"].iter().find_map(|of| schema[of].as_array());
    if let Some(variants) = variants {
        let kinds: Vec<String> =
            variants.iter().filter(|of| of["type"] != "null").map(kind).filter(|of| !of.is_empty()).collect();
        return joined(&kinds);
    }
    if let Some(values) = schema["enum"].as_array() {
        return joined(&values.iter().filter(|of| !of.is_null()).map(value).collect::<Vec<_>>());
    }
    if !schema["const"].is_null() {
        return value(&schema["const"]);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|of| *of != "null").collect(),
        of => of.as_str().into_iter().collect::<Vec<_>>(),
    };
    types.iter().map(|of| of_type(of, schema)).collect::<Vec<_>>().join(" or ")
}

fn value(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn joined(kinds: &[String]) -> String {
    match kinds {
        [kinds @ .., last] if !kinds.is_empty() => format!("{} or {last}", kinds.join(", ")),
        kinds => kinds.concat(),
    }
}

fn of_type(name: &str, schema: &Value) -> String {
    let number = |key: &str| schema[key].as_f64().map(|number| number.to_string());
    let range = |least: Option<String>, most: Option<String>, unit: &str| match (least, most) {
        (Some(least), Some(most)) => format!(", {least} to {most}{unit}"),
        (None, Some(most)) => format!(", at most {most}{unit}"),
        (Some(least), None) => format!(", at least {least}{unit}"),
        (None, None) => String::new(),
    };
    match name {
        "string" => match schema["format"].as_str() {
            Some("date-time") => "time, RFC 3339".to_owned(),
            _ => format!("text{}", range(number("minLength"), number("maxLength"), " characters")),
        },
        "integer" => format!("integer{}", range(number("minimum"), number("maximum"), "")),
        "number" => format!("number{}", range(number("minimum"), number("maximum"), "")),
        "boolean" => "`true` or `false`".to_owned(),
        "array" => format!("list{}", range(number("minItems"), number("maxItems"), " elements")),
        "object" => match schema["properties"].as_object() {
            Some(properties) => {
                let keys = properties.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                format!("object of {keys}")
            }
            None => "object of texts".to_owned(),
        },
        other => other.to_owned(),
    }
}
