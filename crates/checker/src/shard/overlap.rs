//! What a fire does while an earlier scheduled batch of its job is unfinished.

use tidemill_model::{BatchId, JobId, Overlap, SkipReason};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;

impl Shard {
    /// The unfinished batches of the job that its schedule made and nobody ends.
    fn earlier(&self, id: JobId) -> Vec<BatchId> {
        let scheduled = |(of, batch): (&BatchId, &super::batch::Batch)| {
            let run = self.runs.get(&(batch.job, batch.time)).filter(|run| run.batch == *of);
            (batch.job == id && batch.kill.is_none() && run.is_some_and(|run| run.number == 0)).then_some(*of)
        };
        let mut earlier: Vec<_> = self.batches.iter().filter_map(scheduled).collect();
        earlier.sort_unstable();
        earlier
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
            SkipReason::Overlap if !self.has_unfinished(id) => "none is unfinished".to_owned(),
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
            SkipReason::Overlap
            | SkipReason::Policy
            | SkipReason::TooOld
            | SkipReason::TooMany
            | SkipReason::RunByHand
            | SkipReason::Calendar => return,
        };
        let why = format!("fires of job {id} are skipped as {reason:?}, and {why}");
        at.breaks(Invariant::OverlapsAsTheJobSays, why);
    }

    fn has_unfinished(&self, id: JobId) -> bool {
        self.batches.values().any(|batch| batch.job == id)
    }
}

/// Whether its fires are due later than their logical times.
fn is_period(version: &Version) -> bool {
    let rule = version.schedule.as_ref().map(|schedule| &schedule.rule);
    matches!(rule, Some(tidemill_model::ScheduleRule::Period(_)))
}
