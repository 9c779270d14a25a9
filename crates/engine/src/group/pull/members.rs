//! Users come and go (PUL-5): a shard knows the members of its group, with what their next pulls depend on.
//!
//! *Invariant:* a user is let go with the one record that says all that its next pulls depend on, its own tasks
//! included; from that record on it is no member, and the message that carries it on waits in the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_model::{
    Event, GrantId, MovedTask, Rejection, ShardId, ShardMessage, TaskId, Template, TemplateName, Timestamp,
    TransferEvent, UserHistory, UserName,
};

use super::task::PullTask;
use super::users::{Last, User};
use crate::group::GroupShard;
use crate::group::pull::Pull;
use crate::weight::of_event;

const MAX_MOVED_TASKS: usize = 500;
/// What goes along in all, bytes: records and messages of three shards hold it, each beside other things.
const MAX_MOVED_BYTES: usize = 128 * 1024;

impl Pull {
    fn released(&self, name: &UserName) -> Result<Event, Rejection> {
        let Some(user) = self.users.get(name) else { return Err(Rejection::unknown("user", name)) };
        let user = user.as_deref();
        if let Some(GrantId(grant)) = user.and_then(|user| user.live.as_ref()).map(|live| live.id) {
            return Err(Rejection::GrantLive { user: name.to_string(), grant });
        }
        let own: BTreeSet<TaskId> = user.map(|user| user.own.tasks().collect()).unwrap_or_default();
        if own.len() > MAX_MOVED_TASKS {
            let rule = format!(
                "has {} tasks of its own, and at most {MAX_MOVED_TASKS} go along; delete some first",
                own.len()
            );
            return Err(Rejection::field("user", name, rule));
        }
        let nobody = User::default();
        let history = user.unwrap_or(&nobody).history(self.horizon());
        let from = history.last.as_ref().map(|last| last.start).max(history.not_before);
        let from = from.unwrap_or(Timestamp::MIN);
        let moved = |id: &TaskId| self.tasks.get(id).map(|task| task.moved(*id, from));
        let event = Event::Transfer(TransferEvent::UserDetached {
            user: name.clone(),
            history,
            tasks: own.iter().filter_map(moved).collect(),
        });
        let bytes = of_event(&event);
        if bytes > MAX_MOVED_BYTES {
            let rule = format!(
                "has history and tasks of its own of {bytes} bytes, and at most {MAX_MOVED_BYTES} go along; delete \
                 some of its tasks first"
            );
            return Err(Rejection::field("user", name, rule));
        }
        Ok(event)
    }

    pub(in crate::group) fn detach_user(&self, user: &UserName) -> Event {
        let kept = |reason| Event::Transfer(TransferEvent::UserDetachRejected { user: user.clone(), reason });
        self.released(user).unwrap_or_else(kept)
    }
}

impl GroupShard {
    /// Whether the user has been let go, and the catalogue has not recorded it yet.
    pub(super) fn is_leaving(&self, user: &UserName) -> bool {
        let to_catalogue = self.mailbox.waiting(usize::MAX).take_while(|(to, ..)| *to == ShardId::CATALOGUE);
        let is_its = |message: &ShardMessage| matches!(message, ShardMessage::ReportUserDetached { user: of, .. } if of == user);
        to_catalogue.map(|(_, _, message)| message).any(is_its)
    }

    pub(in crate::group) fn users_replicated(&mut self, now: Timestamp, users: &[UserName]) {
        for user in users {
            self.pull.users.entry(user.clone()).or_default();
        }
        self.set_purge_timer(now);
    }

    pub(in crate::group) fn template_replicated(&mut self, now: Timestamp, template: &Arc<Template>) {
        self.pull.templates.insert(template.spec.name.clone(), Arc::clone(template));
        self.set_purge_timer(now);
    }

    pub(in crate::group) fn template_dropped(&mut self, now: Timestamp, name: &TemplateName) {
        self.pull.templates.remove(name);
        self.set_purge_timer(now);
    }

    pub(in crate::group) fn user_detached(
        &mut self,
        now: Timestamp,
        user: &UserName,
        history: &UserHistory,
        tasks: &[MovedTask],
    ) {
        for moved in tasks {
            self.pull.forget_task(moved.task);
        }
        self.pull.users.remove(user);
        let (user, history, tasks) = (user.clone(), history.clone(), tasks.to_vec());
        self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportUserDetached { user, history, tasks });
        self.set_purge_timer(now);
    }

    pub(in crate::group) fn user_detach_rejected(
        &mut self,
        now: Timestamp,
        user: &UserName,
        reason: &Rejection,
    ) {
        let (user, reason) = (user.clone(), reason.clone());
        self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportUserDetachRejected { user, reason });
        self.set_purge_timer(now);
    }

    /// Its tasks come along even where the group has a lower limit for new ones.
    pub(in crate::group) fn user_attached(
        &mut self,
        now: Timestamp,
        user: &UserName,
        history: &UserHistory,
        tasks: &[MovedTask],
    ) {
        let is_new = history.is_empty() || planted!(HistoryLostInMove);
        let known = (!is_new).then(|| Box::new(User::with(history)));
        self.pull.users.insert(user.clone(), known);
        for moved in tasks {
            self.pull.add_task(moved.task, PullTask::from(moved));
        }
        self.set_purge_timer(now);
    }
}

impl User {
    /// What this shard has forgotten must not come back where more is kept.
    fn history(&self, horizon: Timestamp) -> UserHistory {
        let is_forgotten = self.last.is_none_or(|last| last.start < horizon) && horizon > Timestamp::MIN;
        let forgotten = is_forgotten.then_some(horizon);
        UserHistory {
            last: self.last.map(Last::told),
            done: self.done.clone(),
            not_before: self.not_before.max(forgotten),
        }
    }

    fn with(history: &UserHistory) -> Self {
        Self {
            last: history.last.as_ref().map(Last::from),
            done: history.done.clone(),
            not_before: history.not_before,
            ..Self::default()
        }
    }
}

impl PullTask {
    /// Occurrences before its user's window, wherever that is read, go into the totals only: they cannot be given any
    /// more.
    fn moved(&self, id: TaskId, from: Timestamp) -> MovedTask {
        let within = &self.given[self.given.partition_point(|given| given.start < from)..];
        MovedTask {
            task: id,
            version: self.version,
            spec: Arc::clone(&self.spec),
            totals: self.totals,
            occurrences: within.to_vec(),
        }
    }
}

impl From<&MovedTask> for PullTask {
    fn from(moved: &MovedTask) -> Self {
        let mut task = PullTask::new(moved.version, &moved.spec);
        task.totals = moved.totals;
        task.given = moved.occurrences.clone();
        for of in &moved.occurrences {
            task.settle(of.start);
        }
        task
    }
}
