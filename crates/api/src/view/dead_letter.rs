use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::rows::DeadLetterRow;

use super::View;

/// The id of a dead letter: where the journal says that something was set aside, as `partition:offset:index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadLetterPlace {
    pub(crate) partition: i64,
    pub(crate) offset: i64,
    pub(crate) index: i64,
}

impl FromStr for DeadLetterPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split(':').map(|number| number.parse::<u32>().map_err(|_| ()));
        let mut next = || numbers.next().ok_or(())?.map(i64::from);
        let place = Self { partition: next()?, offset: next()?, index: next()? };
        if numbers.next().is_some() { Err(()) } else { Ok(place) }
    }
}

impl JsonSchema for DeadLetterPlace {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeadLetterPlace".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Where the journal tells of it: `<partition>:<offset>:<index>`.",
            "type": "string",
            "pattern": "^[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}$",
        })
    }
}

impl fmt::Display for DeadLetterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.partition, self.offset, self.index)
    }
}

/// A command that was set aside, or a timer that was suspended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeadLetterView {
    /// Where the journal says so: `partition:offset:index`.
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) row: View<DeadLetterRow>,
}

impl From<DeadLetterRow> for DeadLetterView {
    fn from(row: DeadLetterRow) -> Self {
        let place = DeadLetterPlace {
            partition: row.journal_partition,
            offset: row.journal_offset,
            index: row.event_index,
        };
        Self { id: place.to_string(), row: View(row) }
    }
}

/// A dead letter with the command as it was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeadLetterDetail {
    #[serde(flatten)]
    pub(crate) letter: DeadLetterView,
    /// The command as it was sent, as text where it is text, else in hexadecimal, cut to 64 KiB; null: a timer, or
    /// the log does not keep the command any more.
    pub(crate) command: Option<String>,
    /// Why a redrive would be refused; null: it would not, as far as is known before it is tried.
    pub(crate) obstacle: Option<String>,
}

/// A redrive was carried out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Redriven {
    /// The dead letter.
    pub(crate) id: String,
    /// Give this as `at_least` to reads that must show it.
    pub(crate) position: String,
    /// For people: what was done.
    pub(crate) message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_names_a_place_in_the_journal() {
        let place = DeadLetterPlace { partition: 1, offset: 17, index: 0 };
        assert_eq!(("1:17:0".parse(), place.to_string().as_str()), (Ok(place), "1:17:0"));
        for bad in ["", "1:17", "1:17:0:2", "1:x:0", "-1:17:0"] {
            assert_eq!(bad.parse::<DeadLetterPlace>(), Err(()), "{bad}");
        }
    }
}
