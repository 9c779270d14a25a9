//! What is approved is carried out: started while there is room, each batch after those that it waits for.

use tidemill_model::{
    Actor, Event, OrderedRun, RerunDefinition, RerunEvent, RerunId, RerunPlace, RerunResult, RerunScope,
    RunOutcome, ShardId, ShardMessage, StartRun,
};

use super::{CHUNK, Rerun, Stage};
use crate::catalogue::Catalogue;

impl Catalogue {
    pub(super) fn order_more(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        if rerun.may_start() && !rerun.free.is_empty() && rerun.room() > 0 {
            let next = rerun.free.iter().take(rerun.room().min(CHUNK));
            let runs = next.filter_map(|number| rerun.ordered_run(*number)).collect();
            return vec![Event::Rerun(RerunEvent::RunsRequested { rerun: id, runs })];
        }
        let result = match rerun.stage {
            Stage::Cancelled => RerunResult::Cancelled,
            _ if rerun.unwell == 0 => RerunResult::Done,
            _ => RerunResult::DoneWithFailures,
        };
        vec![Event::Rerun(RerunEvent::Finished { rerun: id, result, message: String::new() })]
    }

    pub(super) fn runs_requested(&mut self, id: RerunId, runs: &[OrderedRun]) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        for run in runs {
            rerun.free.remove(&run.number);
            rerun.outstanding.insert(run.number);
            rerun.ordered += 1;
            let start = StartRun {
                place: RerunPlace { rerun: id, number: run.number },
                job: run.job,
                logical_time: run.logical_time,
                only: rerun.spec.only,
                definition: rerun.spec.definition,
                cold_start: matches!(rerun.spec.scope, RerunScope::ColdStart { .. }),
            };
            if let Some(shard) = rerun.shard_of(run.number) {
                self.mailbox.send(shard, ShardMessage::StartRun(start));
            }
        }
    }

    pub(super) fn run_finished(&mut self, id: RerunId, number: u32, end: &RunOutcome) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        if !rerun.outstanding.remove(&number) {
            return;
        }
        rerun.ended += 1;
        if planted!(PermitReturnedTwice) {
            rerun.ended = (rerun.ended + 1).min(rerun.ordered);
        }
        rerun.settled += 1;
        let Some(batch) = rerun.batch_mut(number) else { return };
        batch.settled = true;
        let before = std::mem::take(&mut batch.before);
        let is_well = end.is_well();
        rerun.unwell += u32::from(!is_well);
        let has_run = matches!(end, RunOutcome::Finished { .. });
        let goes_on = |next: &u32| is_well || (has_run && rerun.bears_failure(*next, number));
        let (free, doomed): (Vec<u32>, Vec<u32>) = before.into_iter().partition(goes_on);
        rerun.doom(&doomed);
        for next in free {
            let Some(waiting) = rerun.batch_mut(next) else { continue };
            waiting.waits = waiting.waits.saturating_sub(1);
            if waiting.waits == 0 && !waiting.settled {
                rerun.free.insert(next);
            }
        }
    }

    pub(super) fn runs_blocked(&mut self, id: RerunId, numbers: &[u32]) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        for number in numbers {
            rerun.doomed.remove(number);
            let Some(batch) = rerun.batch_mut(*number).filter(|batch| !batch.settled) else { continue };
            batch.settled = true;
            let before = std::mem::take(&mut batch.before);
            rerun.settled += 1;
            rerun.unwell += 1;
            rerun.doom(&before);
        }
    }

    /// What was ordered is answered all the same; with `kill` it is also ended.
    pub(super) fn rerun_cancelled(&mut self, id: RerunId, by: &Actor, kill: bool) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        rerun.stage = Stage::Cancelled;
        if !kill {
            return;
        }
        for number in &rerun.outstanding {
            let place = RerunPlace { rerun: id, number: *number };
            if let Some(shard) = rerun.shard_of(*number) {
                self.mailbox.send(shard, ShardMessage::KillRun { place, by: by.clone() });
            }
        }
    }
}

impl Rerun {
    fn ordered_run(&self, number: u32) -> Option<OrderedRun> {
        let batch = self.batch(number)?;
        let job = self.jobs[batch.job].definition.id;
        Some(OrderedRun { number, job, logical_time: batch.time })
    }

    fn shard_of(&self, number: u32) -> Option<ShardId> {
        self.jobs[self.batch(number)?.job].shard
    }

    /// BYD-18: whether the job of a planned batch says what it does when this one, of a parent, failed: then its group
    /// decides, and the plan goes on. A recorded definition may say otherwise than today's, so there it does not.
    fn bears_failure(&self, next: u32, failed: u32) -> bool {
        let (Some(next), Some(failed)) = (self.batch(next), self.batch(failed)) else { return false };
        let definition = &self.jobs[next.job].definition;
        let parent = self.jobs[failed.job].definition.id;
        self.spec.definition == RerunDefinition::Today
            && next.job != failed.job
            && definition.spec.has_failure_rule()
            && definition.parents.iter().any(|known| known.job == parent)
    }

    fn doom(&mut self, numbers: &[u32]) {
        for number in numbers {
            if self.batch(*number).is_some_and(|batch| !batch.settled) {
                self.doomed.insert(*number);
            }
        }
    }
}
