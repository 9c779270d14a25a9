//! Which fires count: a definition's validity and the days of its calendar, judged a second time; and that a shard
//! follows the calendars it was told.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan};
use tidemill_model::{
    Calendar, CalendarDays, CalendarName, CalendarSpec, CalendarUse, Fire, Firing, JobId, Shift, Timestamp,
    Weekday,
};

use super::Shard;
use super::job::Version;
use crate::calendar::words;
use crate::{At, Invariant};

/// How far a shift looks.
const SHIFT_DAYS: i64 = 31;
/// Fires that are looked at before it is said that nothing is known.
const LOOKED_AT: usize = 200_000;

/// The calendars of one shard; of the catalogue, those that it has defined.
#[derive(Debug, Default)]
pub(super) struct Calendars {
    known: HashMap<CalendarName, Known>,
    /// The last version that any got.
    version: u32,
    /// Jobs whose next fire must be computed anew.
    moving: BTreeSet<JobId>,
}

impl Calendars {
    /// Whether the shard has the calendar that this version names, or the version names none.
    pub(super) fn has_that_of(&self, version: &Version) -> bool {
        version.days().is_none_or(|used| self.known.contains_key(&used.name))
    }
}

#[derive(Debug)]
struct Known {
    version: u32,
    spec: CalendarSpec,
    said: u64,
}

/// What becomes of a fire of the plain schedule.
enum Placed {
    /// It is due.
    At(Fire),
    /// It makes no batch, nor does any other with a logical time up to this one.
    Out(Timestamp),
    /// It and all after it make none.
    Over,
    /// It cannot be told here.
    Unknown,
}

fn is_working(spec: &CalendarSpec, date: Date) -> bool {
    const WEEK: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];
    let weekday = WEEK[date.weekday().to_monday_zero_offset() as usize];
    spec.working_days.contains(&date) || (spec.week.contains(&weekday) && !spec.holidays.contains(&date))
}

fn fits(spec: &CalendarSpec, used: &CalendarUse, zone: &TimeZone, at: Timestamp) -> bool {
    is_working(spec, zone.to_datetime(at.jiff()).date()) == (used.on == CalendarDays::WorkingDays)
}

/// The last instant of the day that it lies in; that instant itself where the zone's rules end.
fn end_of_day(zone: &TimeZone, at: Timestamp) -> Timestamp {
    let morrow = zone.to_datetime(at.jiff()).date().tomorrow().and_then(|date| date.to_zoned(zone.clone()));
    morrow.map_or(at, |start| Timestamp::from(start.timestamp()).previous().max(at))
}

impl Shard {
    /// The fire to come after one for `logical_time`; the outer `None`: not known here.
    pub(super) fn fire_after(&self, version: &Version, logical_time: Timestamp) -> Option<Option<Fire>> {
        let calendar = version.calendar.as_ref()?;
        let mut time = logical_time;
        for _ in 0..LOOKED_AT {
            let Some(fire) = calendar.fire_after(time)? else { return Some(None) };
            match self.placed(version, fire) {
                Placed::At(fire) => return Some(Some(fire)),
                Placed::Out(until) => time = until,
                Placed::Over => return Some(None),
                Placed::Unknown => return None,
            }
        }
        None
    }

    /// The first fire due after an instant; the outer `None`: not known here.
    pub(super) fn first_due(&self, version: &Version, now: Timestamp) -> Option<Option<Fire>> {
        let firing = version.firing.as_ref();
        let Some(firing) = firing else { return version.calendar.as_ref()?.first_after(now) };
        let shifts = firing.calendar.as_ref().is_some_and(|used| used.shift != Shift::None);
        let back = SignedDuration::from_hours(if shifts { 24 * (SHIFT_DAYS + 2) } else { 1 });
        let mut time = now.checked_sub(back).ok()?;
        for _ in 0..LOOKED_AT {
            match self.fire_after(version, time)? {
                Some(fire) if fire.at <= now => time = fire.logical_time,
                first => return Some(first),
            }
        }
        None
    }

    /// How many fires in a span of logical times make batches, or are left out by day; `None`: not known.
    pub(super) fn count(
        &self,
        version: &Version,
        (from, to): (Timestamp, Timestamp),
        left_out: bool,
        most: u64,
    ) -> Option<u64> {
        let calendar = version.calendar.as_ref()?;
        // What a calendar left out may be what an earlier version of it left out.
        if version.firing.is_none() || left_out {
            return calendar.count(from, to, most);
        }
        // The first was to come already, perhaps by what the calendar said before.
        let mut time = from;
        let (mut count, mut seen) = (1, 0);
        while let Some(fire) = calendar.fire_after(time)?.filter(|fire| fire.logical_time <= to) {
            seen += 1;
            match self.placed(version, fire) {
                Placed::At(_) => count += 1,
                Placed::Out(_) | Placed::Over => {}
                Placed::Unknown => return None,
            }
            if seen > most {
                return None;
            }
            time = fire.logical_time;
        }
        Some(count)
    }

