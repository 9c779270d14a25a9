//! What the state itself asks for: waiters to be told, children to be generated, timers that are due,
//! anchors to be completed, and ready batches for which there is a slot. One small decision at a time.

use tidemill_model::{
    BatchId, BatchResult, Event, FinalResult, JobId, JobType, PermitEvent, PoolName, ReturnReason, Timestamp,
    WorkerEvent, WorkerId,
};

use super::batches::apply::{retry_due, start_due};
use super::batches::attempts::returned;
use super::batches::batch::Waiter;
use super::placement::queue::Lane;
use super::{GroupShard, Heartbeats, Timer};

/// What to decide next; found cheaply, decided separately so that a panic can be laid at its door.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chore {
    Settle(WorkerId),
    Cancel(BatchId),
    Tell(JobId, Timestamp, Waiter),
    /// The calendar of this job has changed.
    Reschedule(JobId),
    /// A batch is to be ended for its parents.
    Conclude(BatchId),
    /// A batch is blocked by a failed parent and does not say so, or the reverse.
    Block(BatchId),
    Trigger,
    /// Nobody waits for some external dependencies any more.
    ForgetExternalDependencies,
    /// The quality service is to be asked.
    AskQuality(BatchId),
    Timer(Timestamp, Timer),
    Anchor(BatchId),
    FinalCommands(BatchId),
    /// The final command of a batch that had no attempt goes to this worker, or to none.
    PlaceFinalCommands(BatchId, Option<WorkerId>),
    /// More batches of a pool may start again.
    OpenRate(PoolName),
    Place(BatchId, WorkerId),
    /// Nothing is left on a drained host.
    TellEmptied(String),
    /// The catalogue is to be told of permits.
    Report(Box<Event>),
}

impl GroupShard {
    /// The next chore to decide; timers only those due by `horizon`.
    pub(crate) fn next_task(&self, horizon: Timestamp) -> Option<Chore> {
        let timer = || self.timers.first().filter(|(at, _)| *at <= horizon);
        let opening = || self.placement.next_opening().filter(|(at, _)| *at <= horizon);
        let surplus = || self.external.dependencies().has_surplus(horizon);
        let told = || {
            let ((job, time), after) = self.dependencies.waiters().first_changed()?;
            Some(Chore::Tell(job, time, self.next_untold(job, time, after)?))
        };
        let settle = self.workers.next_unsettled().map(|worker| Chore::Settle(worker.clone()));
        settle
            .or_else(|| self.batches.next_cancelled().map(Chore::Cancel))
            .or_else(told)
            .or_else(|| self.jobs.calendars().next_moved().map(Chore::Reschedule))
            .or_else(|| self.next_concluding().map(Chore::Conclude))
            .or_else(|| self.next_block().map(Chore::Block))
            .or_else(|| self.generation.has_triggers().then_some(Chore::Trigger))
            .or_else(|| surplus().then_some(Chore::ForgetExternalDependencies))
            .or_else(|| self.external.next_quality().map(Chore::AskQuality))
            .or_else(|| timer().map(|(at, timer)| Chore::Timer(at, timer)))
            .or_else(|| self.final_commands.next_due().map(Chore::FinalCommands))
            .or_else(|| self.next_unplaced_final().map(|(batch, at)| Chore::PlaceFinalCommands(batch, at)))
            .or_else(|| opening().map(|(_, pool)| Chore::OpenRate(pool)))
            .or_else(|| self.ready_anchor().map(Chore::Anchor))
            .or_else(|| self.find_placement().map(|(batch, worker)| Chore::Place(batch, worker)))
            .or_else(|| self.next_emptied().map(|host| Chore::TellEmptied(host.to_owned())))
            .or_else(|| self.permit_report().map(|report| Chore::Report(Box::new(report))))
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        let opening = self.placement.next_opening().map(|(at, _)| at);
        self.timers.first().map(|(at, _)| at).into_iter().chain(opening).min()
    }

    pub(crate) fn decide_task(
        &self,
        task: &Chore,
        now: Timestamp,
        heartbeats: &dyn Heartbeats,
    ) -> Vec<Event> {
        match task {
            Chore::Settle(worker) => self.settle(worker, now),
            Chore::Cancel(batch) => self.cancel(*batch),
            Chore::Tell(job, time, waiter) => self.tell(*job, *time, *waiter),
            Chore::Reschedule(job) => self.jobs.schedule_rescheduled(*job, now),
            Chore::Conclude(batch) => self.conclude(*batch),
            Chore::Block(batch) => self.block_turn(*batch, now).into_iter().collect(),
            Chore::Trigger => self.triggered(now).unwrap_or_default(),
            Chore::ForgetExternalDependencies => self.external.dependencies().forget(now),
            Chore::AskQuality(batch) => self.ask_quality(*batch, now),
            Chore::Timer(_, timer) => self.timer(*timer, now),
            Chore::Anchor(batch) => {
                vec![self.batches.batch_end(*batch, BatchResult::Success, None, String::new())]
            }
            Chore::FinalCommands(batch) => self.final_commands(*batch, now),
            Chore::PlaceFinalCommands(batch, worker) => self.place_final(*batch, worker.as_ref(), now),
            Chore::OpenRate(name) => vec![Event::Permit(PermitEvent::RateLimitReset { name: name.clone() })],
            Chore::TellEmptied(host) => vec![WorkerEvent::HostEmptied { host: host.clone() }.into()],
            Chore::Report(report) => vec![Event::clone(report)],
            Chore::Place(batch, worker) => self.assign(*batch, worker, now, heartbeats).into_iter().collect(),
        }
    }

    fn timer(&self, timer: Timer, now: Timestamp) -> Vec<Event> {
        match timer {
            Timer::Fire(job) => self.fire(job, now),
            Timer::Retry(batch) => self.pause_over(batch, now).unwrap_or_else(|| vec![retry_due(batch)]),
            Timer::Start(batch) => vec![start_due(batch)],
            Timer::Deadline(batch, kind) => self.deadline_passed(batch, kind),
            Timer::Quality(batch) => self.ask_quality(batch, now),
            Timer::BigTask(batch) => self.runs_too_long(batch),
            Timer::PullLease(grant) => self.pull.grant_expired(grant),
            Timer::Purge => vec![self.purge(now)],
            Timer::Final(batch) => self.final_not_placed(batch),
            #[cfg(test)]
            Timer::Planted => panic!("planted"),
            Timer::StartBy(token) => {
                let Some(id) = self.batches.of_token(token) else {
                    let why = "its worker did not ask for it in time";
                    return self.final_commands.final_ended(token, FinalResult::NotRun, why);
                };
                let holder = self.batches.get(&id).and_then(|batch| batch.holder());
                holder.map(|holder| returned(id, holder, ReturnReason::NotStarted)).into_iter().collect()
            }
        }
    }

    fn ready_anchor(&self) -> Option<BatchId> {
        let anchor = JobType::try_from("anchor").expect("is a name");
        self.placement.queue().first_of(&Lane::first(anchor)).map(|key| key.batch)
    }
}
