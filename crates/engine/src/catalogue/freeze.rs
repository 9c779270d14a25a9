//! BYD-17: the latest logical time that may be assigned, of one group and of everything.

use std::collections::BTreeMap;

use tidemill_model::{
    Actor, Answer, CatalogueEvent, Event, Freeze, FreezeScope, GroupName, Rejection, ShardId, ShardMessage,
    Timestamp, bounds,
};

use super::Catalogue;
use crate::decision::Decision;

/// What is frozen.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Freezes {
    everything: Option<Freeze>,
    groups: BTreeMap<GroupName, Freeze>,
}

impl Freezes {
    fn get(&self, group: Option<&GroupName>) -> Option<&Freeze> {
        group.map_or(self.everything.as_ref(), |group| self.groups.get(group))
    }
}

impl Catalogue {
    pub(super) fn freeze(
        &self,
        group: Option<&GroupName>,
        latest: Timestamp,
        by: &Actor,
        reason: &str,
    ) -> Result<Decision, Rejection> {
        self.check_scope(group)?;
        let reason = reason.trim();
        if reason.is_empty() || reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be 1 to {} characters: say why", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        let freeze = Freeze { latest, by: by.clone(), reason: reason.to_owned() };
        let event = Event::Catalogue(CatalogueEvent::FreezeSet { group: group.cloned(), freeze });
        Ok(Decision::done(event))
    }

    pub(super) fn lift_freeze(
        &self,
        group: Option<&GroupName>,
        by: &Actor,
        reason: &str,
    ) -> Result<Decision, Rejection> {
        self.check_scope(group)?;
        let reason = reason.trim();
        if reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be at most {} characters", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        let event = Event::Catalogue(CatalogueEvent::FreezeLifted {
            group: group.cloned(),
            by: by.clone(),
            reason: reason.to_owned(),
        });
        let events = self.freezes.get(group).map(|_| event);
        Ok(Decision::answered(events.into_iter().collect(), Answer::Done))
    }

    fn check_scope(&self, group: Option<&GroupName>) -> Result<(), Rejection> {
        match group.filter(|group| !self.groups.contains_key(*group)) {
            Some(unknown) => Err(Rejection::unknown("group", unknown)),
            None => Ok(()),
        }
    }

    /// A freeze is set, or ended; the shards that it concerns hear of it.
    pub(super) fn frozen(&mut self, group: Option<&GroupName>, freeze: Option<&Freeze>) {
        let freeze = freeze.cloned();
        let Some(group) = group else {
            self.freezes.everything.clone_from(&freeze);
            let shards: Vec<ShardId> = self.groups.values().map(|group| group.shard).collect();
            for shard in shards {
                let (scope, freeze) = (FreezeScope::Everything, freeze.clone());
                self.mailbox.send(shard, ShardMessage::Freeze { scope, freeze });
            }
            return;
        };
        match &freeze {
            Some(freeze) => self.freezes.groups.insert(group.clone(), freeze.clone()),
            None => self.freezes.groups.remove(group),
        };
        self.send(group, ShardMessage::Freeze { scope: FreezeScope::Group, freeze });
    }

    /// A new group is frozen with everything.
    pub(super) fn freeze_new_group(&mut self, shard: ShardId) {
        if let Some(freeze) = self.freezes.everything.clone() {
            let (scope, freeze) = (FreezeScope::Everything, Some(freeze));
            self.mailbox.send(shard, ShardMessage::Freeze { scope, freeze });
        }
    }
}
