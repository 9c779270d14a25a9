//! What a fire does while an earlier scheduled batch of its job is unfinished.

use tidemill_model::{BatchId, JobId, Overlap, SkipReason};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;

impl Shard {
    /// The unfinished batches of the job that its schedule made and nobody ends.
    fn earlier(&self, id: JobId) -> Vec<BatchId> {
        let is_scheduled = |of: &BatchId| {
            let batch = self.batches.get(of).filter(|batch| batch.kill.is_none());
            let run = batch.and_then(|batch| self.runs.get(&(id, batch.time)));
            run.is_some_and(|run| run.batch == *of && run.number == 0)
        };
        self.unfinished.get(&id).into_iter().flatten().copied().filter(is_scheduled).collect()
    }

    /// `overlaps_as_the_job_says`, when a schedule makes a batch.
    pub(super) fn overlaps(&self, at: &At<'_>, (id, version): (JobId, &Version)) {
        let what = match version.overlap {
            Overlap::Queue | Overlap::Allow => return,
            Overlap::Skip => "is to skip its fires while one is unfinished",
            Overlap::CancelOld => "is to end the earlier ones first",
        };
        if let Some(earlier) = self.earlier(id).first() {
            let why = format!("job {id} {what}, and gets a batch while {earlier} goes on");
            at.breaks(Invariant::OverlapsAsTheJobSays, why);
        }
    }

    /// `overlaps_as_the_job_says`, when fires make none.
    pub(super) fn skipped_for(
        &self,
        at: &At<'_>,
        (id, version): (JobId, &Version),
        (reason, to): (SkipReason, tidemill_model::Timestamp),
    ) {
        let why = match reason {
            SkipReason::Overlap if version.overlap != Overlap::Skip => "its job does not skip".to_owned(),
            SkipReason::Overlap if !self.unfinished.contains_key(&id) => "none is unfinished".to_owned(),
            SkipReason::TooLate => match version.max_lateness_s {
                None => "its job sets no such bound".to_owned(),
                Some(most)
                    if i128::from(most) * 1_000_000_000 > at.now.duration_since(to).as_nanos() + 999_999
                        && version.firing.as_ref().is_none_or(|firing| firing.calendar.is_none())
                        && !is_period(version) =>
                {
                    format!("{to} is within {most} s of {}", at.now)
                }
                Some(_) => return,
            },
            _ => return,
        };
        let why = format!("fires of job {id} are skipped as {reason:?}, and {why}");
        at.breaks(Invariant::OverlapsAsTheJobSays, why);
    }
}

/// Whether its fires are due later than their logical times.
fn is_period(version: &Version) -> bool {
    let rule = version.schedule.as_ref().map(|schedule| &schedule.rule);
    matches!(rule, Some(tidemill_model::ScheduleRule::Period(_)))
}
