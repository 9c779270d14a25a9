//! The calendars that the shard's jobs keep to (BYD-2). When one changes, the next fires of its jobs are computed
//! anew, one small decision each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::{Days, Timetable};
use tidemill_derive::Stored;
use tidemill_model::{
    Calendar, CalendarName, Event, Fire, Firing, JobDefinition, JobId, ScheduleEvent, ScheduleSpec, Timestamp,
};

use crate::group::GroupShard;
use crate::group::jobs::Jobs;

/// What the shard knows of calendars.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Calendars {
    known: BTreeMap<CalendarName, Arc<Days>>,
    /// Jobs whose next fire is to be computed anew.
    moved: BTreeSet<JobId>,
}

impl Calendars {
    /// When the batches of a job are due; `None`: it has no schedule, or one that this version cannot read.
    pub(crate) fn timetable(&self, definition: &JobDefinition) -> Option<Arc<Timetable>> {
        let days = |name: &CalendarName| self.known.get(name).cloned();
        Timetable::of(definition, days).ok().flatten().map(Arc::new)
    }

    /// The same of a schedule and how it is followed.
    pub(crate) fn timetable_of(
        &self,
        spec: &ScheduleSpec,
        firing: Option<&Firing>,
    ) -> Option<Arc<Timetable>> {
        let days = |name: &CalendarName| self.known.get(name).cloned();
        Timetable::from_spec(spec, firing, days).ok().map(Arc::new)
    }

    /// The next job whose next fire is to be computed anew.
    pub(crate) fn next_moved(&self) -> Option<JobId> {
        self.moved.first().copied()
    }

    /// Whether its next fire is to be computed anew.
    pub(crate) fn is_moved(&self, job: JobId) -> bool {
        self.moved.contains(&job)
    }

    /// Its next fire is known, or it has none.
    pub(crate) fn settled(&mut self, job: JobId) {
        self.moved.remove(&job);
    }
}

impl Jobs {
    pub(crate) fn calendar_dropped(&mut self, name: &CalendarName) {
        self.calendars.known.remove(name);
    }

    /// The next fire of a job whose calendar has changed. What is due already is not moved any more.
    pub(crate) fn schedule_rescheduled(&self, id: JobId, now: Timestamp) -> Vec<Event> {
        let Some(job) = self.get(&id) else { return Vec::new() };
        vec![Event::Schedule(ScheduleEvent::Rescheduled {
            job: id,
            next: anew(job.schedule.as_deref(), job.next, now),
        })]
    }
}

impl GroupShard {
    pub(crate) fn calendar_replicated(&mut self, calendar: &Calendar) {
        self.generation.grids.forget();
        let name = &calendar.spec.name;
        match Days::try_from(calendar) {
            Ok(days) => {
                let days = Arc::new(days);
                self.dependencies.foreign_calendar(&days);
                self.jobs.calendars.known.insert(name.clone(), days)
            }
            Err(_) => self.jobs.calendars.known.remove(name),
        };
        for (id, job) in &mut self.jobs.by_id {
            if job.definition.spec.calendar.as_ref().is_none_or(|used| used.name != *name) {
                continue;
            }
            job.schedule = self.jobs.calendars.timetable(&job.definition);
            if job.enabled && !job.removed {
                self.jobs.calendars.moved.insert(*id);
            }
        }
    }
}

/// The fire to come of a job whose calendar may have changed.
pub(crate) fn anew(timetable: Option<&Timetable>, next: Option<Fire>, now: Timestamp) -> Option<Fire> {
    let due = next.filter(|next| next.at <= now);
    let anew = || {
        let timetable = timetable?;
        match next.filter(|_| timetable.shifts()) {
            // None of its logical times is lost, though one may have been due already.
            Some(next) => timetable.at_or_after_logical(next.logical_time),
            None => timetable.first_after(now),
        }
    };
    due.or_else(anew)
}