    fn placed(&self, version: &Version, fire: Fire) -> Placed {
        let Some(firing) = &version.firing else { return Placed::At(fire) };
        let fire = match (&firing.calendar, &version.schedule) {
            (None, _) => fire,
            (Some(used), Some(schedule)) => {
                let Some(known) = self.calendars.known.get(&used.name) else { return Placed::Unknown };
                let zone = known.spec.zone.as_ref().unwrap_or(&schedule.zone);
                let zones = TimeZone::get(zone).and_then(|days| Ok((days, TimeZone::get(&schedule.zone)?)));
                let Ok((days, own)) = zones else { return Placed::Unknown };
                match shifted(&known.spec, used, (&days, &own), fire) {
                    Some(fire) => fire,
                    None if used.shift == Shift::None => {
                        return Placed::Out(end_of_day(&days, fire.logical_time));
                    }
                    None => return Placed::Out(fire.logical_time),
                }
            }
            (Some(_), None) => return Placed::Unknown,
        };
        let Firing { valid_from, valid_until, .. } = firing;
        if valid_until.is_some_and(|until| fire.at >= until) {
            Placed::Over
        } else if valid_from.is_some_and(|from| fire.at < from) {
            Placed::Out(fire.logical_time)
        } else {
            Placed::At(fire)
        }
    }

    /// `versions_rise`, as the catalogue counts them over all calendars.
    pub(super) fn calendar_defined(&mut self, at: &At<'_>, calendar: &Calendar) {
        if calendar.version <= self.calendars.version {
            let why = format!("calendar {calendar} comes after version {}", self.calendars.version);
            at.breaks(Invariant::VersionsRise, why);
        }
        self.calendars.version = calendar.version;
    }

    pub(super) fn calendar_replicated(&mut self, at: &At<'_>, calendar: &Calendar) {
        let name = &calendar.spec.name;
        let old = self.calendars.known.get(name).map(|old| (old.version, old.said));
        if let Some((version, said)) = old.filter(|(version, _)| calendar.version <= *version) {
            let why = format!("calendar {calendar} is received after version {version}");
            at.contradicts(Invariant::VersionsRise, why, &[said]);
        }
        let known = Known { version: calendar.version, spec: calendar.spec.clone(), said: at.offset };
        self.calendars.known.insert(name.clone(), known);
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.enabled && !job.removed) {
            let used = job.newest().and_then(|version| version.days());
            if used.is_some_and(|used| used.name == *name) {
                self.calendars.moving.insert(*id);
            }
        }
    }

    pub(super) fn calendar_dropped(&mut self, at: &At<'_>, name: &CalendarName) {
        if self.calendars.known.remove(name).is_none() {
            let why = format!("calendar {name} is forgotten, and was not known");
            at.breaks(Invariant::VersionsRise, why);
        }
    }

    /// `calendars_followed`: what is due stays, anything else is the first fire from now on.
    pub(super) fn schedule_rescheduled(&mut self, at: &At<'_>, id: JobId, next: Option<Fire>) {
        let rule = Invariant::CalendarsFollowed;
        if !self.calendars.moving.remove(&id) {
            at.breaks(rule, format!("the fire of job {id} moves, and its calendar has not changed"));
        }
        let Some(job) = self.jobs.get(&id) else { return };
        let due = job.next.filter(|due| due.at <= at.now);
        let anew = |version: &Version| {
            let shifts = version.days().is_some_and(|used| used.shift != Shift::None);
            match job.next.filter(|_| shifts) {
                Some(next) => self.fire_after(version, next.logical_time.previous()),
                None => self.first_due(version, at.now),
            }
        };
        let expected = match due {
            Some(due) => Some(Some(due)),
            None => job.newest().and_then(|version| anew(version)),
        };
        if let Some(expected) = expected.filter(|expected| *expected != next) {
            let why = format!("the fire of job {id} moves to {}, should to {}", words(next), words(expected));
            at.contradicts(rule, why, &[job.next_said]);
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            (job.next, job.next_said, job.suspended, job.failures) = (next, at.offset, false, 0);
        }
    }

    /// Its next fire was computed anew, for another reason.
    pub(super) fn fire_settled(&mut self, id: JobId) {
        self.calendars.moving.remove(&id);
    }

    /// `calendars_followed`: a batch names the version of its job's calendar.
    pub(super) fn calendar_on_record(
        &self,
        at: &At<'_>,
        (id, version): (JobId, &Version),
        said: Option<u32>,
    ) {
        let used = version.days();
        let known = used.and_then(|used| self.calendars.known.get(&used.name)).map(|known| known.version);
        if known != said {
            let why =
                format!("a batch of job {id} names version {said:?} of its calendar, and {known:?} is known");
            at.breaks(Invariant::CalendarsFollowed, why);
        }
    }

    /// `calendars_followed`, at quiescence: every changed calendar has moved its jobs' fires.
    pub(super) fn calendars_followed(&self, at: &At<'_>) {
        for job in &self.calendars.moving {
            let why =
                format!("the calendar of job {job} has changed, and its next fire was not computed anew");
            at.breaks(Invariant::CalendarsFollowed, why);
        }
    }
}

/// The fire where the days have it; `None`: nowhere.
fn shifted(
    spec: &CalendarSpec,
    used: &CalendarUse,
    (days, own): (&TimeZone, &TimeZone),
    fire: Fire,
) -> Option<Fire> {
    if fits(spec, used, days, fire.logical_time) {
        return Some(fire);
    }
    let step = match used.shift {
        Shift::None => return None,
        Shift::Next => 1,
        Shift::Previous => -1,
    };
    let local = own.to_datetime(fire.logical_time.jiff());
    (1..=SHIFT_DAYS).find_map(|distance| {
        let moved = local.checked_add((step * distance).days()).ok()?;
        let moved = Timestamp::from(own.to_ambiguous_timestamp(moved).compatible().ok()?);
        let at = moved.checked_add(fire.at.duration_since(fire.logical_time)).ok()?;
        fits(spec, used, days, moved).then_some(Fire { at, ..fire })
    })
}
