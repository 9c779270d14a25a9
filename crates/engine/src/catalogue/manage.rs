//! Groups, single jobs, and the latest logical time that may be assigned, of one group and of everything (BYD-17): small
//! commands with small answers.

use std::collections::BTreeMap;

use tidemill_model::{
    Actor, Answer, CatalogueEvent, Deletion, Freeze, FreezeScope, GroupId, GroupName, GroupSettings, JobId,
    Rejection, ShardId, ShardMessage, Timestamp,
    bounds::{self, settings},
};

use super::apply_jobs::switched;
use super::{Catalogue, Terms};
use crate::decision::{Decision, Ruled};
use crate::group::is_public_key;

/// By group; `None`: everything.
pub(crate) type Freezes = BTreeMap<Option<GroupName>, Freeze>;

impl Catalogue {
    /// The shard of a worker group, and its workers' public key, hexadecimal.
    pub fn worker_group(&self, name: &GroupName) -> Option<(ShardId, &str)> {
        self.groups.get(name).map(|group| (group.shard, group.worker_key.as_str()))
    }

    pub(super) fn define_group(&self, name: &GroupName, worker_key: &str, settings: &GroupSettings) -> Ruled {
        if !is_public_key(worker_key) {
            let rule = "must be an Ed25519 public key in 64 hexadecimal digits";
            return Err(Rejection::field("worker_key", worker_key, rule));
        }
        check_settings(settings)?;
        self.check_group_limits(name, settings)?;
        let known = self.groups.get(name);
        let accounts = settings.accounts.as_ref();
        if let Some(owner) = accounts.and_then(|accounts| accounts.owner())
            && known.is_none_or(|known| known.settings.accounts.as_ref() != accounts)
        {
            let rule = "names an owner, who has no right by that; name the accounts under \"*\", and give the keys that may \
                        use them run_as";
            return Err(Rejection::field("accounts", owner, rule));
        }
        let number = self.groups.len() as u64 + 1;
        if known.is_none() && number > u64::from(ShardId::MAX.0) {
            return Err(Rejection::limit("the number of groups", number - 1));
        }
        let (group, shard) =
            known.map_or((GroupId(number as i32), ShardId(number as u16)), |known| (known.id, known.shard));
        let answer = Answer::Group { group, shard };
        if known.is_some_and(|known| known.worker_key == worker_key && known.settings == *settings) {
            return Ok(Decision::unchanged(answer));
        }
        let (name, worker_key, settings) = (name.clone(), worker_key.to_owned(), settings.clone());
        let event = CatalogueEvent::GroupDefined { group, name, shard, worker_key, settings };
        Ok(Decision::answered(vec![event.into()], answer))
    }

    pub(super) fn switch_job(&self, job: JobId, enabled: bool) -> Ruled {
        let known = self.known_job(job)?;
        self.check_stays(job)?;
        if known.enabled == enabled {
            return Ok(Decision::unchanged(Answer::Done));
        }
        Ok(Decision::done(switched(job, enabled)))
    }

    /// JOB-9: nothing is deleted that others name as parent, unless that is wanted, or of which something is unfinished.
    pub(super) fn delete_job(&self, job: JobId, terms: &Terms<'_>) -> Ruled {
        let known = self.known_job(job)?;
        self.check_unneeded(job, known, terms, &|_| false)?;
        if let Some(asked) = self.may_remove(&[job], terms, || Deletion::Delete { job })? {
            return Ok(Decision::of(asked));
        }
        Ok(Decision::answered(self.removed(job, terms, &|_| false), Answer::Done))
    }

    pub(super) fn freeze(
        &self,
        group: Option<&GroupName>,
        latest: Timestamp,
        by: &Actor,
        reason: &str,
    ) -> Ruled {
        self.check_groups(group)?;
        let reason = reason.trim();
        if reason.is_empty() || reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be 1 to {} characters: say why", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        let freeze = Freeze { latest, by: by.clone(), reason: reason.to_owned() };
        Ok(Decision::done(CatalogueEvent::FreezeSet { group: group.cloned(), freeze }))
    }

