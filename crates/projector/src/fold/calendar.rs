//! Calendars.

use tidemill_model::{CatalogueEvent, Event};
use tidemill_store::rows::{CalendarRow, CalendarVersionRow};

use super::job::json;
use super::{Caches, Place};

impl Caches {
    pub(super) fn apply_calendar(&mut self, at: Place, event: &Event) {
        match event {
            Event::Catalogue(CatalogueEvent::CalendarDefined { calendar }) => {
                let spec = &calendar.spec;
                let dates = spec.holidays.len() + spec.working_days.len();
                let version = CalendarVersionRow {
                    name: spec.name.as_str().into(),
                    version: i64::from(calendar.version),
                    time_zone: spec.zone.as_deref().map(Into::into),
                    comment: spec.comment.as_str().into(),
                    dates: i64::try_from(dates).expect("a calendar is bounded in size"),
                    definition: json(spec),
                    defined_at: at.now,
                    defined_by: self.requester(),
                };
                self.calendars.put(CalendarRow {
                    name: version.name.clone(),
                    version: version.version,
                    time_zone: version.time_zone.clone(),
                    comment: version.comment.clone(),
                    dates: version.dates,
                    definition: version.definition.clone(),
                    changed_at: at.now,
                });
                self.calendar_versions.put(version);
            }
            Event::Catalogue(CatalogueEvent::CalendarDeleted { name }) => {
                self.calendars.remove((name.as_str().into(),))
            }
            other => unreachable!("{} is not about calendars", other.kind()),
        }
    }
}
