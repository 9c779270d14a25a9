//! Calendars: which days are working days. Defined in the catalogue, used by jobs by name.

use jiff::civil::Date;
use tidemill_derive::vocabulary;

use crate::{CalendarName, Versioned};

/// A day of the week.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
pub enum Weekday {
    /// The first one of a week.
    Monday,
    /// The second.
    Tuesday,
    /// The third.
    Wednesday,
    /// The fourth.
    Thursday,
    /// The fifth.
    Friday,
    /// The sixth.
    Saturday,
    /// The last.
    Sunday,
}

impl Weekday {
    /// From Monday to Friday.
    pub const WORKING: [Weekday; 5] =
        [Weekday::Monday, Weekday::Tuesday, Weekday::Wednesday, Weekday::Thursday, Weekday::Friday];
}

fn working_week() -> Vec<Weekday> {
    Weekday::WORKING.to_vec()
}

fn is_working_week(days: &[Weekday]) -> bool {
    days == Weekday::WORKING
}

/// A calendar as written: a weekly pattern, and the days that depart from it.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Its name.
    pub name: CalendarName,
    /// IANA zone in which its days begin and end; absent: the zone of each job's schedule.
    pub zone: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = crate::bounds::COMMENT_BYTES))]
    pub comment: String,
    /// Working days of every week; default Monday to Friday.
    #[serde(default = "working_week", skip_serializing_if = "is_working_week")]
    pub week: Vec<Weekday>,
    /// Days on which nobody works, whatever day of the week.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<Date>,
    /// Days on which people work, whatever day of the week.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub working_days: Vec<Date>,
}

impl CalendarSpec {
    /// The same days in one way of writing: sorted, each once.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.week.sort_unstable();
        self.week.dedup();
        for dates in [&mut self.holidays, &mut self.working_days] {
            dates.sort_unstable();
            dates.dedup();
        }
        self
    }
}

/// A calendar as the catalogue accepted it: its days are sorted.
pub type Calendar = Versioned<CalendarSpec>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unreadable::fault;
    use serde_json::json;

    #[test]
    fn defaults_are_a_working_week() {
        let spec = CalendarSpec::from_value(json!({"name": "cn"})).unwrap();
        assert_eq!(spec.week, Weekday::WORKING);
        assert_eq!(serde_json::to_value(&spec).unwrap(), json!({"name": "cn"}));
    }

    #[test]
    fn errors_name_field_value_and_rule() {
        let table = [
            (json!({"holidays": ["2026-13-01"]}), "holidays[0]", "2026-13-01"),
            (json!({"week": ["funday"]}), "week[0]", "funday"),
            (json!({"holiday": []}), "holiday", "[]"),
        ];
        for (fields, field, given) in table {
            let error = fault(json!({"name": "cn"}), &fields, CalendarSpec::from_value);
            assert_eq!((error.field.as_str(), error.value.as_str()), (field, given), "{error}");
        }
    }
}
