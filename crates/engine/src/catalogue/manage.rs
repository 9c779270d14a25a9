//! Groups, keys, and single jobs: small commands with small answers.

use std::collections::BTreeSet;

use tidemill_model::{
    Account, Answer, CatalogueEvent, Deletion, Event, GroupId, GroupName, GroupSettings, JobId, Rejection,
    Role, ShardId,
    bounds::{self, settings},
};

use super::apply_jobs::switched;
use super::{Catalogue, Terms};
use crate::decision::Decision;
use crate::group::is_public_key;

pub(super) const MAX_KEYS: usize = 10_000;
/// As the record names who is no application: their names are nobody's key.
const ROLE_NAMES: [&str; 5] = ["attempt", "first-start", "operator", "owner", "worker"];

/// What the rules need of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) role: Role,
    /// The groups that it is bound to; none: it reaches all.
    pub(crate) groups: BTreeSet<GroupName>,
    pub(crate) run_as: BTreeSet<Account>,
}

impl Key {
    /// Whether it is a super-administrator's, who is that of the whole site.
    fn is_super(&self) -> bool {
        self.role == Role::SuperAdministrator && self.groups.is_empty()
    }

    /// DSP-2: whether jobs may run as this account which it applies.
    pub(super) fn may_run_as(&self, account: &Account) -> bool {
        self.is_super() || self.run_as.contains(account)
    }
}

/// A key that is to be.
pub(super) struct NewKey<'a> {
    pub(super) app: &'a str,
    pub(super) hash: &'a str,
    pub(super) role: Role,
    pub(super) groups: &'a [GroupName],
    pub(super) run_as: &'a BTreeSet<Account>,
    pub(super) first_only: bool,
}

impl Catalogue {
    pub(super) fn define_group(
        &self,
        name: &GroupName,
        worker_key: &str,
        settings: &GroupSettings,
    ) -> Result<Decision, Rejection> {
        if !is_public_key(worker_key) {
            let rule = "must be an Ed25519 public key in 64 hexadecimal digits";
            return Err(Rejection::field("worker_key", worker_key, rule));
        }
        check_settings(settings)?;
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
        let event = Event::Catalogue(CatalogueEvent::GroupDefined {
            group,
            name: name.clone(),
            shard,
            worker_key: worker_key.to_owned(),
            settings: settings.clone(),
        });
        Ok(Decision::answered(vec![event], answer))
    }

    pub(super) fn define_key(&self, key: &NewKey<'_>, most: usize) -> Result<Decision, Rejection> {
        let NewKey { app, hash, role, groups, run_as, first_only } = *key;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if app.is_empty() || app.len() > bounds::APP_CHARS || !app.chars().all(fits) {
            return Err(Rejection::field("app", app, "must be 1 to 64 letters, digits, and . _ -"));
        }
        if ROLE_NAMES.contains(&app) {
            let rule = "stands in the record for a part of the program itself; take another name";
            return Err(Rejection::field("app", app, rule));
        }
        if hash.len() != 64 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(Rejection::field("hash", hash, "must be a SHA-256 in 64 hexadecimal digits"));
        }
        if let Some(unknown) = groups.iter().find(|group| !self.groups.contains_key(group)) {
            return Err(Rejection::unknown("group", unknown));
        }
        if groups.len() > bounds::KEY_GROUPS {
            let rule = format!("at most {}; leave them out for all", bounds::KEY_GROUPS);
            return Err(Rejection::field("groups", groups.len(), rule));
        }
        if run_as.len() > bounds::KEY_ACCOUNTS {
            let rule = format!("at most {} accounts", bounds::KEY_ACCOUNTS);
            return Err(Rejection::field("run_as", run_as.len(), rule));
        }
        if role == Role::SuperAdministrator && !groups.is_empty() {
            let rule = "must be empty: a super_administrator is one of the whole site; make the key an administrator";
            let groups: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
            return Err(Rejection::field("groups", groups.join(", "), rule));
        }
        if role != Role::SuperAdministrator {
            self.check_not_last(app)?;
        }
        if first_only && !self.keys.is_empty() {
            return Err(Rejection::AlreadyThere { what: "a first key".to_owned() });
        }
        if self.keys.len() >= most && !self.keys.contains_key(app) {
            return Err(Rejection::limit("the number of keys", most as u64));
        }
        Ok(Decision::done(CatalogueEvent::KeyDefined {
            app: app.to_owned(),
            hash: hash.to_ascii_lowercase(),
            role,
            groups: groups.to_vec(),
            run_as: run_as.clone(),
        }))
    }

    pub(super) fn revoke_key(&self, app: &str) -> Result<Decision, Rejection> {
        if !self.keys.contains_key(app) {
            return Err(Rejection::unknown("key", app));
        }
        self.check_not_last(app)?;
        Ok(Decision::done(CatalogueEvent::KeyRevoked { app: app.to_owned() }))
    }

    /// Without a super-administrator nobody could define keys any more.
    fn check_not_last(&self, app: &str) -> Result<(), Rejection> {
        let mut supers = self.keys.iter().filter(|(_, key)| key.is_super());
        if supers.next().is_some_and(|(name, _)| name == app) && supers.next().is_none() {
            let rule = "is the last super-administrator's key; define another one first";
            return Err(Rejection::field("app", app, rule));
        }
        Ok(())
    }

    pub(super) fn switch_job(&self, job: JobId, enabled: bool) -> Result<Decision, Rejection> {
        let known = self.jobs.get(&job).ok_or_else(|| Rejection::unknown("job", job))?;
        self.check_stays(job)?;
        if known.enabled == enabled {
            return Ok(Decision::unchanged(Answer::Done));
        }
        Ok(Decision::done(switched(job, enabled)))
    }

    /// JOB-9: nothing is deleted that others name as parent, unless that is wanted, or of which something is unfinished.
    pub(super) fn delete_job(&self, job: JobId, terms: &Terms<'_>) -> Result<Decision, Rejection> {
        let known = self.jobs.get(&job).ok_or_else(|| Rejection::unknown("job", job))?;
        self.check_unneeded(job, known, terms, &|_| false)?;
        if let Some(asked) = self.may_remove(&[job], terms, || Deletion::Delete { job })? {
            return Ok(Decision::of(asked));
        }
        Ok(Decision::answered(self.removed(job, terms, &|_| false), Answer::Done))
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
