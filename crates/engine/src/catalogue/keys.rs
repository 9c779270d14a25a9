//! Application keys: who may have one, and as which accounts it lets jobs run.
//!
//! DSP-2: who may have a job run as which account: the application key that gives the job its form. The journal says why it
//! may: `KeyDefined` lists the key's accounts, `JobDefined` names the key that had the job's account when it was decided
//! (`run_as_by`), and a group's shard runs nothing as an account without it. What a caller writes as owner gives no right.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Account, Actor, CatalogueEvent, DepartmentName, FieldError, GroupName, JobDefinition, Level, Permission,
    Rejection, Role, bounds,
};

use super::credentials::SESSION;
use super::reach::Depends;
use super::{Catalogue, check_count, check_limit};
use crate::decision::{Decision, Ruled};

pub(super) const MAX_KEYS: usize = 10_000;
/// As the record names who is no application: their names are nobody's key.
const ROLE_NAMES: [&str; 10] = [
    "attempt",
    "first-start",
    "identity-provider",
    "operator",
    "owner",
    "process",
    "quality",
    SESSION,
    "third-party",
    "worker",
];

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Key {
    pub(crate) role: Role,
    /// The groups that it is bound to; none: it reaches all.
    pub(crate) groups: BTreeSet<GroupName>,
    pub(crate) run_as: BTreeSet<Account>,
    /// The department that it belongs to, and whose jobs alone it reaches.
    pub(crate) department: Option<DepartmentName>,
    /// What it may beside what its role may.
    pub(crate) may: BTreeSet<Permission>,
}

impl Key {
    /// Whether it is a super-administrator's, who is that of the whole site.
    fn is_super(&self) -> bool {
        self.role == Role::SuperAdministrator && self.groups.is_empty() && self.department.is_none()
    }

    pub(super) fn depends(&self) -> Depends {
        match self.may.contains(&Permission::Depend) {
            true => Depends::Anywhere,
            false if self.role.has(Permission::Depend) => Depends::Granted,
            false => Depends::Nowhere,
        }
    }

    /// DSP-2: whether jobs may run as this account which it applies.
    pub(super) fn may_run_as(&self, account: &Account) -> bool {
        self.is_super() || self.run_as.contains(account)
    }
}

pub(super) struct NewKey<'a> {
    pub(super) app: &'a str,
    pub(super) hash: &'a str,
    pub(super) role: Role,
    pub(super) groups: &'a [GroupName],
    pub(super) run_as: &'a BTreeSet<Account>,
    pub(super) may: &'a BTreeSet<Permission>,
    pub(super) department: Option<&'a DepartmentName>,
    pub(super) first_only: bool,
}

