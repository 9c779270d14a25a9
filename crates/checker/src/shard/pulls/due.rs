//! What a user gets next.

use tidemill_model::{TaskId, Timestamp, UserName};

use super::members::Member;
use super::tasks::Task;
use super::{Pulls, Queue, Rules};

impl Pulls {
    /// What is due for a member now, the first of it.
    pub(super) fn due(&self, user: &UserName, rules: Rules) -> Option<(Timestamp, TaskId)> {
        let member = self.members.get(user)?;
        if let Some(last) = &member.last
            && let Some(task) = self.tasks.get(&last.task)
            && task.spec.repeat
            && last.start >= self.window(member, rules)
            && self.may_get(task, last.task, last.start, (user, member))
        {
            return Some((last.start, last.task));
        }
        self.first((user, member), self.window(member, rules), rules.now)
    }

    /// The next start for a member after now, as far as the group's window reaches.
    pub(super) fn next(&self, user: &UserName, rules: Rules) -> Option<Timestamp> {
        let member = self.members.get(user)?;
        let after_now = rules.now.next();
        let from = after_now.max(self.window(member, rules));
        self.first((user, member), from, rules.window_end()).map(|(start, _)| start)
    }

    /// Whether a zone is not known here, so that nothing can be said of what is due.
    pub(super) fn is_unsure(&self, user: &UserName) -> bool {
        let queues = [self.queues.get(&None), self.queues.get(&Some(user.clone()))];
        let mut tasks = queues.into_iter().flatten().flat_map(|queue| &queue.rotating);
        tasks.any(|id| self.tasks.get(id).is_some_and(|task| !task.grid.is_known()))
    }

    pub(super) fn window(&self, member: &Member, rules: Rules) -> Timestamp {
        member.window(rules).max(self.horizon.unwrap_or(Timestamp::MIN))
    }

    fn first(
        &self,
        of: (&UserName, &Member),
        from: Timestamp,
        until: Timestamp,
    ) -> Option<(Timestamp, TaskId)> {
        let queues = [self.queues.get(&None), self.queues.get(&Some(of.0.clone()))];
        queues.into_iter().flatten().filter_map(|queue| self.first_in(queue, of, from, until)).min()
    }

    fn first_in(
        &self,
        queue: &Queue,
        of: (&UserName, &Member),
        from: Timestamp,
        until: Timestamp,
    ) -> Option<(Timestamp, TaskId)> {
        if from > until {
            return None;
        }
        let may_get =
            |id: TaskId, start| self.tasks.get(&id).is_some_and(|task| self.may_get(task, id, start, of));
        let span = (from, TaskId(i64::MIN))..=(until, TaskId(i64::MAX));
        let once = queue.once.range(span).copied().find(|(start, id)| may_get(*id, *start));
        let of_rotating = |id: &TaskId| {
            let grid = &self.tasks.get(id)?.grid;
            let starts = std::iter::successors(grid.at_or_after(from), |start| grid.after(*start));
            let mut starts = starts.take_while(|start| *start <= until);
            starts.find(|start| may_get(*id, *start)).map(|start| (start, *id))
        };
        once.into_iter().chain(queue.rotating.iter().filter_map(of_rotating)).min()
    }

    /// Whether an occurrence that is on the task's grid may be given to this member, its start aside.
    fn may_get(
        &self,
        task: &Task,
        id: TaskId,
        start: Timestamp,
        (user, member): (&UserName, &Member),
    ) -> bool {
        task.is_valid()
            && task.stock(start) > 0
            && task.grid.at_or_after(start) == Some(start)
            && (task.spec.repeat || !is_done(task, id, start, (user, member)))
    }
}

/// Whether the member has completed this occurrence.
pub(super) fn is_done(
    task: &Task,
    id: TaskId,
    start: Timestamp,
    (user, member): (&UserName, &Member),
) -> bool {
    let is_last = member.last.as_ref().is_some_and(|last| last.start == start) && member.done.contains(&id);
    let then = task.given.get(&start).and_then(|occurrence| occurrence.done_by.get(user));
    is_last || then.is_some_and(|then| member.since.is_some_and(|since| *then >= since))
}
