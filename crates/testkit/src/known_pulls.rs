//! What is on record of tasks that clients pull.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_model::{
    CatalogueEvent, Event, GrantId, ShardId, TaskEvent, TaskId, TaskSpec, Timestamp, UserName,
};

use crate::coverage::Stats;

#[derive(Debug, Clone)]
pub(crate) struct KnownTask {
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) deleted: bool,
    /// The most that any version of it gave out of one occurrence.
    pub(crate) most_dispatched: u32,
    /// A version of it was to be repeated.
    pub(crate) was_repeat: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Completed(String),
    Returned,
    Expired,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownGrant {
    pub(crate) user: UserName,
    pub(crate) task: TaskId,
    pub(crate) version: u32,
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) start: Timestamp,
    pub(crate) granted_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) end: Option<End>,
}

#[derive(Debug, Default)]
pub(crate) struct KnownPulls {
    /// As the catalogue says.
    pub(crate) user_groups: BTreeMap<UserName, ShardId>,
    /// Whoever had one of these names may be another one now.
    pub(crate) removed: BTreeSet<UserName>,
    pub(crate) tasks: BTreeMap<TaskId, KnownTask>,
    pub(crate) grants: BTreeMap<GrantId, KnownGrant>,
}

impl KnownPulls {
    pub(crate) fn event(&mut self, now: Timestamp, event: &Event, stats: &mut Stats) {
        match event {
            Event::Catalogue(CatalogueEvent::UsersAssigned { shard, users, .. }) => {
                self.user_groups.extend(users.iter().map(|user| (user.clone(), *shard)));
            }
            Event::Catalogue(CatalogueEvent::UserMoved { user, shard, history, tasks, .. }) => {
                if !tasks.is_empty() {
                    stats.add("condition", "moved_with_tasks");
                }
                if !history.is_empty() {
                    stats.add("condition", "moved_with_history");
                }
                match shard {
                    Some(shard) => self.user_groups.insert(user.clone(), *shard),
                    None => {
                        self.removed.insert(user.clone());
                        self.user_groups.remove(user)
                    }
                };
            }
            Event::Catalogue(CatalogueEvent::UserMoveRejected { reason, .. }) => {
                stats.add("rejection", reason.code())
            }
            Event::Task(TaskEvent::Created { task, spec }) => {
                let (most_dispatched, was_repeat) = (spec.dispatch_times, spec.repeat);
                let spec = Arc::clone(spec);
                self.tasks.insert(*task, KnownTask { spec, deleted: false, most_dispatched, was_repeat });
            }
            Event::Task(TaskEvent::Changed { task, spec, .. }) => {
                if let Some(known) = self.tasks.get_mut(task) {
                    known.spec = Arc::clone(spec);
                    known.most_dispatched = known.most_dispatched.max(spec.dispatch_times);
                    known.was_repeat |= spec.repeat;
                }
            }
            Event::Task(TaskEvent::Deleted { task }) => {
                if let Some(known) = self.tasks.get_mut(task) {
                    known.deleted = true;
                }
            }
            Event::Task(TaskEvent::Granted { grant, task, version, start, user, expires_at, .. }) => {
                let Some(known) = self.tasks.get(task) else { return };
                let grant_of = KnownGrant {
                    user: user.clone(),
                    task: *task,
                    version: *version,
                    spec: Arc::clone(&known.spec),
                    start: *start,
                    granted_at: now,
                    expires_at: *expires_at,
                    end: None,
                };
                self.grants.insert(*grant, grant_of);
            }
            Event::Task(TaskEvent::Completed { grant, result, .. }) => {
                self.end(*grant, End::Completed(result.clone()))
            }
            Event::Task(TaskEvent::GrantReturned { grant, .. }) => self.end(*grant, End::Returned),
            Event::Task(TaskEvent::GrantExpired { grant, .. }) => self.end(*grant, End::Expired),
            _ => {}
        }
    }

    fn end(&mut self, grant: GrantId, end: End) {
        if let Some(known) = self.grants.get_mut(&grant) {
            known.end = Some(end);
        }
    }
}
