//! What an administrator defines by name, and the catalogue numbers: calendars, pools, templates for pull tasks.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::unreadable::read;
use crate::{CalendarName, CalendarSpec, FieldError, PoolName, PoolSpec, TemplateName, TemplateSpec};

/// What is defined by a name of its own, as written.
pub trait Definable: Clone + PartialEq {
    /// What names it.
    type Name: Clone + Ord + fmt::Debug + fmt::Display;
    /// What people call one.
    const NOUN: &'static str;
    /// What its schema is called once it is accepted.
    const SCHEMA: &'static str;

    /// Its name.
    fn name(&self) -> &Self::Name;
}

macro_rules! definable {
    ($($spec:ident: $name:ident, $noun:literal, $schema:literal;)+) => {$(
        impl Definable for $spec {
            type Name = $name;
            const NOUN: &'static str = $noun;
            const SCHEMA: &'static str = $schema;

            fn name(&self) -> &$name {
                &self.name
            }
        }

        impl $spec {
            /// Reads one from its JSON or YAML value.
            ///
            /// # Errors
            /// The first field that is unknown, missing or of the wrong form.
            pub fn from_value(value: Value) -> Result<Self, FieldError> {
                read(value, $noun)
            }
        }
    )+};
}

definable! {
    CalendarSpec: CalendarName, "calendar", "Calendar";
    PoolSpec: PoolName, "pool", "Pool";
    TemplateSpec: TemplateName, "template", "Template";
}

/// A definition as the catalogue accepted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versioned<Spec> {
    /// Numbers its content; every change of any definition of the kind gets the next one.
    pub version: u32,
    /// Its content.
    pub spec: Spec,
}

impl<Spec: Definable> fmt::Display for Versioned<Spec> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.spec.name(), self.version)
    }
}

impl<Spec: Definable + JsonSchema> JsonSchema for Versioned<Spec> {
    fn schema_name() -> Cow<'static, str> {
        Spec::SCHEMA.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let noun = Spec::NOUN;
        let mut version = generator.subschema_for::<u32>();
        let numbers = format!("Numbers its content; every change of any {noun} gets the next one.");
        version.insert("description".to_owned(), numbers.into());
        let mut spec = generator.subschema_for::<Spec>();
        spec.insert("description".to_owned(), "Its content.".into());
        json_schema!({
            "description": format!("A {noun} as the catalogue accepted it."),
            "type": "object",
            "properties": { "version": version, "spec": spec },
            "required": ["version", "spec"],
        })
    }
}
