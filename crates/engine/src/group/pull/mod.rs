//! Tasks that clients pull (PUL-1 to PUL-14): what there is to do, who is given what, and what became of it.
//!
//! ```text
//!             TaskGranted                 TaskCompleted
//!   in stock ─────────────► live grant ─────────────────► completed
//!      ▲                        │
//!      └──── GrantReturned ─────┤
//!      └──── GrantExpired ──────┘
//! ```
//!
//! *Invariant:* of each occurrence, live and completed grants together are at most its task's `dispatch_times`; a user
//! has at most one live grant; taken = live + completed + returned + expired, for each occurrence and each task.
//!
//! *Invariant:* a user's window only moves forward, so what it has done is known from the last completed grant and the
//! tasks done with exactly that start; nothing older has to be remembered.

mod check;
mod complete;
mod give;
mod members;
mod purge;
mod task;
mod tasks;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Command, Executor, GrantId, LevelCommand, Outcome, Rejection, TaskCommand, TaskEvent,
    TaskId, Template, TemplateName, Timestamp, UserName,
};

use self::complete::Ended;
use self::purge::Purge;
use self::task::PullTask;
use self::users::{Board, User};
use super::{GroupShard, Remembered};
use crate::decision::Decision;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Pull {
    templates: BTreeMap<TemplateName, Arc<Template>>,
    /// The members; those who never pulled have nothing of their own. Never walked: its order says nothing.
    users: FxHashMap<UserName, Option<Box<User>>>,
    tasks: FxHashMap<TaskId, Box<PullTask>>,
    /// Tasks for whoever of the group asks first.
    board: Board,
    holders: FxHashMap<GrantId, UserName>,
    /// Grants that ended lately, so that a late completion hears why it is refused.
    ended: Remembered<GrantId, Ended>,
    /// The oldest of what a task would let go, by age.
    ages: BTreeSet<(Timestamp, TaskId)>,
    purge: Purge,
    tasks_minted: u64,
    grants_minted: u64,
}

impl Pull {
    pub(in crate::group) fn minted(&self) -> u64 {
        self.tasks_minted.max(self.grants_minted)
    }

    pub(in crate::group) fn mint_above(&mut self, counter: u64) {
        self.tasks_minted = self.tasks_minted.max(counter);
        self.grants_minted = self.grants_minted.max(counter);
    }

    fn board_mut(&mut self, executor: &Executor) -> Option<&mut Board> {
        match executor {
            Executor::Group(_) => Some(&mut self.board),
            Executor::User(user) => {
                let user = self.users.get_mut(user)?;
                Some(&mut user.get_or_insert_default().own)
            }
        }
    }

    fn board(&self, executor: &Executor) -> Option<&Board> {
        match executor {
            Executor::Group(_) => Some(&self.board),
            Executor::User(user) => self.users.get(user)?.as_ref().map(|user| &user.own),
        }
    }

    /// What has changed of a task or of its stock is what the next pull finds.
    fn settle(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let old = task.age;
        task.age = task.oldest();
        let (new, executor) = (task.age, task.spec.executor.clone());
        let start = task.open_start();
        if !task.spec.when.is_rotating() {
            let at = task.spec.when.start();
            if let Some(board) = self.board_mut(&executor) {
                match start {
                    Some(start) => board.open.insert((start, id)),
                    None => board.open.remove(&(at, id)),
                };
            }
        }
        if old != new {
            self.ages.extend(new.map(|age| (age, id)));
            if let Some(old) = old {
                self.ages.remove(&(old, id));
            }
        }
    }
}

/// Commands that repeat themselves by the state: asked again, they are decided again, and say the same.
pub(crate) fn is_by_state(command: &Command) -> bool {
    matches!(
        command,
        Command::Task(TaskCommand::Pull { .. } | TaskCommand::Complete { .. })
            | Command::Level(LevelCommand::RegisterProcess { .. })
    )
}

/// What comes of such a command. It is not kept: the state is the answer.
pub(crate) fn says_state(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answered(answer) => {
            matches!(
                answer,
                Answer::Pulled(_)
                    | Answer::NothingDue { .. }
                    | Answer::Completed { .. }
                    | Answer::Level { .. }
            )
        }
        Outcome::Refused(rejection) => matches!(
            rejection,
            Rejection::UserUnknown { .. }
                | Rejection::UserMoving { .. }
                | Rejection::GrantOver { .. }
                | Rejection::AlreadyCompleted { .. }
                | Rejection::TooOld { .. }
        ),
        Outcome::Done | Outcome::Repeated | Outcome::Deferred => false,
    }
}

impl GroupShard {
    pub(super) fn decide_pull(
        &self,
        command: &TaskCommand,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        match command {
            TaskCommand::Create { spec } => self.create_task(spec, now),
            TaskCommand::Change { task, spec } => self.change_task(*task, spec, now),
            TaskCommand::Delete { task } => {
                self.pull.valid_task(*task)?;
                Ok(Decision::of(TaskEvent::Deleted { task: *task }))
            }
            TaskCommand::Pull { user } => self.give(user, now),
            TaskCommand::Complete { user, grant, result } => self.complete_task(user, *grant, result),
            TaskCommand::ReturnGrant { user, grant, reason } => {
                self.return_grant(user, *grant, reason, actor)
            }
        }
    }

    pub(super) fn apply_task(&mut self, now: Timestamp, event: &TaskEvent) {
        match event {
            TaskEvent::Created { task, spec } => self.pull.task_created(*task, spec),
            TaskEvent::Changed { task, version, spec } => self.pull.task_changed(*task, *version, spec),
            TaskEvent::Deleted { task } => self.pull.task_deleted(now, *task),
            TaskEvent::Granted { .. } => self.task_granted(now, event),
            TaskEvent::Completed { grant, result, .. } => {
                self.grant_ended(now, *grant, Ended::Completed, result);
            }
            TaskEvent::GrantReturned { grant, .. } => self.grant_ended(now, *grant, Ended::Returned, ""),
            TaskEvent::GrantExpired { grant, .. } => self.grant_ended(now, *grant, Ended::Expired, ""),
            TaskEvent::Purged { before, tasks } => self.pull.tasks_purged(now, *before, tasks),
        }
        self.set_purge_timer(now);
    }
}
