//! PUL-5, PUL-6: a user asks for work.

use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{Answer, Event, GrantId, PulledGrant, Rejection, TaskEvent, Timestamp, UserName};

use super::users::{Grant, User};
use crate::decision::Decision;
use crate::group::{GroupShard, Timer};

impl GroupShard {
    /// The live grant again; else the occurrence that is due, in a grant of its own; else when to ask again.
    pub(super) fn give(&self, name: &UserName, now: Timestamp) -> Result<Decision, Rejection> {
        let user = self.member(name)?;
        let live = user.and_then(|user| user.live.as_ref()).filter(|_| !planted!(AnotherGrantInsteadOfRedo));
        if let Some(live) = live {
            return Ok(Decision::unchanged(Answer::Pulled(Box::new(live.told(true)))));
        }
        let Some((start, id)) = self.due_for(user, now) else {
            let next_at = self.next_for(user, now).map(|(start, _)| start);
            return Ok(Decision::unchanged(Answer::NothingDue { next_at }));
        };
        let Some(task) = self.pull.tasks.get(&id) else {
            return Err(Rejection::unknown("task", id));
        };
        let lease = task.spec.lease_s.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        let expires_at = lease.map(|lease| now.saturating_add(lease).unwrap_or(Timestamp::MAX));
        let grant = GrantId::mint(self.pull.grants_minted + 1, self.id);
        let event = Event::Task(TaskEvent::Granted {
            grant,
            task: id,
            version: task.version,
            start,
            user: name.clone(),
            expires_at,
            next: task.next_after(start),
        });
        let told = PulledGrant {
            grant,
            task: id,
            version: task.version,
            name: task.spec.name.clone(),
            parameters: task.spec.parameters.clone(),
            start,
            granted_at: now,
            expires_at,
            redo: false,
        };
        Ok(Decision::answered(vec![event], Answer::Pulled(Box::new(told))))
    }

    /// What a member has of its own, if anything.
    pub(super) fn member(&self, name: &UserName) -> Result<Option<&User>, Rejection> {
        let known = self.pull.users.get(name).map(Option::as_deref);
        known.ok_or_else(|| match name.to_string() {
            user if self.is_leaving(name) => Rejection::UserMoving { user },
            user => Rejection::UserUnknown { user, group: self.group_name() },
        })
    }

    pub(super) fn group_name(&self) -> String {
        self.group.as_ref().map_or_else(|| "any group".to_owned(), |group| format!("group {}", group.name))
    }

    pub(super) fn task_granted(&mut self, now: Timestamp, event: &TaskEvent) {
        let TaskEvent::Granted { grant, task: id, version, start, user, expires_at, next } = event else {
            return;
        };
        self.pull.grants_minted += 1;
        let Some(task) = self.pull.tasks.get_mut(id) else { return };
        let occurrence = task.count(*start, |ledger| {
            ledger.taken += 1;
            ledger.live += 1;
        });
        if let Some(occurrence) = occurrence {
            occurrence.next = *next;
        }
        task.settle(*start);
        let live = Grant {
            id: *grant,
            task: *id,
            version: *version,
            spec: Arc::clone(&task.spec),
            start: *start,
            granted_at: now,
            expires_at: *expires_at,
        };
        self.pull.settle(*id);
        self.pull.holders.insert(*grant, user.clone());
        self.timers.set(*expires_at, Timer::PullLease(*grant));
        self.pull.users.entry(user.clone()).or_default().get_or_insert_default().live = Some(live);
    }
}
