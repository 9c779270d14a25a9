//! PUL-14: what is old is forgotten, some of it at a time, so that no decision waits for a large deletion.

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{Event, TaskEvent, TaskId, Timestamp};

use super::Pull;
use crate::group::{GroupShard, Timer};

const MAX_TASKS: usize = 500;
const PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// How far old tasks are forgotten.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(super) struct Purge {
    /// Nothing that started before is given any more.
    horizon: Option<Timestamp>,
    last_at: Option<Timestamp>,
    /// There was more than one event's worth.
    goes_on: bool,
    timer: Option<Timestamp>,
}

impl Pull {
    /// What started before may have been forgotten.
    pub(super) fn horizon(&self) -> Timestamp {
        self.purge.horizon.unwrap_or(Timestamp::MIN)
    }

    /// A round has more to forget than stood in its last event.
    fn purge_goes_on(&self) -> bool {
        let oldest = self.ages.first().map(|(oldest, _)| *oldest);
        self.purge.goes_on && oldest.is_some_and(|oldest| oldest < self.horizon())
    }

    pub(super) fn forget_task(&mut self, id: TaskId) {
        let Some(task) = self.tasks.remove(&id) else { return };
        if task.is_valid()
            && let Some(board) = self.board_mut(&task.spec.executor)
        {
            board.leave(id, &task.spec);
        }
        if let Some(age) = task.age {
            self.ages.remove(&(age, id));
        }
    }

    pub(super) fn tasks_purged(&mut self, now: Timestamp, before: Timestamp, tasks: &[TaskId]) {
        for id in tasks {
            let Some(task) = self.tasks.get_mut(id) else { continue };
            if task.purge(before) {
                self.forget_task(*id);
            } else {
                self.settle(*id);
            }
        }
        let purge = &mut self.purge;
        purge.horizon = purge.horizon.max(Some(before));
        purge.last_at = Some(now);
        purge.goes_on = tasks.len() >= MAX_TASKS;
    }
}

impl GroupShard {
    /// The timer stands where the oldest of all is old enough, and an hour after the last round at the earliest.
    pub(in crate::group) fn set_purge_timer(&mut self, now: Timestamp) {
        let days = i64::from(self.settings().pull_retention_days);
        let kept = SignedDuration::from_hours(24 * days) + SignedDuration::from_millis(1);
        let purge = &self.pull.purge;
        let timer = self.pull.ages.first().map(|(oldest, _)| {
            if self.pull.purge_goes_on() {
                return now;
            }
            let old_at = oldest.saturating_add(kept).unwrap_or(Timestamp::MAX);
            let rested_at = purge.last_at.map(|at| at.saturating_add(PAUSE).unwrap_or(Timestamp::MAX));
            old_at.max(rested_at.unwrap_or(Timestamp::MIN))
        });
        let timer = timer.filter(|_| !self.timers.is_suspended(Timer::Purge));
        if timer != self.pull.purge.timer {
            self.timers.cancel(self.pull.purge.timer, Timer::Purge);
            self.timers.set(timer, Timer::Purge);
            self.pull.purge.timer = timer;
        }
    }

    pub(in crate::group) fn purge(&self, now: Timestamp) -> Event {
        let before = if self.pull.purge_goes_on() { self.pull.horizon() } else { self.retained_from(now) };
        let old = self.pull.ages.range(..(before, TaskId(i64::MIN))).map(|(_, task)| *task);
        Event::Task(TaskEvent::Purged { before, tasks: old.take(MAX_TASKS).collect() })
    }
}