/// By whose key definitions get their accounts and new parents.
#[derive(Clone, Copy)]
pub(super) enum Vouch<'a> {
    /// This one's, as it is now.
    Key(&'a Actor),
    /// This one's, which was found to have them when the request was committed.
    Found(&'a Actor),
    /// Nobody's: what is new gets none.
    Nobody,
}

impl Catalogue {
    pub(super) fn define_key(&self, key: &NewKey<'_>, most: usize) -> Ruled {
        let NewKey { app, hash, role, groups, run_as, may, department, first_only } = *key;
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
        self.check_groups(groups)?;
        check_count("groups", groups.len(), bounds::KEY_GROUPS, "; leave them out for all")?;
        check_count("run_as", run_as.len(), bounds::KEY_ACCOUNTS, " accounts")?;
        if role == Role::SuperAdministrator && !groups.is_empty() {
            let rule = "must be empty: a super_administrator is one of the whole site; make the key an administrator";
            let groups: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
            return Err(Rejection::field("groups", groups.join(", "), rule));
        }
        self.check_rights(role, may, department)?;
        if role != Role::SuperAdministrator {
            self.check_not_last(app)?;
        }
        if first_only && !self.keys.is_empty() {
            return Err(Rejection::AlreadyThere { what: "a first key".to_owned() });
        }
        if !self.keys.contains_key(app) {
            check_limit("the number of keys", self.keys.len() + 1, most)?;
        }
        Ok(Decision::done(CatalogueEvent::KeyDefined {
            app: app.to_owned(),
            hash: hash.to_ascii_lowercase(),
            role,
            groups: groups.to_vec(),
            run_as: run_as.clone(),
            may: may.clone(),
            department: department.cloned(),
        }))
    }

    /// What a key has beside role and groups: only what can be on record, and what it can have.
    fn check_rights(
        &self,
        role: Role,
        may: &BTreeSet<Permission>,
        department: Option<&DepartmentName>,
    ) -> Result<(), Rejection> {
        let is_known = self.levels.standing().allows(Level::DIRECTORY);
        let too_early = format!(
            "cannot be set before level {} of the log stands, which is raised once every process of the site reads it \
             (`tidemill level show`); leave it out until then",
            Level::DIRECTORY
        );
        if let Some(first) = may.first() {
            if !is_known {
                return Err(Rejection::field("may", first, too_early));
            }
            if let Some(of_site) = may.iter().find(|of| !of.can_be_granted()) {
                let rule = format!("is of the whole site, and comes with the role {} alone", of_site.role());
                return Err(Rejection::field("may", of_site, rule));
            }
        }
        let Some(department) = department else { return Ok(()) };
        if !is_known {
            return Err(Rejection::field("department", department, too_early));
        }
        if role == Role::SuperAdministrator {
            let rule = "must be absent: a super_administrator is one of the whole site; make the key an administrator";
            return Err(Rejection::field("department", department, rule));
        }
        if !self.directory.has_department(department.as_str()) {
            let rule = "is no department of the directory; define it first (`tidemill department ls` has those there are)";
            return Err(Rejection::field("department", department, rule));
        }
        Ok(())
    }

    pub(super) fn revoke_key(&self, app: &str) -> Ruled {
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

    /// Notes by whose key a definition may run as its account; refuses it where the key does not have that. What stays as
    /// it is needs no right: whoever gave it its form had it.
    pub(super) fn vouch(&self, definition: &mut JobDefinition, vouch: Vouch<'_>) -> Result<(), FieldError> {
        let known = self.jobs.get(&definition.id).map(|job| job.definition.as_ref());
        let before = known.and_then(vouched);
        let account = definition.spec.run_as.clone();
        let same = before.filter(|(of, _)| Some(*of) == account.as_ref());
        definition.run_as_by = same.map(|(_, by)| by.clone());
        let is_as_it_was = known
            .is_some_and(|known| *known == JobDefinition { version: known.version, ..definition.clone() });
        if is_as_it_was && (account.is_none() || same.is_some()) {
            return Ok(());
        }
        let by = match vouch {
            Vouch::Key(by) => {
                let accounts = account.iter().chain(before.map(|(account, _)| account));
                accounts.into_iter().try_for_each(|account| self.check_key_for(account, by))?;
                by
            }
            Vouch::Found(by) => by,
            Vouch::Nobody => {
                // Nobody stands for the new form.
                definition.run_as_by = None;
                return Ok(());
            }
        };
        definition.run_as_by = account.map(|_| by.app.clone());
        Ok(())
    }

    /// Whether this one may change a job beside its definition.
    pub(super) fn check_account(&self, definition: &JobDefinition, by: &Actor) -> Result<(), Rejection> {
        let Some((account, _)) = vouched(definition) else { return Ok(()) };
        self.check_key_for(account, by).map_err(Rejection::from)
    }

    fn check_key_for(&self, account: &Account, by: &Actor) -> Result<(), FieldError> {
        // A person has no more of a super-administrator's key than they may themselves.
        let person = by.user.as_deref().and_then(|name| self.directory.person(name));
        let is_whole = person.is_none_or(|person| person.role == Role::SuperAdministrator);
        let may = |key: &Key| if is_whole { key.may_run_as(account) } else { key.run_as.contains(account) };
        let is_own = is_whole && self.own_may(by, Permission::Manage);
        if is_own || self.keys.get(&*by.app).is_some_and(may) {
            return Ok(());
        }
        let rule = format!(
            "is none of the accounts that key {} may have jobs run as; a super_administrator can define the key with it in \
             run_as",
            by.app
        );
        Err(FieldError::new("run_as", account, rule))
    }
}

/// The account that a job runs as, and by whose key.
fn vouched(definition: &JobDefinition) -> Option<(&Account, &Arc<str>)> {
    definition.spec.run_as.as_ref().zip(definition.run_as_by.as_ref())
}
