//! Parameters of calls, and the rule that the document tells of each: that by which handlers read it.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// What a value has to be.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Text,
    /// `true` or `false`.
    Flag,
    /// RFC 3339.
    Time,
    /// A whole number, from … to.
    Number(u64, u64),
    /// One of these.
    Word(&'static [&'static str]),
    /// It has this pattern.
    Pattern(&'static str),
    Of(fn(&mut SchemaGenerator) -> Value),
}

impl Rule {
    /// As the type has it.
    pub(crate) const fn of<T: JsonSchema>() -> Self {
        Self::Of(subschema::<T>)
    }

    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Time => json!({"type": "string", "format": "date-time"}),
            Self::Number(least, u64::MAX) => json!({"type": "integer", "minimum": least}),
            Self::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Word(words) => json!({"type": "string", "enum": words}),
            Self::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
            Self::Of(schema) => schema(generator),
        }
    }
}

fn subschema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().into()
}

/// A parameter of a call.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    about: &'static str,
    rule: Rule,
    required: bool,
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, about: &'static str, rule: Rule) -> Self {
        Self { name, about, rule, required: false }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::Text)
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// As OpenAPI has it; `place` is `path`, `query` or `header`.
    pub(crate) fn document(&self, place: &str, generator: &mut SchemaGenerator) -> Value {
        json!({
            "name": self.name,
            "in": place,
            "required": self.required,
            "description": self.about,
            "schema": self.rule.schema(generator),
        })
    }
}
