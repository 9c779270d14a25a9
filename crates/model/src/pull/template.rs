//! PUL-1: what the parameters of a task must be.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use tidemill_derive::vocabulary;

use super::Parameters;
use crate::{FieldError, TemplateName, Versioned, bounds};

/// What a parameter's value must be.
#[vocabulary(Copy, Eq, Default)]
pub enum FieldType {
    /// Whatever JSON has.
    #[default]
    Any,
    /// A text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// An object.
    Object,
    /// An array.
    Array,
}

impl FieldType {
    /// Whether the value is one.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            FieldType::Any => true,
            FieldType::String => value.is_string(),
            FieldType::Number => value.is_number(),
            FieldType::Boolean => value.is_boolean(),
            FieldType::Object => value.is_object(),
            FieldType::Array => value.is_array(),
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldType::Any => "anything",
            FieldType::String => "a string",
            FieldType::Number => "a number",
            FieldType::Boolean => "a boolean",
            FieldType::Object => "an object",
            FieldType::Array => "an array",
        })
    }
}

/// One parameter.
#[vocabulary(Copy, Eq)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// A task must give it.
    #[serde(default = "crate::yes")]
    pub required: bool,
    /// What it must be.
    #[serde(default, rename = "type", skip_serializing_if = "crate::is_default")]
    pub field_type: FieldType,
}

/// A template as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// Its name, one for all groups.
    pub name: TemplateName,
    /// The parameters that there may be, at most 64.
    #[schemars(extend(
        "maxProperties" = bounds::FIELDS,
        "propertyNames" = serde_json::json!({"minLength": 1, "maxLength": bounds::FIELD_NAME_CHARS, "pattern": bounds::VISIBLE_PATTERN})
    ))]
    pub fields: BTreeMap<String, Field>,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::COMMENT_BYTES))]
    pub comment: String,
}

impl TemplateSpec {
    /// Everything that is wrong with a task's parameters: missing, extra and wrongly typed ones, by name.
    pub fn faults(&self, parameters: &Parameters) -> Vec<FieldError> {
        let mut faults = Vec::new();
        for (name, field) in &self.fields {
            match parameters.0.get(name) {
                None if field.required => {
                    let rule = format!("is missing: template {} asks for it", self.name);
                    faults.push(FieldError::new(format!("parameters.{name}"), "", rule));
                }
                Some(value) if !field.field_type.admits(value) => {
                    let rule = format!("must be {}, by template {}", field.field_type, self.name);
                    faults.push(FieldError::new(format!("parameters.{name}"), value, rule));
                }
                None | Some(_) => {}
            }
        }
        for (name, value) in parameters.0.iter().filter(|(name, _)| !self.fields.contains_key(*name)) {
            let rule = format!("is no parameter of template {}; leave it out", self.name);
            faults.push(FieldError::new(format!("parameters.{name}"), value, rule));
        }
        faults
    }
}

/// A template as the catalogue accepted it.
pub type Template = Versioned<TemplateSpec>;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// PUL-1: missing, extra and wrongly typed parameters are named, all of them at once.
    #[test]
    fn every_fault_of_the_parameters_is_named() {
        let fields =
            json!({"path": {"type": "string"}, "size": {"required": false, "type": "number"}, "x": {}});
        let template = TemplateSpec::from_value(json!({"name": "copy", "fields": fields})).unwrap();
        let faults = |parameters: Value| -> Vec<String> {
            let parameters: Parameters = serde_json::from_value(parameters).unwrap();
            template.faults(&parameters).into_iter().map(|fault| fault.field).collect()
        };
        assert_eq!(faults(json!({"path": "/a", "x": null})), Vec::<String>::new());
        assert_eq!(faults(json!({"path": "/a", "x": [], "size": 1.5})), Vec::<String>::new());
        assert_eq!(
            faults(json!({"path": 7, "size": "big", "way": true})),
            ["parameters.path", "parameters.size", "parameters.x", "parameters.way"]
        );
    }
}
