//! Users as the shard of their home group knows them. BYD-10, PUL-6: what people and clients ask about them and about tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    GrantId, LastCompleted, LiveAnswer, NextDue, OccurrenceLedger, PulledGrant, TaskId, TaskLedger, TaskSpec,
    Timestamp, UserName, UserStanding,
};

use crate::group::GroupShard;
use crate::group::pull::Pull;

/// Of one answer.
const MAX_OCCURRENCES: usize = 1_000;

/// What a user has of its own; absent for those who never pulled.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(super) struct User {
    /// What it was given and has not completed.
    pub(super) live: Option<Grant>,
    pub(super) last: Option<Last>,
    /// The tasks that it completed with exactly that start, in order.
    pub(super) done: Vec<TaskId>,
    /// Its window does not begin before: what is older may have been forgotten where it came from.
    pub(super) not_before: Option<Timestamp>,
    pub(super) own: Board,
}

/// A live grant, with the task as it was when it was given.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(super) struct Grant {
    pub(super) id: GrantId,
    pub(super) task: TaskId,
    pub(super) version: u32,
    pub(super) spec: Arc<TaskSpec>,
    pub(super) start: Timestamp,
    pub(super) granted_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
}

/// What a user completed last.
#[derive(Debug, Clone, Copy, PartialEq, Stored)]
pub(super) struct Last {
    pub(super) grant: GrantId,
    pub(super) task: TaskId,
    pub(super) start: Timestamp,
    /// SHA-256 of the result.
    pub(super) result: [u8; 32],
    pub(super) completed_at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(super) struct Board {
    /// Those for once that can be given, by their start.
    pub(super) open: BTreeSet<(Timestamp, TaskId)>,
    /// Rotating ones that are not deleted.
    pub(super) rotating: BTreeSet<TaskId>,
    /// Those for once that are not deleted and are kept, used-up ones included.
    pub(super) once: BTreeSet<TaskId>,
}

impl Grant {
    pub(super) fn told(&self, redo: bool) -> PulledGrant {
        PulledGrant {
            grant: self.id,
            task: self.task,
            version: self.version,
            name: self.spec.name.clone(),
            parameters: self.spec.parameters.clone(),
            start: self.start,
            granted_at: self.granted_at,
            expires_at: self.expires_at,
            redo,
        }
    }
}

impl Board {
    /// All that are not deleted.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.once.iter().chain(&self.rotating).copied()
    }

    pub(super) fn enter(&mut self, task: TaskId, is_rotating: bool) {
        if is_rotating {
            self.rotating.insert(task);
        } else {
            self.once.insert(task);
        }
    }

    pub(super) fn leave(&mut self, task: TaskId, spec: &TaskSpec) {
        if spec.when.is_rotating() {
            self.rotating.remove(&task);
        } else {
            self.once.remove(&task);
            self.open.remove(&(spec.when.start(), task));
        }
    }
}

impl From<&LastCompleted> for Last {
    fn from(told: &LastCompleted) -> Self {
        let mut result = [0; 32];
        for (byte, hex) in result.iter_mut().zip(told.result_hash.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(hex).ok();
            *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
        let LastCompleted { grant, task, start, completed_at, .. } = *told;
        Self { grant, task, start, result, completed_at }
    }
}

impl Last {
    pub(super) fn told(self) -> LastCompleted {
        let result_hash = self.result.iter().map(|byte| format!("{byte:02x}")).collect();
        let Last { grant, task, start, completed_at, .. } = self;
        LastCompleted { grant, task, start, result_hash, completed_at }
    }
}

impl Pull {
    pub(in crate::group) fn task_ledger(
        &self,
        id: TaskId,
        before: Option<Timestamp>,
        limit: u32,
    ) -> LiveAnswer {
        let Some(task) = self.tasks.get(&id) else { return LiveAnswer::NotFound };
        let limit = MAX_OCCURRENCES.min(limit as usize);
        let older = before
            .map_or(task.given.len(), |before| task.given.partition_point(|given| given.start < before));
        let shown = task.given[..older].iter().rev().take(limit).map(|given| OccurrenceLedger {
            start: given.start,
            ledger: given.ledger,
            stock: if task.gives(given.start) { task.stock(given.start) } else { 0 },
        });
        LiveAnswer::TaskLedger(Box::new(TaskLedger {
            task: id,
            version: task.version,
            spec: (*task.spec).clone(),
            deleted_at: task.deleted_at,
            totals: task.totals,
            occurrences: shown.collect(),
            more: older > limit,
        }))
    }
}

impl GroupShard {
    pub(in crate::group) fn user_standing(&self, name: &UserName, at: Timestamp) -> LiveAnswer {
        let Some(user) = self.pull.users.get(name) else { return LiveAnswer::NotFound };
        let user = user.as_deref();
        let next = self.due_for(user, at).or_else(|| self.next_for(user, at));
        LiveAnswer::User(Box::new(UserStanding {
            user: name.clone(),
            live: user.and_then(|user| user.live.as_ref()).map(|live| live.told(false)),
            last: user.and_then(|user| user.last).map(Last::told),
            window_from: self.window_from(user, at),
            next: next.map(|(start, task)| NextDue { task, start }),
        }))
    }
}