    pub(super) fn lift_freeze(&self, group: Option<&GroupName>, by: &Actor, reason: &str) -> Ruled {
        self.check_groups(group)?;
        let reason = reason.trim();
        if reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be at most {} characters", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        if !self.freezes.contains_key(&group.cloned()) {
            return Ok(Decision::unchanged(Answer::Done));
        }
        let (group, by, reason) = (group.cloned(), by.clone(), reason.to_owned());
        Ok(Decision::done(CatalogueEvent::FreezeLifted { group, by, reason }))
    }

    /// A freeze is set, or ended; the shards that it concerns hear of it.
    pub(super) fn frozen(&mut self, group: Option<&GroupName>, freeze: Option<&Freeze>) {
        match freeze {
            Some(freeze) => self.freezes.insert(group.cloned(), freeze.clone()),
            None => self.freezes.remove(&group.cloned()),
        };
        let scope = group.map_or(FreezeScope::Everything, |_| FreezeScope::Group);
        self.tell_groups(group, &ShardMessage::Freeze { scope, freeze: freeze.cloned() });
    }
}

/// Owners and accounts together.
const MAX_ACCOUNTS: usize = 500;

fn check_accounts(settings: &GroupSettings) -> Result<(), Rejection> {
    let Some(accounts) = &settings.accounts else { return Ok(()) };
    if let Some(owner) = accounts.0.keys().find(|owner| owner.is_empty() || owner.len() > 255) {
        return Err(Rejection::field("settings.accounts", owner, "an owner must be 1 to 255 bytes, or *"));
    }
    let count: usize = accounts.0.values().map(|accounts| accounts.len().max(1)).sum();
    if count > MAX_ACCOUNTS {
        let rule = format!("at most {MAX_ACCOUNTS} pairs of owner and account");
        return Err(Rejection::field("settings.accounts", count, rule));
    }
    Ok(())
}

fn check_settings(settings: &GroupSettings) -> Result<(), Rejection> {
    check_accounts(settings)?;
    let bounds = [
        ("start_timeout_ms", settings.start_timeout_ms, settings::START_TIMEOUT_MS),
        ("lost_after_ms", settings.lost_after_ms, settings::LOST_AFTER_MS),
        ("lease_ms", settings.lease_ms, settings::LEASE_MS),
        ("lease_margin_ms", settings.lease_margin_ms, settings::LEASE_MARGIN_MS),
        ("kill_grace_ms", settings.kill_grace_ms, settings::KILL_GRACE_MS),
        ("quality_retry_ms", settings.quality_retry_ms, settings::QUALITY_RETRY_MS),
        ("quality_alarm_after", settings.quality_alarm_after.into(), settings::QUALITY_ALARM_AFTER),
        ("pull_window_hours", settings.pull_window_hours.into(), settings::PULL_WINDOW_HOURS),
        ("pull_rotating_limit", settings.pull_rotating_limit.into(), settings::PULL_ROTATING_LIMIT),
        ("pull_retention_days", settings.pull_retention_days.into(), settings::PULL_RETENTION_DAYS),
    ];
    if let Some((field, value, (low, high))) =
        bounds.into_iter().find(|(_, value, (low, high))| value < low || value > high)
    {
        let field = format!("settings.{field}");
        return Err(Rejection::field(field, value, format!("must be {low} to {high}")));
    }
    if settings.lost_after_ms > settings.lease_ms {
        let rule = "must not be longer than lease_ms: a worker is lost before its lease is over";
        return Err(Rejection::field("settings.lost_after_ms", settings.lost_after_ms, rule));
    }
    let percents: [(_, u64, u64); 2] = [
        ("settings.max_load_percent", settings.max_load_percent.into(), settings::MAX_LOAD_PERCENT.1),
        (
            "settings.min_free_memory_percent",
            settings.min_free_memory_percent.into(),
            settings::MIN_FREE_MEMORY_PERCENT.1,
        ),
    ];
    if let Some((field, value, high)) = percents.into_iter().find(|(_, value, high)| value > high) {
        return Err(Rejection::field(field, value, format!("must be 0 (no bound) to {high}")));
    }
    Ok(())
}
