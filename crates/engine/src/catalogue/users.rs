//! Users, and which group each has its home in (PUL-5).
//!
//! A user's history and its own tasks are known to its home group's shard only, so a move asks that shard first.
//!
//! ```text
//!  catalogue   UserMoveRequested ───────────────────────► UserMoved ──────┐
//!                   └─ DetachUser ─┐   ┌─ ReportUserDetached ─┘            └─ AttachUser ─┐
//!  old shard                        ▼   │                                             │
//!                                UserDetached                                         │
//!  new shard                                                                          └► UserAttached
//! ```
//! *Invariant:* a user is a member of at most one shard. The old shard forgets it with the record that says what it
//! knew, and from there on that record's message, the catalogue's record and its message carry it, each in a numbered
//! outbox, until the new shard has it. A shard that cannot let it go says why (`UserDetachRejected`, `UserMoveRejected`) and
//! keeps it.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{
    Answer, CatalogueEvent, Event, GroupName, InstanceId, MovedTask, Rejection, RequestId, ShardId,
    ShardMessage, UserHistory, UserName, bounds,
};

use super::{Catalogue, Requester, check_limit};
use crate::decision::{Decision, Ruled};

const MAX_MEMBERS: usize = 1_000_000;
/// Moves and removals that wait for an answer of a group's shard.
const MAX_MOVING: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Users {
    user_groups: FxHashMap<UserName, ShardId>,
    members: BTreeMap<ShardId, usize>,
    pub(super) moving: BTreeMap<UserName, Move>,
}

/// A request that waits for the answer of the user's home group's shard.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(super) struct Move {
    /// Its home then; absent: none.
    to: Option<GroupName>,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
}

impl Users {
    fn settle(&mut self, user: &UserName, home: ShardId) {
        self.leave(user);
        self.user_groups.insert(user.clone(), home);
        *self.members.entry(home).or_default() += 1;
    }

    fn leave(&mut self, user: &UserName) {
        let old = self.user_groups.remove(user);
        if let Some(members) = old.and_then(|home| self.members.get_mut(&home)) {
            *members = members.saturating_sub(1);
        }
    }
}

impl Catalogue {
    /// Those who have that home already stay as they are; if one cannot get it, none does.
    pub(super) fn assign_users(&self, group: &GroupName, users: &[UserName]) -> Ruled {
        let shard = self.known_group(group)?.shard;
        if users.is_empty() || users.len() > bounds::USERS {
            let rule = format!("must be 1 to {} users", bounds::USERS);
            return Err(Rejection::field("users", users.len(), rule));
        }
        let mut seen = BTreeSet::new();
        let mut new = Vec::with_capacity(users.len());
        for user in users {
            if self.users.moving.contains_key(user) {
                return Err(is_moving(user));
            }
            match self.users.user_groups.get(user) {
                Some(home) if *home == shard => {}
                Some(home) => {
                    let name = self.group_of(*home);
                    let group = name.map_or_else(|| format!("of shard {home}"), ToString::to_string);
                    return Err(Rejection::UserElsewhere { user: user.to_string(), group });
                }
                None if seen.insert(user) => new.push(user.clone()),
                None => {}
            }
        }
        if new.is_empty() {
            return Ok(Decision::unchanged(Answer::Done));
        }
        self.check_room(group, shard, new.len())?;
        Ok(Decision::done(CatalogueEvent::UsersAssigned { group: group.clone(), shard, users: new }))
    }

    pub(super) fn move_user(&self, user: &UserName, to: &GroupName, requester: Requester<'_>) -> Ruled {
        let shard = self.known_group(to)?.shard;
        let from = self.home_of(user)?;
        if from == shard {
            return Ok(Decision::unchanged(Answer::Done));
        }
        self.check_room(to, shard, 1)?;
        self.ask_release(user, from, Some(to), requester)
    }

    pub(super) fn delete_user(&self, user: &UserName, requester: Requester<'_>) -> Ruled {
        let from = self.home_of(user)?;
        self.ask_release(user, from, None, requester)
    }

