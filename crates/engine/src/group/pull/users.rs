//! Users as the shard of their home group knows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_model::{GrantId, PulledGrant, TaskId, TaskSpec, Timestamp};

/// What a user has of its own; absent for those who never pulled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct User {
    /// What it was given and has not completed.
    pub(super) live: Option<Grant>,
    /// What it completed last.
    pub(super) last: Option<Last>,
    /// The tasks that it completed with exactly that start, in order.
    pub(super) done: Vec<TaskId>,
    /// Its window does not begin before: what is older may have been forgotten where it came from.
    pub(super) not_before: Option<Timestamp>,
    /// Tasks for it alone.
    pub(super) own: Board,
}

/// A live grant, with the task as it was when it was given.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Last {
    pub(super) grant: GrantId,
    pub(super) task: TaskId,
    pub(super) start: Timestamp,
    /// SHA-256 of the result.
    pub(super) result: [u8; 32],
    pub(super) completed_at: Timestamp,
}

/// The tasks of one executor.
#[derive(Debug, Clone, Default, PartialEq)]
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
