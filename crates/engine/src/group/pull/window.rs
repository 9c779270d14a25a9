//! PUL-5: which occurrence a user gets.

use jiff::SignedDuration;
use tidemill_model::{TaskId, Timestamp};

use super::users::{Board, User};
use crate::group::GroupShard;
use crate::group::pull::Pull;

/// A span of starts, both ends in it.
pub(super) type Span = (Timestamp, Timestamp);

impl Pull {
    /// PUL-4: whether the user has done that occurrence, and it is not one to be repeated.
    fn is_excluded(&self, user: Option<&User>, start: Timestamp, task: TaskId) -> bool {
        let Some(user) = user else { return false };
        !planted!(ExclusionForgotten)
            && user.last.is_some_and(|last| last.start == start)
            && user.done.binary_search(&task).is_ok()
            && !self.tasks.get(&task).is_some_and(|task| task.spec.repeat)
    }

    fn earliest_on(&self, board: &Board, user: Option<&User>, span: Span) -> Option<(Timestamp, TaskId)> {
        let (low, high) = (TaskId(i64::MIN), TaskId(i64::MAX));
        let mut open = board.open.range((span.0, low)..=(span.1, high)).copied();
        let once = open.find(|(start, task)| !self.is_excluded(user, *start, *task));
        let upto = once.map_or(span.1, |(start, _)| start);
        let rotating = board.rotating.iter().filter_map(|id| {
            let task = self.tasks.get(id)?;
            let start = task.first_within((span.0, upto), |start| self.is_excluded(user, start, *id))?;
            Some((start, *id))
        });
        rotating.chain(once).min()
    }

    /// The earliest occurrence in a span of tasks of the user and of its group; of those with one start, that of the
    /// oldest task.
    fn earliest(&self, user: Option<&User>, span: Span) -> Option<(Timestamp, TaskId)> {
        if span.0 > span.1 {
            return None;
        }
        let boards = [Some(&self.board), user.map(|user| &user.own)];
        boards.into_iter().flatten().filter_map(|board| self.earliest_on(board, user, span)).min()
    }
}

impl GroupShard {
    fn hours(&self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.settings().pull_window_hours))
    }

    /// How far back a user's first pull reaches.
    pub(super) fn first_window(&self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.hours()).unwrap_or(Timestamp::MIN)
    }

    /// How far ahead the next occurrence is told of.
    pub(super) fn told_until(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.hours()).unwrap_or(Timestamp::MAX)
    }

    /// Nothing that started earlier is given or kept any more.
    pub(super) fn retained_from(&self, now: Timestamp) -> Timestamp {
        let days = i64::from(self.settings().pull_retention_days);
        let from = now.saturating_sub(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MIN);
        from.max(self.pull.purge.horizon)
    }

    /// Where a user's window begins.
    pub(super) fn window_from(&self, user: Option<&User>, now: Timestamp) -> Timestamp {
        let last = user.and_then(|user| user.last).map(|last| last.start);
        let begins = last.unwrap_or_else(|| self.first_window(now));
        let not_before = user.and_then(|user| user.not_before).unwrap_or(Timestamp::MIN);
        begins.max(not_before).max(self.retained_from(now))
    }

    /// What a pull gives now: where the last completed task is to be repeated and can be, that one; else the earliest.
    pub(super) fn due_for(&self, user: Option<&User>, now: Timestamp) -> Option<(Timestamp, TaskId)> {
        let span = (self.window_from(user, now), now);
        let repeated = user.and_then(|user| user.last).filter(|last| {
            let task = self.pull.tasks.get(&last.task);
            let gives = task.is_some_and(|task| task.spec.repeat && task.gives(last.start));
            gives && (span.0..=span.1).contains(&last.start)
        });
        match repeated {
            Some(last) => Some((last.start, last.task)),
            None => self.pull.earliest(user, span),
        }
    }

    /// The first occurrence that begins for the user after now, as far as it is told of.
    pub(super) fn next_for(&self, user: Option<&User>, now: Timestamp) -> Option<(Timestamp, TaskId)> {
        let from = now.next().max(self.window_from(user, now));
        self.pull.earliest(user, (from, self.told_until(now)))
    }
}
