//! Who pulls here, what they have, and what they did last.

use std::collections::BTreeSet;

use tidemill_model::{GrantId, MovedTask, TaskId, Timestamp, UserHistory, UserName};

use super::{Counts, Pulls, Rules};
use crate::{At, Invariant};

#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) live: Option<GrantId>,
    pub(super) last: Option<Last>,
    /// The plain tasks completed with exactly that start.
    pub(super) done: BTreeSet<TaskId>,
    /// No window begins before.
    pub(super) not_before: Option<Timestamp>,
    /// Since when it is a member, if it came without a history: who had its name before was another.
    pub(super) since: Option<Timestamp>,
}

/// What a member completed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) grant: GrantId,
    pub(super) task: TaskId,
    pub(super) start: Timestamp,
    /// SHA-256 of the result, hex.
    pub(super) result: String,
}

type Moved<'a> = (&'a UserHistory, &'a [MovedTask]);

impl Member {
    fn of(history: &UserHistory) -> Self {
        let last = history.last.as_ref().map(|last| Last {
            grant: last.grant,
            task: last.task,
            start: last.start,
            result: last.result_hash.clone(),
        });
        let done = history.done.iter().copied().collect();
        Self { last, done, not_before: history.not_before, ..Self::default() }
    }

    /// Where the member's window begins, but for what was purged.
    pub(super) fn window(&self, rules: Rules) -> Timestamp {
        let first = rules.hours_ago(rules.window_hours);
        let begin = self.last.as_ref().map_or(first, |last| last.start);
        begin.max(rules.kept_since()).max(self.not_before.unwrap_or(Timestamp::MIN))
    }
}

impl Pulls {
    /// `users_have_one_home`, as the shard counts its members.
    pub(crate) fn users_replicated(&mut self, at: &At<'_>, users: &[UserName]) {
        for user in users {
            let member = Member { since: Some(at.now), ..Member::default() };
            if self.members.insert(user.clone(), member).is_some() {
                at.breaks(Invariant::UsersHaveOneHome, format!("user {user} is a member already"));
            }
        }
    }

    /// The same of a user who comes from another shard.
    pub(crate) fn user_attached(&mut self, at: &At<'_>, user: &UserName, (history, tasks): Moved<'_>) {
        if self.members.insert(user.clone(), Member::of(history)).is_some() {
            at.breaks(Invariant::UsersHaveOneHome, format!("user {user} is a member already"));
        }
        for moved in tasks {
            self.take_over(at, user, moved);
        }
    }

    /// The same of a user who leaves, with all that it has done and its own tasks.
    pub(crate) fn user_detached(&mut self, at: &At<'_>, user: &UserName, (history, tasks): Moved<'_>) {
        let rule = Invariant::UsersHaveOneHome;
        let Some(member) = self.members.remove(user) else {
            return at.breaks(rule, format!("user {user} leaves, and is no member"));
        };
        let mut wrong = Vec::new();
        if let Some(grant) = member.live {
            wrong.push(format!("it has grant {grant}"));
        }
        let told = Member::of(history);
        if told.last != member.last || told.done != member.done {
            wrong.push(format!("it has done {:?} and {:?}, not what is told", member.last, member.done));
        }
        let horizon = member.not_before.max(self.horizon);
        let is_old = told.last.as_ref().is_some_and(|last| Some(last.start) < horizon);
        if is_old && told.not_before < horizon {
            wrong.push(format!("its window does not begin before {horizon:?}, and nobody is told"));
        }
        let own: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.queue().as_ref() == Some(user))
            .map(|(id, _)| *id)
            .collect();
        for id in &own {
            let task = &self.tasks[id];
            let moved = tasks.iter().find(|moved| moved.task == *id);
            let agrees = moved.map(|moved| {
                let used = |of: &tidemill_model::MovedOccurrence| {
                    task.given.get(&of.start).is_some_and(|known| known.counts == Counts::of(&of.ledger))
                };
                let same = (moved.version, &moved.spec, Counts::of(&moved.totals));
                same == (task.version, &task.spec, task.totals) && moved.occurrences.iter().all(used)
            });
            if !agrees.unwrap_or(!task.is_valid()) {
                wrong.push(format!("task {id} is theirs, and does not leave as it is"));
            }
        }
        if let Some(stranger) = tasks.iter().find(|moved| !own.contains(&moved.task)) {
            wrong.push(format!("task {} leaves with it, and is not theirs", stranger.task));
        }
        // What is deleted stays until it is purged.
        for id in own.into_iter().filter(|id| tasks.iter().any(|moved| moved.task == *id)) {
            self.remove_task(id);
        }
        self.queues.remove(&Some(user.clone()));
        for why in wrong {
            at.breaks(rule, format!("user {user} leaves: {why}"));
        }
    }

    /// The same of one who stays.
    pub(crate) fn user_detach_rejected(&self, at: &At<'_>, user: &UserName) {
        if !self.members.contains_key(user) {
            at.breaks(Invariant::UsersHaveOneHome, format!("user {user} is kept, and is no member"));
        }
    }
}
