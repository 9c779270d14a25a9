//! Users and their home groups: what the catalogue says, and what the shards tell it.

use std::collections::HashMap;

use tidemill_model::{CatalogueEvent, Event, GroupName, Json as _, ShardId, TransferEvent, UserName};

use crate::Invariant;
use crate::answers::{Answers, Kind};
use crate::findings::At;
use crate::requests::fingerprint;

pub(crate) const KIND: Kind = Kind { rule: Invariant::UsersHaveOneHome, what: "answer", on: "a user" };

#[derive(Debug, Default)]
pub(crate) struct UserGroups {
    of: HashMap<UserName, ShardId>,
    /// Who is being moved: from where, to which group.
    moving: HashMap<UserName, (ShardId, Option<GroupName>)>,
    pub(crate) answers: Answers,
}

impl UserGroups {
    /// `users_have_one_home`, as the catalogue says. `groups`: where groups are.
    pub(crate) fn decided(&mut self, at: &At<'_>, event: &Event, groups: &HashMap<GroupName, ShardId>) {
        let rule = KIND.rule;
        match event {
            Event::Catalogue(CatalogueEvent::UsersAssigned { group, shard, users }) => {
                if groups.get(group) != Some(shard) {
                    at.breaks(rule, format!("group {group} is not of shard {shard}"));
                }
                for user in users {
                    if let Some(home) = self.of.insert(user.clone(), *shard) {
                        at.breaks(rule, format!("user {user} has a home in shard {home} already"));
                    }
                }
            }
            Event::Catalogue(CatalogueEvent::UserMoveRequested { user, from, to, .. }) => {
                if self.of.get(user) != Some(from) {
                    at.breaks(rule, format!("shard {from} is asked for user {user}, whose home it is not"));
                }
                if self.moving.insert(user.clone(), (*from, to.clone())).is_some() {
                    at.breaks(rule, format!("user {user} is being moved already"));
                }
            }
            Event::Catalogue(CatalogueEvent::UserMoved { user, from, to, shard, .. }) => {
                self.answers.heard(at, KIND, *from, fingerprint(&released(event)));
                match self.moving.remove(user) {
                    Some((asked, wanted)) if (asked, &wanted) == (*from, to) => {}
                    other => {
                        let why =
                            format!("user {user} is moved from {from} to {to:?}, and asked was {other:?}");
                        at.breaks(rule, why);
                    }
                }
                if to.as_ref().and_then(|group| groups.get(group)) != shard.as_ref() {
                    at.breaks(rule, format!("group {to:?} is not of shard {shard:?}"));
                }
                match shard {
                    Some(shard) => self.of.insert(user.clone(), *shard),
                    None => self.of.remove(user),
                };
            }
            Event::Catalogue(CatalogueEvent::UserMoveRejected { user, reason, .. }) => {
                match self.moving.remove(user) {
                    Some((from, _)) => self.answers.heard(at, KIND, from, fingerprint(&kept(user, reason))),
                    None => at.breaks(rule, format!("user {user} stays, and was not being moved")),
                }
            }
            _ => {}
        }
    }

    /// What a group's shard answers.
    pub(crate) fn told(&mut self, at: &At<'_>, shard: ShardId, event: &Event) {
        let says = match event {
            Event::Transfer(TransferEvent::UserDetachRejected { user, reason }) => {
                fingerprint(&kept(user, reason))
            }
            event => fingerprint(&released(event)),
        };
        self.answers.told(at, KIND, shard, says);
    }
}

/// What a shard says of a user who left, equal on all sides.
pub(crate) fn released(event: &Event) -> Option<(String, String, String)> {
    match event {
        Event::Transfer(
            TransferEvent::UserDetached { user, history, tasks }
            | TransferEvent::UserAttached { user, history, tasks },
        )
        | Event::Catalogue(CatalogueEvent::UserMoved { user, history, tasks, .. }) => {
            let history = serde_json::to_string(history).ok()?;
            Some((user.to_string(), history, serde_json::to_string(tasks).ok()?))
        }
        _ => None,
    }
}

fn kept(user: &UserName, reason: &tidemill_model::Rejection) -> (String, String) {
    (user.to_string(), reason.to_json())
}
