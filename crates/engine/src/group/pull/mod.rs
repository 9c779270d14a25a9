//! Tasks that clients pull (PUL-1 to PUL-14).

use jiff::Timestamp;
use tidemill_model::{Actor, Command, Event, LiveAnswer, Rejection, TaskId, UserName};

use super::GroupShard;
use crate::decision::Decision;

impl GroupShard {
    pub(super) fn decide_pull(
        &self,
        _command: &Command,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<Decision, Rejection> {
        Err(Rejection::field("command", "pull tasks", "cannot be decided yet"))
    }

    pub(super) fn release_user(&self, user: &UserName, _now: Timestamp) -> Event {
        let reason = Rejection::field("command", "moves of users", "cannot be decided yet");
        Event::UserKept { user: user.clone(), reason }
    }

    pub(super) fn fold_pull(&mut self, _now: Timestamp, _event: &Event) {}

    pub(super) fn task_ledger(&self, _: TaskId, _: Option<Timestamp>, _: u32) -> LiveAnswer {
        LiveAnswer::NotFound
    }

    pub(super) fn user_standing(&self, _: &UserName, _: Timestamp) -> LiveAnswer {
        LiveAnswer::NotFound
    }
}
