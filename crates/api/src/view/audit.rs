use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::Row;
use tidemill_store::rows::AuditRow;

use super::View;

/// The id of a row of the audit list: when it was decided, and where the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuditPlace {
    at: i64,
    partition: i64,
    offset: i64,
    index: i64,
}

impl AuditPlace {
    pub(crate) fn key(self) -> <AuditRow as Row>::Key {
        (self.at, self.partition, self.offset, self.index)
    }
}

impl From<&AuditRow> for AuditPlace {
    fn from(row: &AuditRow) -> Self {
        let AuditRow { at, journal_partition, journal_offset, event_index, .. } = *row;
        Self { at, partition: journal_partition, offset: journal_offset, index: event_index }
    }
}

impl FromStr for AuditPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_number =
            |text: &&str| (1..=15).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
        let mut numbers = text.split(':').map(|text| Some(text).filter(is_number)?.parse::<i64>().ok());
        let mut next = || numbers.next().flatten().ok_or(());
        let place = Self { at: next()?, partition: next()?, offset: next()?, index: next()? };
        if numbers.next().is_some() { Err(()) } else { Ok(place) }
    }
}

impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.at, self.partition, self.offset, self.index)
    }
}

impl JsonSchema for AuditPlace {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AuditPlace".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "When it was decided, in milliseconds, and where the journal has it: \
                `<time>:<partition>:<offset>:<index>`.",
            "type": "string",
            "pattern": "^[0-9]{1,15}(:[0-9]{1,15}){3}$",
        })
    }
}

/// A row of the audit list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditView {
    /// Its id, which stays: `time:partition:offset:index`.
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) row: View<AuditRow>,
}

impl From<AuditRow> for AuditView {
    fn from(row: AuditRow) -> Self {
        Self { id: AuditPlace::from(&row).to_string(), row: View(row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_names_a_time_and_a_place() {
        let place = AuditPlace { at: 1_772_359_200_007, partition: 1, offset: 17, index: 0 };
        assert_eq!((place.to_string().parse(), &*place.to_string()), (Ok(place), "1772359200007:1:17:0"));
        for bad in
            ["", "1:2:3", "1:2:3:4:5", "1:2:x:4", "-1:2:3:4", "+1:2:3:4", "1:2::4", "1:2:3:9999999999999999"]
        {
            assert_eq!(bad.parse::<AuditPlace>(), Err(()), "{bad}");
        }
    }
}