    /// The home of a user that is not on its way to another one.
    fn home_of(&self, user: &UserName) -> Result<ShardId, Rejection> {
        if self.users.moving.contains_key(user) {
            return Err(is_moving(user));
        }
        self.users.user_groups.get(user).copied().ok_or_else(|| Rejection::unknown("user", user))
    }

    /// What a group gets is bounded, with those that are on their way to it: its members, and the messages that wait
    /// for its shard.
    fn check_room(&self, group: &GroupName, shard: ShardId, more: usize) -> Result<(), Rejection> {
        let coming = self.users.moving.values().filter(|of| of.to.as_ref() == Some(group)).count();
        let members = self.users.members.get(&shard).copied().unwrap_or_default();
        let what = format!("the number of users of group {group}");
        check_limit(what, members + coming + more, MAX_MEMBERS)?;
        self.check_mailbox(group, shard, coming)
    }

    fn ask_release(
        &self,
        user: &UserName,
        from: ShardId,
        to: Option<&GroupName>,
        requester: Requester<'_>,
    ) -> Ruled {
        let what = "the number of users that are being moved or removed";
        check_limit(what, self.users.moving.len() + 1, MAX_MOVING)?;
        Ok(Decision::of(CatalogueEvent::UserMoveRequested {
            user: user.clone(),
            from,
            to: to.cloned(),
            request: requester.request.cloned(),
            reply_to: requester.reply_to.cloned(),
        }))
    }

    fn group_of(&self, shard: ShardId) -> Option<&GroupName> {
        self.groups.iter().find(|(_, group)| group.shard == shard).map(|(name, _)| name)
    }

    /// The user has left its old home: this record is its new one. Whom nobody wanted to move goes back.
    pub(super) fn user_let_go(
        &self,
        from: ShardId,
        user: &UserName,
        history: &UserHistory,
        tasks: &[MovedTask],
    ) -> Event {
        let back = || Move { to: self.group_of(from).cloned(), ..Move::default() };
        let Move { to, request, reply_to } = self.users.moving.get(user).cloned().unwrap_or_else(back);
        let shard = to.as_ref().and_then(|to| self.shard_of_group(to));
        let (user, history, tasks) = (user.clone(), history.clone(), tasks.to_vec());
        CatalogueEvent::UserMoved { user, from, to, shard, history, tasks, request, reply_to }.into()
    }

    pub(super) fn user_not_let_go(&self, user: &UserName, reason: &Rejection) -> Event {
        let Move { request, reply_to, .. } = self.users.moving.get(user).cloned().unwrap_or_default();
        CatalogueEvent::UserMoveRejected { user: user.clone(), reason: reason.clone(), request, reply_to }
            .into()
    }

    pub(super) fn users_assigned(&mut self, shard: ShardId, users: &[UserName]) {
        for user in users {
            self.users.settle(user, shard);
        }
        self.mailbox.send(shard, ShardMessage::Users { users: users.to_vec() });
    }

    pub(super) fn user_move_requested(&mut self, event: &CatalogueEvent) {
        let CatalogueEvent::UserMoveRequested { user, from, to, request, reply_to } = event else { return };
        let (to, request, reply_to) = (to.clone(), request.clone(), reply_to.clone());
        self.users.moving.insert(user.clone(), Move { to, request, reply_to });
        self.mailbox.send(*from, ShardMessage::DetachUser { user: user.clone() });
    }

    pub(super) fn user_moved(&mut self, event: &CatalogueEvent) {
        let CatalogueEvent::UserMoved { user, shard, history, tasks, .. } = event else { return };
        self.users.moving.remove(user);
        let Some(shard) = *shard else { return self.users.leave(user) };
        self.users.settle(user, shard);
        let (user, history, tasks) = (user.clone(), history.clone(), tasks.clone());
        self.mailbox.send(shard, ShardMessage::AttachUser { user, history, tasks });
    }
}

fn is_moving(user: &UserName) -> Rejection {
    Rejection::AlreadyThere { what: format!("a move or removal of user {user} that has not ended") }
}
