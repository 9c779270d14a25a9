//! Texts with `${…}` in them, resolved for each batch (JOB-7).

mod field;
mod parse;
mod pattern;
mod render;

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tidemill_model::{JobDefinition, Timestamp};

use crate::Zone;
pub use field::JobField;
use pattern::{Shift, TimePattern};

/// A text with placeholders, parsed once. As text it is what was written.
///
/// | placeholder | becomes |
/// |---|---|
/// | `${yyyyMMdd}`, `${yyyy-MM-dd HH:mm:ss}` | the logical time on the zone's clock; `XXX` is the offset as `+02:00` (`Z` for UTC), `Z` as `+0200` |
/// | `${yyyyMMdd-1d}`, `${HH+2h}` | the same, moved by `M` months, `w` weeks, `d` days (calendar), `h` hours, `m` minutes (elapsed) |
/// | `${logical_time}`, `${epoch}`, `${epoch_ms}` | RFC 3339 in the zone (or as the context says), seconds, milliseconds; each may be moved too |
/// | `${batch_id}`, `${run}`, `${attempt}` | the batch's own fields |
/// | `${job}` (or `${name}`), `${job_id}`, `${owner}`, `${priority}` … | the job's fields, named as in the job ([`JobField`]), by the definition of the batch |
/// | `${param.NAME}` | the job's parameter NAME |
/// | `${values.PARENT.KEY}` | the value KEY that the parent job PARENT passed on |
/// | `$${` | `${` itself, so `$${HOME}` leaves `${HOME}` to the shell |
///
/// All other text, `$HOME` and `$(cmd)` included, stays as it is. Values put in are not expanded again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Placeholder { position: usize, text: String, kind: Kind },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Time(TimeForm, Option<Shift>),
    BatchId,
    Run,
    Attempt,
    Field(JobField),
    Param(String),
    /// Of a parent, under a key.
    Value(String, String),
}

/// How a logical time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TimeForm {
    Pattern(TimePattern),
    Rfc3339,
    EpochSeconds,
    EpochMillis,
}

/// How a job wants its logical time written: a time pattern such as `yyyyMMddHH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat(TimePattern);

impl TimeFormat {
    /// Reads a pattern; the error is the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        TimePattern::parse(text).map(Self)
    }

    /// The time as it is written.
    pub fn write(&self, time: &jiff::Zoned) -> String {
        let mut text = String::new();
        self.0.write(time, &mut text);
        text
    }

    /// Whether it names the hour and not the offset, so that it cannot tell the two hours of an overlap apart.
    pub fn is_ambiguous_in_overlap(&self) -> bool {
        self.0.has_hour() && !self.0.has_offset()
    }
}

/// What a template is rendered with: one attempt of one batch.
#[derive(Debug, Clone, Copy)]
pub struct TemplateContext<'a> {
    /// What the batch is for.
    pub logical_time: Timestamp,
    /// On whose clock it is written.
    pub zone: &'a Zone,
    /// How `${logical_time}` is written; absent: RFC 3339.
    pub time_format: Option<&'a TimeFormat>,
    /// The batch.
    pub batch_id: i64,
    /// Its run number, 0 for the scheduled one.
    pub run: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The job, by the definition of the batch.
    pub definition: &'a JobDefinition,
    /// The job's parameters with the batch's own on top.
    pub params: &'a BTreeMap<String, String>,
    /// What parents passed on, by `PARENT.KEY`; absent: not known yet, so that placeholders for it stay as they are.
    pub values: Option<&'a BTreeMap<String, String>>,
    /// A placeholder after which the text takes more bytes than this is refused.
    pub most_bytes: usize,
}

/// Why a template cannot be parsed or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("template: '{text}' at character {position}: {rule}")]
pub struct TemplateError {
    /// Where the placeholder begins, in characters from 1.
    pub position: usize,
    /// The placeholder.
    pub text: String,
    /// The rule it breaks, and what to write instead.
    pub rule: String,
}

impl Template {
    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the parameters it needs, in order, repeated as often as they stand there.
    pub fn param_names(&self) -> impl Iterator<Item = &str> {
        self.kinds().filter_map(|kind| match kind {
            Kind::Param(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The fields of the job that it needs, in order, repeated as often as they stand there.
    pub fn job_fields(&self) -> impl Iterator<Item = JobField> {
        self.kinds().filter_map(|kind| match kind {
            Kind::Field(field) => Some(*field),
            _ => None,
        })
    }

    /// The values of parents that it needs, parent and key, in order, repeated as often as they stand there.
    pub fn value_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds().filter_map(|kind| match kind {
            Kind::Value(parent, key) => Some((parent.as_str(), key.as_str())),
            _ => None,
        })
    }

    /// Whether it names the local hour and nothing that tells the two hours of an overlap apart.
    ///
    /// For a sub-daily job in a zone with DST, `apply` warns of it (JOB-3).
    pub fn mentions_local_hour_without_offset(&self) -> bool {
        let mut names_hour = false;
        for kind in self.kinds() {
            if let Kind::Time(form, _) = kind {
                match form {
                    TimeForm::Pattern(pattern) if pattern.has_offset() => return false,
                    TimeForm::Pattern(pattern) => names_hour |= pattern.has_hour(),
                    TimeForm::Rfc3339 | TimeForm::EpochSeconds | TimeForm::EpochMillis => return false,
                }
            }
        }
        names_hour
    }

    /// How far from the logical time the times that templates of one text name can lie, either way: the longest shift, and
    /// what the finest field of their patterns covers. Without a year they come round every year.
    pub fn span<'a>(templates: impl IntoIterator<Item = &'a Template>) -> SignedDuration {
        let (mut shift, mut fields) = (SignedDuration::ZERO, pattern::Fields::default());
        for (form, moved) in templates.into_iter().flat_map(Template::kinds).filter_map(|kind| match kind {
            Kind::Time(form, moved) => Some((form, moved)),
            _ => None,
        }) {
            shift = shift.max(moved.as_ref().map_or(SignedDuration::ZERO, Shift::length));
            match form {
                TimeForm::Pattern(pattern) => fields.add(pattern),
                TimeForm::Rfc3339 | TimeForm::EpochSeconds | TimeForm::EpochMillis => fields.add_all(),
            }
        }
        shift + fields.covered()
    }

    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder { kind, .. } => Some(kind),
            Piece::Literal(_) => None,
        })
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Template, TemplateError> {
        Template::parse(&text)
    }
}

impl From<Template> for String {
    fn from(template: Template) -> String {
        template.text
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
