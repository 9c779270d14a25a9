//! When a job runs, as people write it.

use tidemill_derive::vocabulary;

use super::JobSpec;
use crate::{Firing, Period, ScheduleRule, ScheduleSpec, bounds};

/// The zone of a schedule that names none.
pub(super) const UTC: &str = "UTC";

/// When a job runs, as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct ScheduleInput {
    /// A fixed period; either this or `cron`.
    pub period: Option<Period>,
    /// A Quartz cron expression; either this or `period`.
    #[schemars(length(max = bounds::CRON_BYTES))]
    pub cron: Option<String>,
    /// IANA zone; absent: the configured default.
    pub zone: Option<String>,
}

impl JobSpec {
    /// When it runs, if it has a schedule: one with both rules or none, which is never accepted, counts as a period.
    pub fn schedule_spec(&self) -> Option<ScheduleSpec> {
        let ScheduleInput { period, cron, zone } = self.schedule.as_ref()?;
        let rule = period.map(ScheduleRule::Period).or_else(|| cron.clone().map(ScheduleRule::Cron))?;
        Some(ScheduleSpec { rule, zone: zone.clone().unwrap_or_else(|| UTC.to_owned()) })
    }

    /// What leaves logical times of its schedule out.
    pub fn firing(&self) -> Option<Firing> {
        let Self { valid_from, valid_until, calendar, .. } = self;
        let firing =
            Firing { valid_from: *valid_from, valid_until: *valid_until, calendar: calendar.clone() };
        (firing != Firing::default()).then_some(firing)
    }
}
