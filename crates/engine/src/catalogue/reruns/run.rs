//! What is approved is carried out: started while there is room, each batch after those that it waits for.

use tidemill_model::{
    Actor, Event, OrderedRun, RerunId, RerunPlace, RerunResult, RerunScope, RunEnd, ShardMessage, StartRun,
};

use super::{CHUNK, Rerun, Stage};
use crate::catalogue::Catalogue;

impl Catalogue {
    /// The next starts, or the end.
    pub(super) fn order_more(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        if rerun.may_start() && !rerun.free.is_empty() && rerun.room() > 0 {
            let next = rerun.free.iter().take(rerun.room().min(CHUNK));
            let runs = next.filter_map(|number| rerun.ordered_run(*number)).collect();
            return vec![Event::RunsOrdered { rerun: id, runs }];
        }
        let result = match rerun.stage {
            Stage::Cancelled => RerunResult::Cancelled,
            _ if rerun.unwell == 0 => RerunResult::Done,
            _ => RerunResult::DoneWithFailures,
        };
        vec![Event::RerunEnded { rerun: id, result, message: String::new() }]
    }

    pub(super) fn runs_ordered(&mut self, id: RerunId, runs: &[OrderedRun]) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        for run in runs {
            rerun.free.remove(&run.number);
            rerun.outstanding.insert(run.number);
            rerun.ordered += 1;
            let shard = rerun.batch(run.number).and_then(|batch| rerun.jobs[batch.job].shard);
            let start = StartRun {
                place: RerunPlace { rerun: id, number: run.number },
                job: run.job,
                logical_time: run.logical_time,
                only: rerun.wish.only,
                definition: rerun.wish.definition,
                cold_start: matches!(rerun.wish.scope, RerunScope::ColdStart { .. }),
            };
            if let Some(shard) = shard {
                self.post.send(shard, ShardMessage::StartRun(start));
            }
        }
    }

    pub(super) fn run_ended(&mut self, id: RerunId, number: u32, end: &RunEnd) {
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
        if !end.is_well() {
            rerun.unwell += 1;
            rerun.doom(&before);
            return;
        }
        for next in before {
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
            let shard = rerun.batch(*number).and_then(|batch| rerun.jobs[batch.job].shard);
            let place = RerunPlace { rerun: id, number: *number };
            if let Some(shard) = shard {
                self.post.send(shard, ShardMessage::KillRun { place, by: by.clone() });
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

    /// These are never started.
    fn doom(&mut self, numbers: &[u32]) {
        for number in numbers {
            if self.batch(*number).is_some_and(|batch| !batch.settled) {
                self.doomed.insert(*number);
            }
        }
    }
}
