//! A place in the journal, as writes give it and reads take it.

use std::fmt;
use std::str::FromStr;

use tidemill_model::{FieldError, Reply};

/// `<partition>:<journal offset>`: reads that show at least this have this write in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalPosition {
    /// Partition of the journal.
    pub partition: u32,
    /// Offset of the record that holds the decision.
    pub offset: u64,
}

impl schemars::JsonSchema for JournalPosition {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JournalPosition".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A place in the journal: `<partition>:<offset>`.",
            "type": "string",
            "pattern": "^[0-9]{1,10}:[0-9]{1,20}$",
        })
    }
}

impl JournalPosition {
    pub(crate) fn of(reply: &Reply) -> Self {
        Self { partition: reply.partition, offset: reply.offset }
    }
}

impl fmt::Display for JournalPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

impl FromStr for JournalPosition {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let parse = || {
            let (partition, offset) = text.split_once(':')?;
            if text.contains('+') {
                return None;
            }
            Some(Self { partition: partition.parse().ok()?, offset: offset.parse().ok()? })
        };
        parse().ok_or_else(|| {
            FieldError::new("at_least", text, "must be the `position` of a write: <partition>:<offset>")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_survives_its_text_and_other_text_is_refused() {
        let position = JournalPosition { partition: 3, offset: 41 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for text in ["", "3", "3:", ":4", "3:4:5", "-1:2", "+1:2", "1:+2"] {
            assert!(text.parse::<JournalPosition>().is_err(), "{text}");
        }
    }
}
