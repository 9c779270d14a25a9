//! PUL-2, PUL-3, PUL-11: tasks are created, changed and deleted.

use std::sync::Arc;

use tidemill_model::{Answer, Event, Executor, Rejection, TaskEvent, TaskId, TaskSpec, Timestamp};

use super::task::PullTask;
use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::pull::Pull;

/// Tasks for once that a user may have.
const MAX_ONCE_OF_USER: u32 = 1_000;
/// Tasks for once that a group may have, those of its users aside.
const MAX_ONCE_OF_GROUP: u32 = 100_000;

impl Pull {
    pub(super) fn valid_task(&self, id: TaskId) -> Result<&PullTask, Rejection> {
        let task = self.tasks.get(&id).ok_or_else(|| Rejection::unknown("task", id))?;
        if task.is_valid() { Ok(task) } else { Err(Rejection::TaskDeleted { task: id.0 }) }
    }

    pub(super) fn add_task(&mut self, id: TaskId, task: PullTask) {
        if let Some(board) = self.board_mut(&task.spec.executor) {
            board.enter(id, task.spec.when.is_rotating());
        }
        self.tasks.insert(id, Box::new(task));
        self.settle(id);
    }

    pub(super) fn task_changed(&mut self, id: TaskId, version: u32, spec: &Arc<TaskSpec>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let old = Arc::clone(&task.spec);
        task.change(version, spec);
        if let Some(board) = self.board_mut(&old.executor) {
            board.leave(id, &old);
            board.enter(id, spec.when.is_rotating());
        }
        self.settle(id);
    }

    pub(super) fn task_deleted(&mut self, now: Timestamp, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.deleted_at = Some(now);
        let spec = Arc::clone(&task.spec);
        if let Some(board) = self.board_mut(&spec.executor) {
            board.leave(id, &spec);
        }
        self.settle(id);
    }

    pub(super) fn task_created(&mut self, id: TaskId, spec: &Arc<TaskSpec>) {
        self.tasks_minted += 1;
        self.add_task(id, PullTask::new(1, spec));
    }
}

impl GroupShard {
    pub(super) fn create_task(&self, spec: &TaskSpec, now: Timestamp) -> Result<Decision, Rejection> {
        self.check_task(spec, None, now)?;
        self.check_room(spec)?;
        let task = TaskId::mint(self.pull.tasks_minted + 1, self.id);
        let event = Event::Task(TaskEvent::Created { task, spec: Arc::new(spec.clone()) });
        Ok(Decision::answered(vec![event], Answer::Task { task, version: 1 }))
    }

    pub(super) fn change_task(
        &self,
        id: TaskId,
        spec: &TaskSpec,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let task = self.pull.valid_task(id)?;
        self.check_task(spec, Some(task), now)?;
        if task.spec.when.is_rotating() != spec.when.is_rotating() {
            self.check_room(spec)?;
        }
        if *task.spec == *spec {
            return Ok(Decision::unchanged(Answer::Task { task: id, version: task.version }));
        }
        let version = task.version + 1;
        let event = Event::Task(TaskEvent::Changed { task: id, version, spec: Arc::new(spec.clone()) });
        Ok(Decision::answered(vec![event], Answer::Task { task: id, version }))
    }

    /// PUL-10
    fn check_room(&self, spec: &TaskSpec) -> Result<(), Rejection> {
        let board = self.pull.board(&spec.executor);
        let (kind, count, limit) = if spec.when.is_rotating() {
            let count = board.map_or(0, |board| board.rotating.len());
            ("rotating tasks", count as u64, u64::from(self.settings().pull_rotating_limit))
        } else {
            let limit = match spec.executor {
                Executor::Group(_) => MAX_ONCE_OF_GROUP,
                Executor::User(_) => MAX_ONCE_OF_USER,
            };
            ("tasks for once", board.map_or(0, |board| board.once.len() as u64), u64::from(limit))
        };
        if count < limit {
            return Ok(());
        }
        Err(Rejection::LimitReached { what: format!("the number of {kind} of {}", spec.executor), limit })
    }
}
