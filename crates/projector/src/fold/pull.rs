//! What clients pull: templates, users, tasks, ledgers and grants.

use std::sync::Arc;

use tidemill_model::{
    Executor, GrantId, Ledger, MovedTask, TaskEvent, TaskId, TaskSpec, Timestamp, UserName,
};
use tidemill_store::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow};

use super::batch::person;
use super::job::{json, number};
use super::{Caches, Place};

/// Of a task in a shard, and of one of its occurrences there.
fn keys(task: TaskId, shard: i64, start: Timestamp) -> ((i64, i64), (i64, i64, i64)) {
    ((task.0, shard), (task.0, start.as_millisecond(), shard))
}

pub(super) fn user_key(user: &UserName) -> (Arc<str>,) {
    (user.as_str().into(),)
}

/// Which rows such an event changes or reads.
pub(super) fn need(rows: &mut Caches, shard: i64, event: &TaskEvent) {
    match event {
        TaskEvent::Created { task, .. } => {
            rows.shards.need((shard,));
            rows.pull_tasks.expect_new((task.0, shard));
        }
        TaskEvent::Changed { task, .. } | TaskEvent::Deleted { task } => {
            rows.pull_tasks.need((task.0, shard));
        }
        TaskEvent::Purged { tasks, .. } => {
            rows.shards.need((shard,));
            tasks.iter().for_each(|task| rows.pull_tasks.need((task.0, shard)));
        }
        TaskEvent::Granted { grant, task, start, .. } => {
            let (task, occurrence) = keys(*task, shard, *start);
            rows.shards.need((shard,));
            rows.pull_tasks.need(task);
            rows.pull_ledger.need(occurrence);
            rows.pull_grants.expect_new((grant.0,));
        }
        TaskEvent::Completed { grant, task, start, .. }
        | TaskEvent::GrantReturned { grant, task, start, .. }
        | TaskEvent::GrantExpired { grant, task, start, .. } => {
            let (task, occurrence) = keys(*task, shard, *start);
            rows.pull_tasks.need(task);
            rows.pull_ledger.need(occurrence);
            rows.pull_grants.need((grant.0,));
        }
    }
}

