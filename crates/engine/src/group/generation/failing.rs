//! GEN-4: a fire that cannot be decided is tried again three times. Then its job's timer is suspended, until the job
//! or its calendar is changed, or it is switched on anew, and people are told by the job's priority. More than ten
//! jobs within one minute are told to administrators, once a minute.

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    AlarmEvent, AlarmKind, Event, JobId, PartitionEvent, ScheduleEvent, Severity, Timestamp,
};

use crate::group::{GroupShard, Timer};

const RETRIES: u32 = 3;
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// One tick: jobs whose fires fail within one such minute are counted together.
const TICK_S: i64 = 60;
/// So many may fail in one tick before administrators are told.
const MANY: u32 = 10;
const MAX_REASON_CHARS: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Stored)]
pub(crate) struct Failed {
    pub(crate) failures: u32,
    /// When it is tried again; absent: the timer is suspended.
    pub(crate) retry_at: Option<Timestamp>,
}

/// How many jobs failed in the newest tick.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Tick {
    number: i64,
    jobs: u32,
}

impl Tick {
    fn jobs_at(&self, now: Timestamp) -> u32 {
        if self.number == number(now) { self.jobs } else { 0 }
    }
}

fn number(now: Timestamp) -> i64 {
    now.as_second().div_euclid(TICK_S)
}

impl GroupShard {
    /// What follows from a fire on which the rules failed.
    pub(crate) fn generation_failed(&self, id: JobId, reason: &str, now: Timestamp) -> Vec<Event> {
        let entity = Timer::Fire(id).entity();
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        let suspended = |reason| Event::Partition(PartitionEvent::TimerSuspended { entity, reason });
        let known = self.jobs.get(&id).and_then(|job| Some((job, job.next?)));
        let Some((job, next)) = known else { return vec![suspended(reason)] };
        let failures = job.failed.map_or(0, |failed| failed.failures) + 1;
        let retry_at = now.saturating_add(RETRY_AFTER).ok().filter(|_| failures <= RETRIES);
        let (logical_time, told) = (next.logical_time, reason.clone());
        let mut events = vec![Event::Schedule(ScheduleEvent::GenerationFailed {
            job: id,
            logical_time,
            failures,
            reason: told,
            retry_at,
        })];
        if retry_at.is_none() {
            let message = format!(
                "generation failed: {} makes no batch for {logical_time} or later, tried {failures} times: {reason}",
                job.definition.full_name()
            );
            events.push(suspended(reason));
            // ALM-3: the upper half of priorities by SMS and mail, the lower by mail.
            let is_important = u8::from(job.definition.spec.priority) < 5;
            let severity = if is_important { Severity::Important } else { Severity::Notice };
            events.push(alarm(AlarmKind::GenerationFailed, severity, Some(id), message));
        }
        if failures == 1 && self.generation.failing.jobs_at(now) == MANY {
            let message = format!(
                "generation of more than {MANY} jobs failed within a minute, last of {}",
                job.definition.full_name()
            );
            events.push(alarm(AlarmKind::GenerationsFailing, Severity::Critical, None, message));
        }
        events
    }

    pub(crate) fn apply_generation_failed(
        &mut self,
        now: Timestamp,
        id: JobId,
        failures: u32,
        retry_at: Option<Timestamp>,
    ) {
        if failures == 1 {
            self.generation.failing =
                Tick { number: number(now), jobs: self.generation.failing.jobs_at(now) + 1 };
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let timer = Timer::Fire(id);
        self.timers.cancel(job.fires_at(), timer);
        job.failed = Some(Failed { failures, retry_at });
        self.timers.set(retry_at, timer);
    }
}

fn alarm(kind: AlarmKind, severity: Severity, job: Option<JobId>, message: String) -> Event {
    Event::Alarm(AlarmEvent::Raised { kind, severity, job, batch: None, worker: None, message })
}
