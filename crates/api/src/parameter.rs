//! Parameters of calls. One declaration has a parameter's name, type, sentence and rule: the document is made from it, a
//! request is checked against it, and handlers read by it.

use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};
use tidemill_model::{BatchId, JobId, TaskId, Timestamp};

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
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

    /// What a value has to be, for whoever sent another one.
    pub(crate) fn must(self, name: &str) -> String {
        match self {
            Self::Text => "must be text".to_owned(),
            Self::Flag => "must be true or false".to_owned(),
            Self::Time => {
                "must be a time as RFC 3339 has it, with its offset: 2025-03-01T00:00:00+01:00".to_owned()
            }
            Self::Number(least, u64::MAX) => format!("must be a whole number, {least} or more"),
            Self::Number(least, most) => format!("must be {least} to {most}"),
            Self::Word(words) => format!("must be one of {}", words.join(", ")),
            Self::Pattern(pattern) => format!("must have the pattern {pattern}"),
            Self::Of(_) => format!("must be the number of a {}", name.trim_end_matches("_id")),
        }
    }
}

fn subschema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().into()
}

/// A parameter of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    about: &'static str,
    pub(crate) rule: Rule,
    required: bool,
    /// Whether a value keeps to the rule.
    pub(crate) fits: fn(Rule, &str) -> bool,
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, about: &'static str, rule: Rule) -> Self {
        Self { name, about, rule, required: false, fits: |_, _| true }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::Text)
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Whether it is the same one. Each call has one sentence for a name.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.about == other.about
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

/// A parameter of the query, and what its value is read as.
#[derive(Clone, Copy)]
pub(crate) struct Asked<T> {
    pub(crate) parameter: Parameter,
    value: PhantomData<fn() -> T>,
}

/// What the value of a parameter is read as.
pub(crate) trait Readable: Sized {
    /// `None` where the rule does not hold.
    fn read(rule: Rule, text: &str) -> Option<Self>;
}

impl Readable for String {
    fn read(rule: Rule, text: &str) -> Option<Self> {
        let fits = !matches!(rule, Rule::Word(words) if !words.contains(&text));
        fits.then(|| text.to_owned())
    }
}

impl Readable for u64 {
    fn read(rule: Rule, text: &str) -> Option<Self> {
        let fits =
            |number: &u64| !matches!(rule, Rule::Number(least, most) if !(least..=most).contains(number));
        read(text).filter(fits)
    }
}

macro_rules! readable {
    ($($value:ty),+) => {
        $(impl Readable for $value {
            fn read(_: Rule, text: &str) -> Option<Self> {
                read(text)
            }
        })+
    };
}
readable!(bool, Timestamp, JobId, BatchId, TaskId);

/// As the document has it: a number does not begin with a plus.
pub(crate) fn read<T: FromStr>(text: &str) -> Option<T> {
    Some(text).filter(|text| !text.starts_with('+'))?.parse().ok()
}

impl<T: Readable> Asked<T> {
    pub(crate) const fn new(name: &'static str, about: &'static str, rule: Rule) -> Self {
        let fits = |rule: Rule, text: &str| T::read(rule, text).is_some();
        Self { parameter: Parameter { fits, ..Parameter::new(name, about, rule) }, value: PhantomData }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.parameter = self.parameter.required();
        self
    }
}

impl Asked<String> {
    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::Text)
    }

    pub(crate) const fn word(
        name: &'static str,
        about: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self::new(name, about, Rule::Word(words))
    }
}

impl Asked<bool> {
    pub(crate) const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::Flag)
    }
}

impl Asked<Timestamp> {
    pub(crate) const fn time(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::Time)
    }
}

impl Asked<u64> {
    pub(crate) const fn number(name: &'static str, about: &'static str, least: u64, most: u64) -> Self {
        Self::new(name, about, Rule::Number(least, most))
    }
}

impl<T: Readable + JsonSchema> Asked<T> {
    /// The number of something.
    pub(crate) const fn id(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Rule::of::<T>())
    }
}
