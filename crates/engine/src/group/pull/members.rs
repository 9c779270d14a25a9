//! Users come and go (PUL-5): a shard knows the members of its group, with what their next pulls depend on.

use jiff::Timestamp;
use tidemill_model::{Event, MovedTask, Rejection, UserHistory, UserName};

use crate::group::GroupShard;

impl GroupShard {
    /// What the catalogue's wish to let a user go comes to.
    pub(in crate::group) fn release_user(&self, user: &UserName, _now: Timestamp) -> Event {
        let reason = Rejection::field("command", "moves of users", "cannot be decided yet");
        Event::UserKept { user: user.clone(), reason }
    }

    pub(super) fn users_received(&mut self, users: &[UserName]) {
        for user in users {
            self.pull.users.entry(user.clone()).or_default();
        }
    }

    pub(super) fn user_released(&mut self, user: &UserName, _: &UserHistory, _: &[MovedTask]) {
        self.pull.users.remove(user);
    }

    pub(super) fn user_kept(&mut self, _: &UserName, _: &Rejection) {}

    pub(super) fn user_received(&mut self, user: &UserName, _: &UserHistory, _: &[MovedTask]) {
        self.pull.users.entry(user.clone()).or_default();
    }
}
