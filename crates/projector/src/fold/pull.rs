//! What clients pull: templates, users, tasks, ledgers and grants.

use std::sync::Arc;

use tidemill_model::{
    Executor, GrantId, Json as _, Ledger, MovedTask, TaskEvent, TaskId, TaskSpec, Timestamp, UserName,
};
use tidemill_store::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow};

use super::batch::person;
use super::job::number;
use super::{Caches, Place};

/// Of a task in a shard, and of one of its occurrences there.
fn keys(task: TaskId, shard: i64, start: Timestamp) -> ((i64, i64), (i64, i64, i64)) {
    ((task.0, shard), (task.0, start.as_millisecond(), shard))
}

pub(super) fn user_key(user: &UserName) -> (Arc<str>,) {
    (user.as_str().into(),)
}

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

/// Grants that were taken, and those of them that are live, completed, returned and expired.
type Counts<T> = [T; 5];

fn of_task(row: &mut PullTaskRow) -> Counts<&mut i64> {
    [&mut row.taken, &mut row.live, &mut row.completed, &mut row.returned, &mut row.expired]
}

fn of_occurrence(row: &mut PullLedgerRow) -> Counts<&mut i64> {
    [&mut row.taken, &mut row.live, &mut row.completed, &mut row.returned, &mut row.expired]
}

fn of_ledger(ledger: Ledger) -> Counts<i64> {
    let Ledger { taken, live, completed, returned, expired } = ledger;
    [taken, live, completed, returned, expired].map(number)
}

fn add(counts: Counts<&mut i64>, more: Counts<i64>) {
    for (count, more) in counts.into_iter().zip(more) {
        *count = (*count + more).max(0);
    }
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
                    *row = PullTaskRow {
                        taken: row.taken,
                        live: row.live,
                        completed: row.completed,
                        returned: row.returned,
                        expired: row.expired,
                        changed_at: Some(at.now),
                        received_at: row.received_at,
                        purged_before: row.purged_before,
                        ..changed
                    };
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

    pub(super) fn group_of(&self, at: Place) -> Arc<str> {
        self.shards.get(&(at.shard,)).map(|shard| Arc::clone(&shard.group_name)).unwrap_or_default()
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
            definition: spec.to_json().into(),
            received_at: at.now,
            ..PullTaskRow::default()
        }
    }

    /// What a grant of that version gives, whatever becomes of the task.
    fn keep_version(&mut self, at: Place, task: TaskId, version: u32, spec: &TaskSpec) {
        self.pull_task_versions.put(PullTaskVersionRow {
            id: task.0,
            version: i64::from(version),
            shard: at.shard,
            definition: spec.to_json().into(),
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
        add(of_task(&mut row), of_ledger(moved.totals));
        self.pull_tasks.put(row);
        for occurrence in &moved.occurrences {
            let mut row = ledger_row(keys(moved.task, at.shard, occurrence.start).1, at);
            add(of_occurrence(&mut row), of_ledger(occurrence.ledger));
            self.pull_ledger.put(row);
        }
    }

    fn give(&mut self, at: Place, event: &TaskEvent) {
        let TaskEvent::Granted { grant, task, version, start, user, expires_at, next: _ } = event else {
            return;
        };
        let (task_key, occurrence) = keys(*task, at.shard, *start);
        if self.pull_ledger.get(&occurrence).is_none() {
            self.pull_ledger.put(ledger_row(occurrence, at));
        }
        self.count(at, task_key, occurrence, [1, 1, 0, 0, 0]);
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
            ..PullGrantRow::default()
        });
    }

    fn end_grant(&mut self, at: Place, grant: GrantId, (task, start): (TaskId, Timestamp), end: &End<'_>) {
        let (task, occurrence) = keys(task, at.shard, start);
        let more = match end {
            End::Completed { .. } => [0, -1, 1, 0, 0],
            End::Returned { .. } => [0, -1, 0, 1, 0],
            End::Expired => [0, -1, 0, 0, 1],
        };
        self.count(at, task, occurrence, more);
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
    fn count(&mut self, at: Place, task: (i64, i64), occurrence: (i64, i64, i64), more: Counts<i64>) {
        self.pull_tasks.change(task, |row| add(of_task(row), more));
        self.pull_ledger.change(occurrence, |row| {
            add(of_occurrence(row), more);
            row.changed_at = at.now;
        });
    }
}

fn ledger_row((task_id, start_at, shard): (i64, i64, i64), at: Place) -> PullLedgerRow {
    PullLedgerRow { task_id, start_at, shard, changed_at: at.now, ..PullLedgerRow::default() }
}
