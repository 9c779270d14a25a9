//! The fields of a job, as its schema has them: what is derived of every field is derived from here.

mod reference;

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::JobSpec;

/// A field of a job as written.
#[derive(Debug)]
pub struct SpecField {
    /// As it stands in a job file.
    pub name: String,
    /// What it is for, its unit and its default, in Markdown.
    pub description: String,
    /// Its JSON schema, definitions inlined.
    pub schema: Value,
    /// Whether a job has to have it.
    pub is_required: bool,
}

impl SpecField {
    fn has_type(&self, name: &str) -> bool {
        match &self.schema["type"] {
            Value::String(one) => one == name,
            Value::Array(several) => several.iter().any(|one| one == name),
            _ => false,
        }
    }

    /// What can be written there; each is valid in a job that has what it says something about.
    pub fn examples(&self) -> &[Value] {
        self.schema["examples"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether its value is a text.
    pub fn is_text(&self) -> bool {
        self.has_type("string")
    }

    /// Whether its value is a whole number.
    pub fn is_whole_number(&self) -> bool {
        self.has_type("integer")
    }

    /// Whether its value is true or false.
    pub fn is_boolean(&self) -> bool {
        self.has_type("boolean")
    }
}

static FIELDS: LazyLock<Vec<SpecField>> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<JobSpec>().to_value();
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, schema): (&String, &Value)| SpecField {
        name: name.clone(),
        description: schema["description"].as_str().unwrap_or_default().to_owned(),
        schema: schema.clone(),
        is_required: is_required(name),
    };
    properties.map(field).collect()
});

impl JobSpec {
    /// Every field of a job file, in the order of the schema.
    pub fn fields() -> &'static [SpecField] {
        &FIELDS
    }

    /// The page of all fields, as Markdown.
    #[must_use]
    pub fn reference() -> String {
        reference::reference()
    }

    /// A field as text, if it is a text, a number or a boolean and is set.
    pub fn text_of(&self, field: &str) -> Option<String> {
        match serde_json::to_value(self).ok()?.get(field)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JOB-1: every field of a job says what it is for, and has an example.
    #[test]
    fn every_field_is_described() {
        let is_silent = |field: &&SpecField| field.description.is_empty() || field.examples().is_empty();
        let silent = JobSpec::fields().iter().filter(is_silent);
        assert_eq!(silent.map(|field| field.name.as_str()).collect::<Vec<_>>(), [""; 0]);
        let of = |name: &str| JobSpec::fields().iter().find(|field| field.name == name).unwrap();
        assert!(of("owner").is_text() && of("retries").is_whole_number() && of("enabled").is_boolean());
        assert!(of("name").is_required && of("priority").is_whole_number() && !of("priority").is_required);
    }

    #[test]
    fn page_on_the_fields_is_current() {
        let page =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/job-fields.md");
        let committed = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(committed == JobSpec::reference(), "{} is stale: run `make schemas`", page.display());
    }
}