/// How a grant ends.
enum End<'a> {
    Completed { result: &'a str },
    Returned { by: Arc<str>, reason: &'a str },
    Expired,
}

impl Caches {
    pub(super) fn apply_task(&mut self, at: Place, event: &TaskEvent) {
        match event {
            TaskEvent::Created { task, spec } => {
                self.keep_version(at, *task, 1, spec);
                let row = self.task_row(at, *task, 1, spec);
                self.pull_tasks.put(row);
            }
            TaskEvent::Changed { task, version, spec } => {
                self.keep_version(at, *task, *version, spec);
                let changed = self.task_row(at, *task, *version, spec);
                self.pull_tasks.change((task.0, at.shard), |row| {
                    let old = row.clone();
                    *row = PullTaskRow {
                        changed_at: Some(at.now),
                        received_at: old.received_at,
                        purged_before: old.purged_before,
                        ..changed
                    };
                    count_task(row, of_task(&old));
                });
            }
            TaskEvent::Deleted { task } => self.pull_tasks.change((task.0, at.shard), |row| {
                row.state = "deleted".into();
                row.ended_at = Some(at.now);
            }),
            TaskEvent::Purged { before, tasks } => {
                self.shards.change((at.shard,), |row| {
                    row.pull_horizon = row.pull_horizon.max(Some(before.as_millisecond()));
                });
                for task in tasks {
                    self.pull_tasks.change((task.0, at.shard), |row| {
                        row.purged_before = Some(before.as_millisecond());
                    });
                }
            }
            TaskEvent::Granted { .. } => self.give(at, event),
            TaskEvent::Completed { grant, task, start, result, .. } => {
                self.end_grant(at, *grant, (*task, *start), &End::Completed { result });
            }
            TaskEvent::GrantReturned { grant, task, start, by, reason, .. } => {
                self.end_grant(at, *grant, (*task, *start), &End::Returned { by: person(by), reason });
            }
            TaskEvent::GrantExpired { grant, task, start, .. } => {
                self.end_grant(at, *grant, (*task, *start), &End::Expired);
            }
        }
    }

    fn group_of(&self, at: Place) -> Arc<str> {
        self.shards.get(&(at.shard,)).map_or_else(|| "".into(), |shard| Arc::clone(&shard.group_name))
    }

    fn task_row(&self, at: Place, task: TaskId, version: u32, spec: &TaskSpec) -> PullTaskRow {
        let (executor_kind, executor) = match &spec.executor {
            Executor::Group(group) => ("group", group.as_str()),
            Executor::User(user) => ("user", user.as_str()),
        };
        PullTaskRow {
            id: task.0,
            shard: at.shard,
            group_name: self.group_of(at),
            executor_kind: executor_kind.into(),
            executor: executor.into(),
            name: spec.name.as_deref().map(Into::into),
            template: spec.template.as_ref().map(|template| template.as_str().into()),
            rotating: spec.when.is_rotating(),
            start_at: spec.when.start().as_millisecond(),
            dispatch_times: i64::from(spec.dispatch_times),
            version: i64::from(version),
            state: "valid".into(),
            definition: json(spec),
            taken: 0,
            live: 0,
            completed: 0,
            returned: 0,
            expired: 0,
            received_at: at.now,
            changed_at: None,
            ended_at: None,
            purged_before: None,
        }
    }

    /// What a grant of that version gives, whatever becomes of the task.
    fn keep_version(&mut self, at: Place, task: TaskId, version: u32, spec: &TaskSpec) {
        self.pull_task_versions.put(PullTaskVersionRow {
            id: task.0,
            version: i64::from(version),
            shard: at.shard,
            definition: json(spec),
            recorded_at: at.now,
        });
    }

    /// The task leaves with its user. What is used up of it stays; the rest is counted where it goes.
    pub(super) fn release(&mut self, at: Place, moved: &MovedTask) {
        for occurrence in &moved.occurrences {
            self.pull_ledger.remove(keys(moved.task, at.shard, occurrence.start).1);
        }
        self.pull_tasks.change((moved.task.0, at.shard), |row| {
            row.state = "released".into();
            row.ended_at = Some(at.now);
        });
    }

    pub(super) fn receive(&mut self, at: Place, moved: &MovedTask) {
        self.keep_version(at, moved.task, moved.version, &moved.spec);
        let mut row = self.task_row(at, moved.task, moved.version, &moved.spec);
        count_task(&mut row, moved.totals);
        self.pull_tasks.put(row);
        for occurrence in &moved.occurrences {
            let mut row = ledger_row(keys(moved.task, at.shard, occurrence.start).1, at);
            count_occurrence(&mut row, occurrence.ledger);
            self.pull_ledger.put(row);
        }
    }

    fn give(&mut self, at: Place, event: &TaskEvent) {
        let TaskEvent::Granted { grant, task, version, start, user, expires_at, next: _ } = event else {
            return;
        };
        let (task_key, occurrence) = keys(*task, at.shard, *start);
        let add = |ledger: Ledger| Ledger { taken: ledger.taken + 1, live: ledger.live + 1, ..ledger };
        if self.pull_ledger.get(&occurrence).is_none() {
            self.pull_ledger.put(ledger_row(occurrence, at));
        }
        self.count(at, task_key, occurrence, add);
        self.pull_grants.put(PullGrantRow {
            id: grant.0,
            shard: at.shard,
            group_name: self.group_of(at),
            task_id: task.0,
            task_version: i64::from(*version),
            task_name: self.pull_tasks.get(&task_key).and_then(|row| row.name.clone()),
            start_at: start.as_millisecond(),
            user_name: user.as_str().into(),
            state: "live".into(),
            granted_at: at.now,
            expires_at: expires_at.map(Timestamp::as_millisecond),
            ended_at: None,
            result: None,
            returned_by: None,
            reason: None,
        });
    }

    fn end_grant(&mut self, at: Place, grant: GrantId, (task, start): (TaskId, Timestamp), end: &End<'_>) {
        let (task, occurrence) = keys(task, at.shard, start);
        self.count(at, task, occurrence, |mut ledger| {
            ledger.live = ledger.live.saturating_sub(1);
            match end {
                End::Completed { .. } => ledger.completed += 1,
                End::Returned { .. } => ledger.returned += 1,
                End::Expired => ledger.expired += 1,
            }
            ledger
        });
        self.pull_grants.change((grant.0,), |row| {
            row.ended_at = Some(at.now);
            match end {
                End::Completed { result } => {
                    row.state = "completed".into();
                    row.result = Some((*result).into());
                }
                End::Returned { by, reason } => {
                    row.state = "returned".into();
                    row.returned_by = Some(Arc::clone(by));
                    row.reason = Some((*reason).into());
                }
                End::Expired => row.state = "expired".into(),
            }
        });
    }

    /// Counts in the task and in its occurrence alike.
    fn count(
        &mut self,
        at: Place,
        task: (i64, i64),
        occurrence: (i64, i64, i64),
        add: impl Fn(Ledger) -> Ledger,
    ) {
        self.pull_tasks.change(task, |row| count_task(row, add(of_task(row))));
        self.pull_ledger.change(occurrence, |row| {
            count_occurrence(row, add(of_occurrence(row)));
            row.changed_at = at.now;
        });
    }
}

fn ledger_row((task_id, start_at, shard): (i64, i64, i64), at: Place) -> PullLedgerRow {
    PullLedgerRow {
        task_id,
        start_at,
        shard,
        taken: 0,
        live: 0,
        completed: 0,
        returned: 0,
        expired: 0,
        changed_at: at.now,
    }
}

fn count_of(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

fn of_task(row: &PullTaskRow) -> Ledger {
    Ledger {
        taken: count_of(row.taken),
        live: count_of(row.live),
        completed: count_of(row.completed),
        returned: count_of(row.returned),
        expired: count_of(row.expired),
    }
}

fn of_occurrence(row: &PullLedgerRow) -> Ledger {
    Ledger {
        taken: count_of(row.taken),
        live: count_of(row.live),
        completed: count_of(row.completed),
        returned: count_of(row.returned),
        expired: count_of(row.expired),
    }
}

fn count_task(row: &mut PullTaskRow, ledger: Ledger) {
    row.taken = number(ledger.taken);
    row.live = number(ledger.live);
    row.completed = number(ledger.completed);
    row.returned = number(ledger.returned);
    row.expired = number(ledger.expired);
}

fn count_occurrence(row: &mut PullLedgerRow, ledger: Ledger) {
    row.taken = number(ledger.taken);
    row.live = number(ledger.live);
    row.completed = number(ledger.completed);
    row.returned = number(ledger.returned);
    row.expired = number(ledger.expired);
}
