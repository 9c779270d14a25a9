//! Tasks that clients pull, counted a second time: who is a member, what is in stock, and what the next one to be
//! given is.
//!
//! ```text
//!  TaskCreated ─► in stock ─► granted ─► completed
//!                    ▲           │
//!                    └───────────┴─► returned, expired
//! ```

mod answers;
mod due;
mod grants;
mod grid;
mod members;
mod tasks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidemill_model::{Event, GrantId, GroupSettings, TaskEvent, TaskId, Timestamp, UserName};

use self::members::Member;
use self::tasks::Task;
use super::Shard;
use crate::{At, Invariant};

/// Owners purge at most so many tasks at once.
const PURGED_AT_ONCE: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Pulls {
    tasks: HashMap<TaskId, Task>,
    /// What may be due, by user; `None`: for the whole group.
    queues: HashMap<Option<UserName>, Queue>,
    members: HashMap<UserName, Member>,
    grants: BTreeMap<GrantId, Grant>,
    /// What starts before was purged, and can no longer be given.
    horizon: Option<Timestamp>,
    pub(super) last_task: i64,
    pub(super) last_grant: i64,
}

/// Valid tasks of one executor.
#[derive(Debug, Default)]
struct Queue {
    /// Those for once that are in stock.
    once: BTreeSet<(Timestamp, TaskId)>,
    rotating: BTreeSet<TaskId>,
}

#[derive(Debug)]
struct Grant {
    task: TaskId,
    start: Timestamp,
    user: UserName,
    version: u32,
    granted_at: Timestamp,
    expires_at: Option<Timestamp>,
    said: u64,
}

/// What the group's settings say of pulls.
#[derive(Debug, Clone, Copy)]
struct Rules {
    now: Timestamp,
    window_hours: i64,
    retention_days: i64,
    rotating_limit: usize,
}

impl Rules {
    /// So many hours before now.
    fn hours_ago(&self, hours: i64) -> Timestamp {
        self.now.checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MIN)
    }

    fn window_end(&self) -> Timestamp {
        self.now.checked_add(jiff::SignedDuration::from_hours(self.window_hours)).unwrap_or(Timestamp::MAX)
    }

    fn kept_since(&self) -> Timestamp {
        self.hours_ago(self.retention_days * 24)
    }
}

impl Shard {
    fn pull_rules(&self, at: &At<'_>) -> Rules {
        let default = GroupSettings::default();
        let settings = self.settings.as_ref().unwrap_or(&default);
        Rules {
            now: at.now,
            window_hours: i64::from(settings.pull_window_hours),
            retention_days: i64::from(settings.pull_retention_days),
            rotating_limit: settings.pull_rotating_limit as usize,
        }
    }

    pub(super) fn pull_event(&mut self, at: &At<'_>, event: &TaskEvent) {
        let rules = self.pull_rules(at);
        if let TaskEvent::Created { task, .. } = event {
            self.minted_ids_grow(at, "task", (task.0, task.shard()));
        } else if let TaskEvent::Granted { grant, .. } = event {
            self.minted_ids_grow(at, "grant", (grant.0, grant.shard()));
        }
        let pulls = &mut self.pulls;
        match event {
            TaskEvent::Created { task, spec } => pulls.created(at, *task, spec, rules),
            TaskEvent::Changed { task, version, spec } => pulls.changed(at, *task, (*version, spec), rules),
            TaskEvent::Deleted { task } => pulls.deleted(at, *task),
            TaskEvent::Granted { .. } => pulls.granted(at, event, rules),
            TaskEvent::Completed { grant, task, start, user, result } => {
                pulls.completed(at, (*grant, *task, *start, user), result);
            }
            TaskEvent::GrantReturned { grant, task, start, user, .. } => {
                pulls.given_back(at, (*grant, *task, *start, user), false);
            }
            TaskEvent::GrantExpired { grant, task, start, user } => {
                pulls.given_back(at, (*grant, *task, *start, user), true);
            }
            TaskEvent::Purged { before, tasks } => pulls.purged(at, *before, tasks, rules),
        }
    }

    /// When the lease of the grant at hand is over.
    pub(super) fn grant_due(&self, event: &Event) -> Option<Timestamp> {
        match event {
            Event::Task(TaskEvent::GrantExpired { grant, .. }) => self.pulls.grants.get(grant)?.expires_at,
            _ => None,
        }
    }

    /// `grant_leases_kept`: no grant is live whose lease is over.
    pub(super) fn no_grant_is_overdue(&self, at: &At<'_>) {
        let slack = self.bounds.tolerance.saturating_mul(2);
        let is_overdue = |end: Timestamp| at.now.duration_since(end) > slack;
        for (id, grant) in self.pulls.grants.iter().filter(|(_, it)| it.expires_at.is_some_and(is_overdue)) {
            let why = format!("grant {id} of user {} has not expired, and it is {}", grant.user, at.now);
            at.contradicts(Invariant::GrantLeasesKept, why, &[grant.said]);
        }
    }
}

impl Pulls {
    /// `tasks_purged_by_age`
    fn purged(&mut self, at: &At<'_>, before: Timestamp, tasks: &[TaskId], rules: Rules) {
        let mut wrong = Vec::new();
        if before > rules.kept_since() {
            wrong.push(format!(
                "what starts before {before} is purged, and is kept since {}",
                rules.kept_since()
            ));
        }
        if let Some(horizon) = self.horizon.filter(|horizon| before < *horizon) {
            wrong.push(format!("the horizon goes back from {horizon} to {before}"));
        }
        if tasks.len() > PURGED_AT_ONCE {
            wrong.push(format!("{} tasks are purged at once", tasks.len()));
        }
        self.horizon = self.horizon.max(Some(before));
        for id in tasks {
            let Some(task) = self.tasks.get_mut(id) else {
                wrong.push(format!("task {id} is purged, and there is none"));
                continue;
            };
            // What somebody has stays.
            task.given.retain(|start, occurrence| *start >= before || occurrence.counts.live > 0);
            if task.is_over(before) {
                self.remove_task(*id);
            }
        }
        for why in wrong {
            at.breaks(Invariant::TasksPurgedByAge, why);
        }
    }

    fn remove_task(&mut self, id: TaskId) {
        self.dequeue(id);
        self.tasks.remove(&id);
    }
}

impl Grant {
    fn is_of(&self, task: TaskId, start: Timestamp, user: &UserName) -> bool {
        (self.task, self.start, &self.user) == (task, start, user)
    }
}

/// How grants of something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    taken: u64,
    live: u64,
    completed: u64,
    returned: u64,
    expired: u64,
}

impl Counts {
    fn used(self) -> u64 {
        self.live + self.completed
    }

    fn of(ledger: &tidemill_model::Ledger) -> Self {
        let tidemill_model::Ledger { taken, live, completed, returned, expired } = *ledger;
        Self { taken, live, completed, returned, expired }
    }

    fn add_up(self) -> bool {
        self.taken == self.live + self.completed + self.returned + self.expired
    }
}

type Given = BTreeMap<Timestamp, tasks::Occurrence>;
