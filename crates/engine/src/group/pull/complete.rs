//! PUL-7, PUL-13: how a grant ends. Only the live one of its user can, and once it has, nothing that is said of it
//! changes anything.

use sha2::{Digest, Sha256};
use tidemill_derive::Stored;
use tidemill_model::{Actor, Answer, Event, GrantId, Rejection, TaskEvent, Timestamp, UserName, bounds};

use super::users::{Grant, Last, User};
use crate::decision::Decision;
use crate::group::pull::Pull;
use crate::group::{GroupShard, Timer};

/// How a grant ended, as a late completion is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
pub(super) enum Ended {
    Completed,
    Returned,
    Expired,
}

fn hash_of(result: &str) -> [u8; 32] {
    Sha256::digest(result.as_bytes()).into()
}

impl Pull {
    /// What the mistake of that name does: the completion of a grant that has expired.
    #[cfg(feature = "planted")]
    fn late_completion(&self, name: &UserName, grant: GrantId, result: &str) -> Option<Decision> {
        let (task, start) = (tidemill_planted::noted(grant.0)?, tidemill_planted::noted(-grant.0)?);
        if self.ended.get(&grant) != Some(&Ended::Expired) {
            return None;
        }
        let event = Event::Task(TaskEvent::Completed {
            grant,
            task: tidemill_model::TaskId(task),
            start: Timestamp::from_second(start).ok()?,
            user: name.clone(),
            result: result.to_owned(),
        });
        Some(Decision::answered(vec![event], Answer::Completed { grant }))
    }

    /// What the end of a grant's lease asks for.
    pub(in crate::group) fn grant_expired(&self, grant: GrantId) -> Vec<Event> {
        let Some(user) = self.holders.get(&grant) else { return Vec::new() };
        let known = self.users.get(user).and_then(Option::as_deref);
        let Some(live) = known.and_then(|known| known.live.as_ref()) else { return Vec::new() };
        let (task, start) = (live.task, live.start);
        vec![Event::Task(TaskEvent::GrantExpired { grant, task, start, user: user.clone() })]
    }
}

impl GroupShard {
    /// Idempotent: the last completed one with the same result is completed.
    pub(super) fn complete_task(
        &self,
        name: &UserName,
        grant: GrantId,
        result: &str,
    ) -> Result<Decision, Rejection> {
        if result.is_empty() || result.len() > bounds::RESULT_BYTES {
            let rule = format!("has {} bytes; must be 1 to {}", result.len(), bounds::RESULT_BYTES);
            return Err(Rejection::field("result", result, rule));
        }
        let user = self.member(name)?;
        if let Some(last) = user.and_then(|user| user.last).filter(|last| last.grant == grant) {
            if last.result == hash_of(result) {
                return Ok(Decision::unchanged(Answer::Completed { grant }));
            }
            return Err(Rejection::AlreadyCompleted { grant: grant.0 });
        }
        planted!(LateCompletionAccepted => if let Some(late) = self.pull.late_completion(name, grant, result) {
            return Ok(late);
        });
        let live = self.live_grant(user, grant).map_err(|reason| {
            let reason = format!("{reason}: the completion is late or not this user's");
            Rejection::GrantOver { grant: grant.0, reason }
        })?;
        let event = Event::Task(TaskEvent::Completed {
            grant,
            task: live.task,
            start: live.start,
            user: name.clone(),
            result: result.to_owned(),
        });
        Ok(Decision::answered(vec![event], Answer::Completed { grant }))
    }

    pub(super) fn return_grant(
        &self,
        name: &UserName,
        grant: GrantId,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        if reason.len() > bounds::RETURN_REASON_BYTES {
            let rule = format!("has {} bytes; must be at most {}", reason.len(), bounds::RETURN_REASON_BYTES);
            return Err(Rejection::field("reason", reason, rule));
        }
        let Some(user) = self.pull.users.get(name) else {
            return Err(Rejection::unknown(Rejection::MEMBER, name));
        };
        let live = self
            .live_grant(user.as_deref(), grant)
            .map_err(|reason| Rejection::NotReturned { grant: grant.0, reason: reason.to_owned() })?;
        Ok(Decision::of(TaskEvent::GrantReturned {
            grant,
            task: live.task,
            start: live.start,
            user: name.clone(),
            by: by.clone(),
            reason: reason.to_owned(),
        }))
    }

    /// The user's live grant, if it is that one; else what became of that one.
    fn live_grant<'a>(&self, user: Option<&'a User>, grant: GrantId) -> Result<&'a Grant, &'static str> {
        if let Some(live) = user.and_then(|user| user.live.as_ref()).filter(|live| live.id == grant) {
            return Ok(live);
        }
        if self.pull.holders.contains_key(&grant) {
            return Err("is another user's");
        }
        let newest = GrantId::mint(self.pull.grants_minted, self.id);
        let has_minted = grant.shard() == self.id && grant.0 > i64::from(self.id.0) && grant <= newest;
        Err(match self.pull.ended.get(&grant) {
            Some(Ended::Completed) => "was completed before",
            Some(Ended::Returned) => "was returned",
            Some(Ended::Expired) => "has expired",
            None if has_minted => "ended long ago",
            None => "was never given here",
        })
    }

    /// `result`: of a completion.
    pub(super) fn grant_ended(&mut self, now: Timestamp, grant: GrantId, ended: Ended, result: &str) {
        let Some(name) = self.pull.holders.remove(&grant) else { return };
        self.pull.ended.insert(grant, ended);
        let Some(user) = self.pull.users.get_mut(&name).and_then(Option::as_deref_mut) else { return };
        let Some(live) = user.live.take() else { return };
        if ended == Ended::Completed {
            user.completed(&live, hash_of(result), now);
        }
        planted!(LateCompletionAccepted => {
            tidemill_planted::note(grant.0, live.task.0);
            tidemill_planted::note(-grant.0, live.start.as_second());
        });
        self.timers.cancel(live.expires_at, Timer::PullLease(grant));
        if let Some(task) = self.pull.tasks.get_mut(&live.task) {
            task.count(live.start, |ledger| {
                let twice = ended == Ended::Returned && planted!(ReturnedToStockTwice);
                let lost = ended == Ended::Expired && planted!(ExpiredNotInStock);
                ledger.live = ledger.live.saturating_sub(if twice { 2 } else { u64::from(!lost) });
                match ended {
                    Ended::Completed => ledger.completed += 1,
                    Ended::Returned => ledger.returned += 1,
                    Ended::Expired => ledger.expired += 1,
                }
            });
            task.settle(live.start);
            self.pull.settle(live.task);
        }
    }
}

impl User {
    /// Its window begins with that occurrence now.
    fn completed(&mut self, grant: &Grant, result: [u8; 32], completed_at: Timestamp) {
        if self.last.is_none_or(|last| last.start != grant.start) {
            self.done.clear();
        }
        if let Err(place) = self.done.binary_search(&grant.task) {
            self.done.insert(place, grant.task);
        }
        let (id, task, start) = (grant.id, grant.task, grant.start);
        self.last = Some(Last { grant: id, task, start, result, completed_at });
    }
}
