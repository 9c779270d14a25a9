//! PUL-5, PUL-6: a user asks for work, and which occurrence it gets.

use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{Answer, Event, GrantId, Rejection, TaskEvent, TaskId, Timestamp, UserName};

use super::task::PullTask;
use super::users::{Board, Grant, User};
use crate::decision::Decision;
use crate::group::pull::Pull;
use crate::group::{GroupShard, Timer};

/// A span of starts, both ends in it.
type Span = (Timestamp, Timestamp);

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

impl Grant {
    fn new(id: GrantId, task: TaskId, of: &PullTask, start: Timestamp, granted_at: Timestamp) -> Self {
        let PullTask { version, spec, .. } = of;
        let lease = spec.lease_s.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        let expires_at = lease.map(|lease| granted_at.saturating_add(lease).unwrap_or(Timestamp::MAX));
        Self { id, task, version: *version, spec: Arc::clone(spec), start, granted_at, expires_at }
    }
}

impl GroupShard {
    /// The live grant again; else the occurrence that is due, in a grant of its own; else when to ask again.
    pub(super) fn give(&self, name: &UserName, now: Timestamp) -> Result<Decision, Rejection> {
        let user = self.member(name)?;
        let live = user.and_then(|user| user.live.as_ref()).filter(|_| !planted!(AnotherGrantInsteadOfRedo));
        if let Some(live) = live {
            return Ok(Decision::unchanged(Answer::Pulled(Box::new(live.told(true)))));
        }
        let Some((start, id)) = self.due_for(user, now) else {
            let next_at = self.next_for(user, now).map(|(start, _)| start);
            return Ok(Decision::unchanged(Answer::NothingDue { next_at }));
        };
        let Some(task) = self.pull.tasks.get(&id) else {
            return Err(Rejection::unknown("task", id));
        };
        let grant = GrantId::mint(self.pull.grants_minted + 1, self.id);
        let given = Grant::new(grant, id, task, start, now);
        let event = Event::Task(TaskEvent::Granted {
            grant,
            task: id,
            version: task.version,
            start,
            user: name.clone(),
            expires_at: given.expires_at,
            next: task.next_after(start),
        });
        Ok(Decision::answered(vec![event], Answer::Pulled(Box::new(given.told(false)))))
    }

    /// What a member has of its own, if anything.
    pub(super) fn member(&self, name: &UserName) -> Result<Option<&User>, Rejection> {
        let known = self.pull.users.get(name).map(Option::as_deref);
        known.ok_or_else(|| match name.to_string() {
            user if self.is_leaving(name) => Rejection::UserMoving { user },
            user => Rejection::UserUnknown { user, group: self.group_name() },
        })
    }

    pub(super) fn group_name(&self) -> String {
        self.group.as_ref().map_or_else(|| "any group".to_owned(), |group| format!("group {}", group.name))
    }

    pub(super) fn task_granted(&mut self, now: Timestamp, event: &TaskEvent) {
        let TaskEvent::Granted { grant, task: id, version, start, user, expires_at, next } = event else {
            return;
        };
        self.pull.grants_minted += 1;
        let Some(task) = self.pull.tasks.get_mut(id) else { return };
        let occurrence = task.count(*start, |ledger| {
            ledger.taken += 1;
            ledger.live += 1;
        });
        occurrence.next = *next;
        task.settle(*start);
        let live = Grant {
            version: *version,
            expires_at: *expires_at,
            ..Grant::new(*grant, *id, task, *start, now)
        };
        self.pull.settle(*id);
        self.pull.holders.insert(*grant, user.clone());
        self.timers.set(*expires_at, Timer::PullLease(*grant));
        self.pull.users.entry(user.clone()).or_default().get_or_insert_default().live = Some(live);
    }

    /// How far back a user's first pull reaches, and how far ahead the next occurrence is told of.
    fn window(&self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.settings().pull_window_hours))
    }

    pub(super) fn first_window(&self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.window()).unwrap_or(Timestamp::MIN)
    }

    /// Nothing that started earlier is given or kept any more.
    pub(super) fn retained_from(&self, now: Timestamp) -> Timestamp {
        let days = i64::from(self.settings().pull_retention_days);
        let from = now.saturating_sub(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MIN);
        from.max(self.pull.horizon())
    }

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
        let told_until = now.saturating_add(self.window()).unwrap_or(Timestamp::MAX);
        self.pull.earliest(user, (from, told_until))
    }
}
