//! Calendars: defined once, numbered, and sent to the shards whose jobs use them (BYD-2).
//!
//! *Invariant:* a shard gets a calendar before the first job that uses it, and every later version of it, for both
//! travel in one outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::civil::Date;
use tidemill_calendar::{Days, Zone};
use tidemill_model::{
    Answer, Calendar, CalendarName, CalendarSpec, CalendarUse, CatalogueEvent, Event, JobDefinition,
    Rejection, ShardId, ShardMessage, bounds,
};

use super::Catalogue;
use crate::decision::Decision;

const MAX_CALENDARS: usize = 1_000;
/// Dates of one calendar.
const MAX_DATES: usize = 4_000;
/// Jobs that a refusal names.
const NAMED_JOBS: usize = 10;

/// All calendars.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Calendars {
    known: BTreeMap<CalendarName, Known>,
    /// The last version that any calendar got, so that a name that comes back never gets one again.
    version: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    calendar: Arc<Calendar>,
    days: Option<Arc<Days>>,
    /// Those that have it.
    shards: BTreeSet<ShardId>,
}

impl Calendars {
    /// The days of a calendar.
    pub(super) fn days(&self, name: &CalendarName) -> Option<Arc<Days>> {
        self.known.get(name)?.days.clone()
    }

    /// The shards that have it.
    pub(super) fn shards(&self, name: &CalendarName) -> BTreeSet<ShardId> {
        self.known.get(name).map(|known| known.shards.clone()).unwrap_or_default()
    }

    /// Working days from Monday to Friday, for checks where no calendar is known.
    pub(super) fn suppose(&mut self, name: &CalendarName) {
        let spec = CalendarSpec {
            name: name.clone(),
            zone: None,
            comment: String::new(),
            week: tidemill_model::Weekday::WORKING.to_vec(),
            holidays: Vec::new(),
            working_days: Vec::new(),
        };
        self.insert(&Arc::new(Calendar { version: 1, spec }));
    }

    fn insert(&mut self, calendar: &Arc<Calendar>) -> BTreeSet<ShardId> {
        let days = Days::try_from(calendar.as_ref()).ok().map(Arc::new);
        let shards = self.known.remove(&calendar.spec.name).map(|old| old.shards).unwrap_or_default();
        let known = Known { calendar: Arc::clone(calendar), days, shards: shards.clone() };
        self.known.insert(calendar.spec.name.clone(), known);
        self.version = self.version.max(calendar.version);
        shards
    }
}

impl Catalogue {
    pub(super) fn define_calendar(&self, written: &CalendarSpec) -> Result<Decision, Rejection> {
        check(written)?;
        let spec = written.clone().sorted();
        let old = self.calendars.known.get(&spec.name);
        if let Some(same) = old.filter(|old| old.calendar.spec == spec) {
            let version = same.calendar.version;
            return Ok(Decision::answered(Vec::new(), Answer::Calendar { version }));
        }
        if old.is_none() && self.calendars.known.len() >= MAX_CALENDARS {
            let what = "the number of calendars".to_owned();
            return Err(Rejection::LimitReached { what, limit: MAX_CALENDARS as u64 });
        }
        let version = self.calendars.version + 1;
        let calendar = Arc::new(Calendar { version, spec });
        Ok(Decision::answered(
            vec![Event::Catalogue(CatalogueEvent::CalendarDefined { calendar })],
            Answer::Calendar { version },
        ))
    }

    pub(super) fn delete_calendar(&self, name: &CalendarName) -> Result<Decision, Rejection> {
        if !self.calendars.known.contains_key(name) {
            return Err(Rejection::unknown("calendar", name));
        }
        let uses = |definition: &JobDefinition| {
            definition.spec.calendar.as_ref().is_some_and(|used| used.name == *name)
        };
        let users: Vec<String> = self
            .jobs
            .values()
            .filter(|job| uses(&job.definition))
            .take(NAMED_JOBS)
            .map(|job| job.definition.full_name())
            .collect();
        if !users.is_empty() {
            let reason = format!("{} use it; let them keep to another one first", users.join(", "));
            return Err(Rejection::CalendarInUse { calendar: name.to_string(), reason });
        }
        Ok(Decision::answered(
            vec![Event::Catalogue(CatalogueEvent::CalendarDeleted { name: name.clone() })],
            Answer::Done,
        ))
    }

    pub(super) fn calendar_defined(&mut self, calendar: &Arc<Calendar>) {
        self.revision += 1;
        for shard in self.calendars.insert(calendar) {
            self.mailbox.send(shard, ShardMessage::Calendar { calendar: Arc::clone(calendar) });
        }
    }

    pub(super) fn calendar_deleted(&mut self, name: &CalendarName) {
        self.revision += 1;
        let known = self.calendars.known.remove(name);
        for shard in known.map(|known| known.shards).unwrap_or_default() {
            self.mailbox.send(shard, ShardMessage::DropCalendar { name: name.clone() });
        }
    }

    /// Sends the calendar that a definition names, where its shard does not have it yet.
    pub(super) fn send_calendar_of(&mut self, definition: &JobDefinition) {
        let Some(shard) = self.groups.get(&definition.spec.group).map(|group| group.shard) else { return };
        self.send_calendar(shard, definition.spec.calendar.as_ref());
    }

    /// The same of any use.
    pub(super) fn send_calendar(&mut self, shard: ShardId, used: Option<&CalendarUse>) {
        let Some(used) = used else { return };
        let Some(known) = self.calendars.known.get_mut(&used.name) else { return };
        if known.shards.insert(shard) {
            let calendar = Arc::clone(&known.calendar);
            self.mailbox.send(shard, ShardMessage::Calendar { calendar });
        }
    }
}

fn check(spec: &CalendarSpec) -> Result<(), Rejection> {
    if let Some(zone) = &spec.zone {
        Zone::try_from(zone.as_str()).map_err(|error| Rejection::field("zone", zone, error.to_string()))?;
    }
    if spec.comment.len() > bounds::COMMENT_BYTES {
        let rule = format!("must be at most {} bytes", bounds::COMMENT_BYTES);
        return Err(Rejection::field("comment", &spec.comment, rule));
    }
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
