//! Numbers and texts in the bounds of their fields.

use crate::catalogue::data::check_length;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tidemill_model::{FieldError, JobSpec, SpecField, bounds, parameter_variable};

/// A field, and the bounds that its schema says.
struct Bounded {
    field: &'static SpecField,
    least: u64,
    most: Option<u64>,
    most_bytes: Option<u64>,
}

/// By name: read once, for a schema is slow to look into and every job of an apply is checked.
static FIELDS: LazyLock<FxHashMap<&str, Bounded>> = LazyLock::new(|| {
    let bounded = |field: &'static SpecField| {
        let limit = |key: &str| field.schema[key].as_u64();
        let least = limit("minimum").unwrap_or(0);
        (&*field.name, Bounded { field, least, most: limit("maximum"), most_bytes: limit("maxLength") })
    };
    JobSpec::fields().iter().map(bounded).collect()
});

/// Numbers and texts in the bounds that their fields say, and no zero byte in any of them.
pub(super) fn check_bounds(spec: &JobSpec) -> Result<(), FieldError> {
    let written = serde_json::to_value(spec).expect("a job is plain data with string keys");
    for (name, value) in written.as_object().into_iter().flatten() {
        if let Some(bounded) = FIELDS.get(&**name) {
            bounded.check(value)?;
        }
    }
    let is_blank = |c: char| c.is_control() || c.is_whitespace();
    if let Some(host) = spec.host.as_ref().filter(|host| host.is_empty() || host.contains(is_blank)) {
        let rule = "must be 1 to 255 bytes without spaces and control characters; leave it out for any host";
        return Err(FieldError::new("host", host, rule));
    }
    if let Some(path) = spec.program.as_ref().filter(|path| path.trim().is_empty()) {
        let rule = "must name a file; leave it out for a job that has a command";
        return Err(FieldError::new("program", path, rule));
    }
    if let Some(class) = spec.class.as_ref().filter(|class| class.trim().is_empty()) {
        return Err(FieldError::new("class", class, "must not be empty; leave it out for none"));
    }
    Ok(())
}

impl Bounded {
    fn check(&self, value: &Value) -> Result<(), FieldError> {
        let Self { field, least, most, most_bytes } = self;
        let is_above = |number: u64, most: &Option<u64>| most.is_some_and(|most| number > most);
        match value {
            Value::Number(number) => {
                let number = number.as_u64().unwrap_or_default();
                if number < *least || is_above(number, most) {
                    let most = most.map_or_else(String::new, |most| format!(" to {most}"));
                    let is_optional = field.schema["type"].is_array();
                    let hint = if is_optional { "; leave it out for none" } else { "" };
                    return Err(FieldError::new(&field.name, number, format!("must be {least}{most}{hint}")));
                }
                Ok(())
            }
            Value::String(text) if is_above(text.len() as u64, most_bytes) => {
                let rule = format!("must be at most {} bytes", most_bytes.unwrap_or_default());
                Err(FieldError::new(&field.name, text, rule))
            }
            // They are named by the jobs that have those names.
            _ if field.name == "parents" => Ok(()),
            value => check_zero_bytes(&field.name, value),
        }
    }
}

/// No program, argument or environment of a process can hold one, and every text may get there by a template.
fn check_zero_bytes(field: &str, value: &Value) -> Result<(), FieldError> {
    match value {
        Value::String(text) => without_zero_byte(field, text),
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(at, value)| check_zero_bytes(&format!("{field}[{at}]"), value))
        }
        Value::Object(values) => {
            let mut values = values.iter();
            values.try_for_each(|(name, value)| check_zero_bytes(&format!("{field}.{name}"), value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn without_zero_byte(field: &str, text: &str) -> Result<(), FieldError> {
    if !text.contains('\0') {
        return Ok(());
    }
    let rule = "must not hold a zero byte (U+0000), which no program can be given; take it out";
    Err(FieldError::new(field, text, rule))
}

/// What an attempt has in its environment: bounds, and one variable for each.
pub(crate) fn check_parameters(parameters: &BTreeMap<String, String>) -> Result<(), FieldError> {
    check_length("parameters", parameters.len(), bounds::PARAMETERS)?;
    let mut variables = BTreeMap::new();
    for (name, text) in parameters {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > bounds::PARAMETER_NAME_CHARS || !name.chars().all(fits) {
            let rule = "parameter names must be 1 to 128 letters, digits, and . _ -";
            return Err(FieldError::new("parameters", name, rule));
        }
        without_zero_byte(&format!("parameters.{name}"), text)?;
        let variable = parameter_variable(name);
        if let Some(other) = variables.insert(variable.clone(), name) {
            let rule =
                format!("would be the environment variable {variable}, as {other} is; rename one of them");
            return Err(FieldError::new("parameters", name, rule));
        }
    }
    Ok(())
}
