//! Calendars: defined once, numbered, and sent to the shards whose jobs use them (BYD-2).
//!
//! *Invariant:* a shard gets a calendar before the first job that uses it, and every later version of it, for both
//! travel in one outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;
use tidemill_calendar::{Days, Zone};
use tidemill_derive::Stored;
use tidemill_model::{
    Answer, Calendar, CalendarName, CalendarSpec, CalendarUse, CatalogueEvent, JobDefinition, Rejection,
    ShardId, ShardMessage, Weekday, bounds,
};

use super::defined::Defined;
use super::{Catalogue, check_bytes};
use crate::decision::{Decision, Ruled};

const MAX_DATES: usize = 4_000;

/// All calendars, with their days and the shards that have them.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Calendars(Defined<CalendarSpec, Used>);

#[derive(Debug, Clone, PartialEq, Stored)]
struct Used {
    days: Option<Arc<Days>>,
    shards: BTreeSet<ShardId>,
}

impl Calendars {
    pub(super) fn days(&self, name: &CalendarName) -> Option<Arc<Days>> {
        self.0.get(name)?.more.days.clone()
    }

    pub(super) fn shards(&self, name: &CalendarName) -> BTreeSet<ShardId> {
        self.0.get(name).map(|known| known.more.shards.clone()).unwrap_or_default()
    }

    /// Working days from Monday to Friday, for checks where no calendar is known.
    pub(super) fn suppose(&mut self, name: &CalendarName) {
        let spec = CalendarSpec {
            name: name.clone(),
            zone: None,
            comment: String::new(),
            week: Weekday::WORKING.to_vec(),
            holidays: Vec::new(),
            working_days: Vec::new(),
        };
        self.insert(&Arc::new(Calendar { version: 1, spec }));
    }

    fn insert(&mut self, calendar: &Arc<Calendar>) {
        let days = Days::try_from(calendar.as_ref()).ok().map(Arc::new);
        let shards = self.shards(&calendar.spec.name);
        self.0.insert(calendar, |_| Used { days, shards });
    }
}

impl Catalogue {
    pub(super) fn define_calendar(&self, written: &CalendarSpec) -> Ruled {
        check(written)?;
        let event = |calendar| CatalogueEvent::CalendarDefined { calendar };
        self.calendars.0.define(written.clone().sorted(), event, |version| Answer::Calendar { version })
    }

    pub(super) fn delete_calendar(&self, name: &CalendarName) -> Ruled {
        self.calendars.0.check_known(name)?;
        let uses = |job: &JobDefinition| job.spec.calendar.as_ref().is_some_and(|used| used.name == *name);
        if let Some(users) = self.users_of(uses) {
            let reason = format!("{users} use it; let them keep to another one first");
            return Err(Rejection::CalendarInUse { calendar: name.to_string(), reason });
        }
        Ok(Decision::done(CatalogueEvent::CalendarDeleted { name: name.clone() }))
    }

    pub(super) fn calendar_defined(&mut self, calendar: &Arc<Calendar>) {
        self.revision += 1;
        self.calendars.insert(calendar);
        for shard in self.calendars.shards(&calendar.spec.name) {
            self.mailbox.send(shard, ShardMessage::Calendar { calendar: Arc::clone(calendar) });
        }
    }

    pub(super) fn calendar_deleted(&mut self, name: &CalendarName) {
        self.revision += 1;
        let known = self.calendars.0.remove(name);
        for shard in known.map(|known| known.more.shards).unwrap_or_default() {
            self.mailbox.send(shard, ShardMessage::DropCalendar { name: name.clone() });
        }
    }

    /// Sends the calendar that is used to a shard that does not have it yet.
    pub(super) fn send_calendar(&mut self, shard: ShardId, used: Option<&CalendarUse>) {
        let Some(used) = used else { return };
        let Some(known) = self.calendars.0.get_mut(&used.name) else { return };
        if known.more.shards.insert(shard) {
            let calendar = Arc::clone(&known.accepted);
            self.mailbox.send(shard, ShardMessage::Calendar { calendar });
        }
    }
}

fn check(spec: &CalendarSpec) -> Result<(), Rejection> {
    if let Some(zone) = &spec.zone {
        Zone::try_from(zone.as_str()).map_err(|error| Rejection::field("zone", zone, error.to_string()))?;
    }
    check_bytes("comment", &spec.comment, bounds::COMMENT_BYTES)?;
    let dates = spec.holidays.len() + spec.working_days.len();
    if dates > MAX_DATES {
        let rule = format!("one calendar has at most {MAX_DATES} dates, holidays and working days together");
        return Err(Rejection::field("holidays", format!("{dates} dates"), rule));
    }
    let years = 1970..=2199;
    for (field, dates) in [("holidays", &spec.holidays), ("working_days", &spec.working_days)] {
        if let Some(at) = dates.iter().position(|date| !years.contains(&date.year())) {
            return Err(Rejection::field(format!("{field}[{at}]"), dates[at], "must be in 1970 to 2199"));
        }
    }
    let working: BTreeSet<&Date> = spec.working_days.iter().collect();
    if let Some(at) = spec.holidays.iter().position(|date| working.contains(date)) {
        let rule = "stands among the working days too; a date is one or the other";
        return Err(Rejection::field(format!("holidays[{at}]"), spec.holidays[at], rule));
    }
    Ok(())
}
