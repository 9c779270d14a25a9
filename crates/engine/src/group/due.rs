//! What the state itself asks for: waiters to be told, children to be generated, timers that are due,
//! anchors to be completed, and ready batches for which there is a slot. One small decision at a time.

use tidemill_model::{
    BatchId, BatchResult, Event, FinalResult, JobId, JobType, PermitEvent, PoolName, ReturnReason, Timestamp,
    WorkerId,
};

use super::batches::apply::{retry_due, start_due};
use super::batches::attempts::returned;
use super::batches::batch::Waiter;
use super::placement::queue::Lane;
use super::{GroupShard, Timer};

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
    /// The catalogue is to be told of permits.
    Report(Box<Event>),
}

impl GroupShard {
    /// The next chore to decide; timers only those due by `horizon`.
    pub(crate) fn next_task(&self, horizon: Timestamp) -> Option<Chore> {
        if let Some(worker) = self.workers.next_unsettled() {
            return Some(Chore::Settle(worker.clone()));
        }
        if let Some(batch) = self.batches.next_cancelled() {
            return Some(Chore::Cancel(batch));
        }
        if let Some(((job, time), after)) = self.dependencies.waiters().first_changed()
            && let Some(waiter) = self.next_untold(job, time, after)
        {
            return Some(Chore::Tell(job, time, waiter));
        }
        if let Some(job) = self.jobs.calendars().next_moved() {
            return Some(Chore::Reschedule(job));
        }
        if let Some(batch) = self.next_concluding() {
            return Some(Chore::Conclude(batch));
        }
        if let Some(batch) = self.next_block() {
            return Some(Chore::Block(batch));
        }
        if self.generation.has_triggers() {
            return Some(Chore::Trigger);
        }
        if self.external.dependencies().has_surplus(horizon) {
            return Some(Chore::ForgetExternalDependencies);
        }
        if let Some(batch) = self.external.next_quality() {
            return Some(Chore::AskQuality(batch));
        }
        if let Some((at, timer)) = self.timers.first()
            && at <= horizon
        {
            return Some(Chore::Timer(at, timer));
        }
        if let Some(batch) = self.final_commands.next_due() {
            return Some(Chore::FinalCommands(batch));
        }
        if let Some((batch, worker)) = self.next_unplaced_final() {
            return Some(Chore::PlaceFinalCommands(batch, worker));
        }
        if let Some((_, pool)) = self.placement.next_opening().filter(|(at, _)| *at <= horizon) {
            return Some(Chore::OpenRate(pool));
        }
        if let Some(anchor) = self.ready_anchor() {
            return Some(Chore::Anchor(anchor));
        }
        let place = self.find_placement().map(|(batch, worker)| Chore::Place(batch, worker));
        place.or_else(|| self.permit_report().map(|report| Chore::Report(Box::new(report))))
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        let opening = self.placement.next_opening().map(|(at, _)| at);
        self.timers.first().map(|(at, _)| at).into_iter().chain(opening).min()
    }

    pub(crate) fn decide_task(&self, task: &Chore, now: Timestamp) -> Vec<Event> {
        match task {
            Chore::Settle(worker) => self.settle(worker, now),
            Chore::Cancel(batch) => self.cancel(*batch),
            Chore::Tell(job, time, waiter) => self.tell(*job, *time, *waiter),
            Chore::Reschedule(job) => self.jobs.schedule_rescheduled(*job, now),
            Chore::Conclude(batch) => self.conclude(*batch),
            Chore::Block(batch) => self.turn_blocked(*batch, now),
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
            Chore::Report(report) => vec![Event::clone(report)],
            Chore::Place(batch, worker) => self.assign(*batch, worker, now).into_iter().collect(),
        }
    }

    fn timer(&self, timer: Timer, now: Timestamp) -> Vec<Event> {
        match timer {
            Timer::Fire(job) => self.fire(job, now),
            Timer::Retry(batch) => vec![retry_due(batch)],
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
                    return self.final_commands.final_ended(
                        token,
                        FinalResult::NotRun,
                        "its worker did not ask for it in time",
                    );
                };
                let Some((_, worker)) = self.batches.get(&id).and_then(|batch| batch.holder()) else {
                    return Vec::new();
                };
                vec![returned(id, (token, worker), ReturnReason::NotStarted)]
            }
        }
    }

    fn ready_anchor(&self) -> Option<BatchId> {
        let anchor = JobType::try_from("anchor").expect("is a name");
        self.placement.queue().first_of(&Lane::first(anchor)).map(|key| key.batch)
    }
}
