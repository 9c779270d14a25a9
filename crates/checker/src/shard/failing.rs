//! A fire that cannot be decided: tried again three times, then suspended and told.

use tidemill_model::{AlarmKind, JobId, Timestamp};

use super::Shard;
use crate::Invariant;
use crate::at::At;

const TRIES: u32 = 4;
const MANY: u32 = 10;

/// What must follow a fire that has failed for good, and how many jobs failed in the newest minute.
#[derive(Debug, Default)]
pub(super) struct Failing {
    suspends: Option<JobId>,
    tells: Option<JobId>,
    minute: i64,
    jobs: u32,
    many_told: bool,
}

impl Shard {
    /// `failing_generation_told`
    pub(super) fn generation_failed(
        &mut self,
        at: &At<'_>,
        (id, logical_time): (JobId, Timestamp),
        failures: u32,
        retry_at: Option<Timestamp>,
    ) {
        let rule = Invariant::FailingGenerationTold;
        let minute = at.now.as_second().div_euclid(60);
        if minute != self.failing.minute {
            self.failing = Failing { minute, ..Failing::default() };
        }
        self.failing.jobs += u32::from(failures == 1);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut job.failures, failures);
        let due = job.next.map(|next| next.logical_time);
        let why = if due != Some(logical_time) {
            format!("it is due for {due:?}")
        } else if failures != before + 1 {
            format!("it had failed {before} times")
        } else if retry_at.is_some() != (failures < TRIES) {
            format!("it has failed {failures} times, and is tried again at {retry_at:?}")
        } else if retry_at.is_some_and(|retry_at| retry_at <= at.now) {
            "it is tried again at once".to_owned()
        } else {
            String::new()
        };
        if !why.is_empty() {
            let said = job.next_said;
            let why = format!("the fire of job {id} for {logical_time} fails, and {why}");
            at.contradicts(rule, why, &[said]);
        }
        self.failing.suspends = retry_at.is_none().then_some(id);
    }

    /// `failing_generation_told`: the timer's suspension follows.
    pub(super) fn failing_suspended(&mut self, entity: &str) {
        let suspends = self.failing.suspends.take_if(|job| entity == format!("job/{job}"));
        self.failing.tells = suspends;
    }

    /// `failing_generation_told`: an alarm is about what was just said, and there is one.
    pub(super) fn failing_told(&mut self, at: &At<'_>, kind: AlarmKind, job: Option<JobId>) {
        let is_owed = match kind {
            AlarmKind::GenerationFailed => job.is_some() && self.failing.tells.take() == job,
            _ => self.failing.jobs == MANY + 1 && !std::mem::replace(&mut self.failing.many_told, true),
        };
        if !is_owed {
            let why = format!("an alarm is raised, {kind:?} of {job:?}, for nothing that failed before it");
            at.breaks(Invariant::FailingGenerationTold, why);
        }
    }

    /// `failing_generation_told`: nothing comes between.
    pub(super) fn failing_is_not_owed(&mut self, at: &At<'_>) {
        let owed = self.failing.suspends.take().or(self.failing.tells.take());
        if let Some(job) = owed {
            let why = format!("job {job} failed for the last time, and nobody is told");
            at.breaks(Invariant::FailingGenerationTold, why);
        }
    }
}
