//! What a caller may: what its key may and, where it calls in the name of a person, what that person may, too.
//!
//! Every call declares what it needs (`Needs`), and that is looked at before its handler is reached. A handler that
//! writes needs a [`Right`] besides, which a [`Caller`] gives for an [`Object`] or for the site and for nothing else; so no
//! handler can forget to ask. Whoever may not see an object is told what those are told who name one that is not there.
//! `docs/reference/rights.md` is made from what the calls declare.

use std::sync::Arc;

use tidemill_directory::{Directory, Held, Key};
use tidemill_model::{Account, Actor, Grant, GrantOn, Permission, Person, Role};
use tidemill_store::{Reach as Seen, Within};

use crate::Problem;
use crate::credential::SESSION;
use crate::object::Object;
use crate::person::{Acting, grants_dependence, owners};
pub(crate) use crate::right::{Asks, Right};

/// Who calls: a key that is good, in the name of a person or not.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    key: Arc<Key>,
    /// People and departments, where rights follow from them.
    directory: Arc<Directory>,
    /// The person, as the application names them.
    user: Option<Arc<str>>,
    /// The same, where the directory has anybody.
    person: Option<Arc<Person>>,
    /// What the person signed in with, where they call themselves.
    own: Option<Arc<Held>>,
    holder: Arc<str>,
    asks: Option<Asks>,
}

impl Caller {
    pub(crate) fn new(key: Arc<Key>, directory: Arc<Directory>) -> Self {
        let holder = Arc::clone(&key.app);
        Self { key, directory, user: None, person: None, own: None, holder, asks: None }
    }

    /// In the name of this person, whom the directory does not have to know: it has nobody.
    pub(crate) fn for_user(self, user: Option<Arc<str>>) -> Self {
        Self { user, ..self }
    }

    /// In the name of this person of the directory.
    pub(crate) fn for_person(self, person: Arc<Person>) -> Self {
        let user = Some(person.name.as_str().into());
        Self { user, person: Some(person), ..self }
    }

    /// By this, which is the person's own.
    pub(crate) fn by_own(self, held: Arc<Held>) -> Self {
        let holder = format!("{SESSION}/{}", self.user.as_deref().unwrap_or_default());
        Self { own: Some(held), holder: holder.into(), ..self }
    }

    /// What the person signed in with, where they call themselves.
    pub(crate) fn own(&self) -> Option<&Arc<Held>> {
        self.own.as_ref()
    }

    /// Among these people.
    pub(crate) fn among(self, directory: Arc<Directory>) -> Self {
        Self { directory, ..self }
    }

    /// For a request that asks for this.
    pub(crate) fn asking(self, asks: Asks) -> Self {
        Self { asks: Some(asks), ..self }
    }

    pub(crate) fn asks(&self) -> Option<&Asks> {
        self.asks.as_ref()
    }

    pub(crate) fn app(&self) -> &Arc<str> {
        &self.key.app
    }

    /// As the tables name who requested something: application, or application/person.
    pub(crate) fn name(&self) -> String {
        match &self.user {
            Some(user) => format!("{}/{user}", self.app()),
            None => self.app().to_string(),
        }
    }

    /// For whom places among others are counted: an application, or a person who calls themselves.
    pub(crate) fn holder(&self) -> &Arc<str> {
        &self.holder
    }

    /// Who the person is, if the application names one.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    /// The person, where the directory knows them.
    pub(crate) fn person(&self) -> Option<&Arc<Person>> {
        self.person.as_ref()
    }

    fn acting(&self) -> Option<Acting<'_>> {
        let person = self.person.as_deref()?;
        Some(Acting { person, directory: &self.directory })
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// The accounts that it may let jobs run as (DSP-2).
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.key.accounts
    }

    /// Whether both may the same: nothing has changed from which their rights follow.
    pub(crate) fn may_as(&self, other: &Self) -> bool {
        let revision = |caller: &Self| {
            let person = caller.person.as_ref().filter(|person| person.role < Role::Administrator);
            (person.is_some() || caller.key.department.is_some()).then(|| caller.directory.revision())
        };
        self.key == other.key && self.person == other.person && revision(self) == revision(other)
    }

    /// Whether it reaches everything: neither its key nor its person is bound to something.
    pub(crate) fn is_of_site(&self) -> bool {
        self.key.groups.is_empty()
            && self.key.department.is_none()
            && self.acting().is_none_or(Acting::is_of_site)
    }

    /// Whether it may manage keys: then it may see their hashes.
    pub(crate) fn manages_keys(&self) -> bool {
        self.for_site(Permission::Manage).is_ok()
    }

    /// DSP-2: whether it may say what a job does that runs as this account.
    pub(crate) fn may_run_as(&self, account: &Account) -> bool {
        self.manages_keys() || self.accounts().contains(account)
    }

    /// What it may see in lists; `None`: everything.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.reach_for(Permission::View)
    }

    /// With what it may do this; `None`: with everything. That it may do it at all is for [`Caller::to_act`] to say.
    pub(crate) fn reach_for(&self, needed: Permission) -> Option<Seen> {
        let of_groups = || Within { groups: self.key.groups.to_vec(), ..Within::default() };
        let groups = (!self.key.groups.is_empty()).then(of_groups);
        let of_department = |of| Within { owners: owners(&self.directory, of), ..Within::default() };
        let department = self.key.department.as_ref().map(of_department);
        // A key of a department speaks for its people alone, whose role lets them do this with all that it owns.
        let is_implied = |acting: &Acting<'_>| department.is_some() && acting.person.role.has(needed);
        let person = self.acting().filter(|acting| !acting.is_of_site() && !is_implied(acting));
        let person = person.map(|acting| acting.within(needed));
        let all: Vec<Within> = [groups, department, person].into_iter().flatten().collect();
        (!all.is_empty()).then_some(Seen(all))
    }

    /// Whether it is bound to nothing but groups: then the group of an object says whether it sees it.
    pub(crate) fn is_bound_to_groups_alone(&self) -> bool {
        self.key.department.is_none() && self.acting().is_none_or(Acting::is_of_site)
    }

    /// Whether it sees the object at all.
    pub(crate) fn sees(&self, object: &Object) -> bool {
        self.allows(Permission::View, object)
    }

    /// Whether it may be told what the job is called, and how its batches stand: it sees it, or may depend on it.
    pub(crate) fn names(&self, job: &Object) -> bool {
        self.sees(job) || self.allows(Permission::Depend, job)
    }

    /// Whether it sees what is of the group alone: workers, pull tasks, freezes.
    pub(crate) fn reaches(&self, group: &str) -> bool {
        self.sees(&Object::group_called(group))
    }

    fn allows(&self, needed: Permission, object: &Object) -> bool {
        let of_group =
            self.key.groups.is_empty() || self.key.groups.iter().any(|group| *group == *object.group());
        let is_owned = |of| object.job().is_some_and(|job| self.directory.is_of(&job.owner, of));
        // What a department may depend on, its programs may.
        let is_granted = |of| needed == Permission::Depend && grants_dependence(&self.directory, of, object);
        let department = self.key.department.as_ref();
        let of_department = department.is_none_or(|of| is_owned(of) || is_granted(of));
        // Whoever defines the key says that it may depend on jobs beyond what it is bound to.
        let is_beyond = needed == Permission::Depend && self.key.may.contains(&needed);
        let by_key = self.key_has(needed) && (is_beyond || of_group && of_department);
        by_key && self.acting().is_none_or(|acting| acting.may(needed, object))
    }

    fn key_has(&self, needed: Permission) -> bool {
        self.own_has(needed) && (self.key.role.has(needed) || self.key.may.contains(&needed))
    }

    /// Whether a token lets the person do this.
    fn own_has(&self, needed: Permission) -> bool {
        let Some(held) = &self.own else { return true };
        held.may.is_empty() || needed == Permission::View || held.may.contains(&needed)
    }

    /// Whether it has this for anything.
    pub(crate) fn has(&self, needed: Permission) -> Result<(), Problem> {
        let word = needed.as_str();
        let role = needed.role();
        if !self.own_has(needed) {
            let detail = format!("the token may not {word}; take one that may, or sign in");
            return Err(Problem::forbidden(detail));
        }
        if !self.key_has(needed) {
            let detail = format!(
                "key {} has the role {}; this needs {word}, which the role {role} has",
                self.app(),
                self.key.role
            );
            return Err(Problem::forbidden(detail));
        }
        let Some(acting) = self.acting() else { return Ok(()) };
        if acting.person.role.has(needed) || acting.grants().any(|grant| grant.gives(needed)) {
            return Ok(());
        }
        let (name, has) = (&acting.person.name, acting.person.role);
        Err(Problem::forbidden(format!(
            "{name} has the role {has}; this needs {word}, which the role {role} has"
        )))
    }

    /// To do this with the object.
    ///
    /// # Errors
    /// It does not see it, and is told that there is no such thing; or it sees it, and may not do that.
    pub(crate) fn may(&self, needed: Permission, object: &Object) -> Result<Right, Problem> {
        if !self.sees(object) {
            return Err(object.missing().foreign());
        }
        if self.allows(needed, object) {
            return Ok(self.right());
        }
        self.has(needed)?;
        let who = self
            .person
            .as_ref()
            .map_or_else(|| format!("key {}", self.app()), |person| person.name.to_string());
        let detail = format!("{who} may see {}; this needs {} on it, too", object.name(), needed.as_str());
        Err(Problem::forbidden(detail))
    }

    /// To do this with all of these.
    pub(crate) fn may_all<'o>(
        &self,
        needed: Permission,
        objects: impl IntoIterator<Item = &'o Object>,
    ) -> Result<Right, Problem> {
        self.has(needed)?;
        objects.into_iter().try_for_each(|object| self.may(needed, object).map(drop))?;
        Ok(self.right())
    }

    /// To do what is of no object, or of all.
    pub(crate) fn for_site(&self, needed: Permission) -> Result<Right, Problem> {
        self.has(needed)?;
        self.reaches_all()?;
        match self.acting().filter(|acting| !acting.person.role.has(needed)) {
            None => Ok(self.right()),
            // What is granted is on something.
            Some(acting) => {
                let (name, has, word) = (&acting.person.name, acting.person.role, needed.as_str());
                Err(Problem::forbidden(format!(
                    "{name} has the role {has}; this needs {word} on the whole site, which the role {} has",
                    needed.role()
                )))
            }
        }
    }

    /// To do this with what is of this group; nothing: of every group.
    pub(crate) fn for_group_or_site(
        &self,
        group: Option<&str>,
        in_group: Permission,
        in_all: Permission,
    ) -> Result<Right, Problem> {
        match group {
            Some(group) => self.may(in_group, &Object::group_called(group)),
            None => self.for_site(in_all),
        }
    }

    /// To do this with all that [`Caller::reach_for`] has.
    pub(crate) fn to_act(&self, needed: Permission) -> Result<Right, Problem> {
        self.has(needed)?;
        Ok(self.right())
    }

    /// To operate what it asked for itself, or is about to, for which it was or is looked up whether it may.
    pub(crate) fn to_act_on_own(&self) -> Result<Right, Problem> {
        self.has(Permission::Operate)?;
        Ok(self.right())
    }

    /// To define jobs in groups that it reaches; which, the catalogue decides, which knows their owners (JOB-5).
    pub(crate) fn to_define(&self) -> Result<Right, Problem> {
        self.has(Permission::Edit)?;
        Ok(self.right())
    }

    /// Whether it may define jobs in this group, whoever owns them.
    pub(crate) fn defines_in(&self, group: &str) -> bool {
        self.key.groups.is_empty() || self.key.groups.iter().any(|bound| bound == group)
    }

    /// Whether it reaches what is of no group, or of all.
    pub(crate) fn reaches_all(&self) -> Result<(), Problem> {
        match self.bound() {
            None => Ok(()),
            Some(bound) => Err(Problem::forbidden(format!(
                "{bound}; this concerns the whole site, and needs a caller that is bound to nothing"
            ))),
        }
    }

    /// To what it is bound, in short; nothing: it reaches everything.
    pub(crate) fn bound_to(&self) -> Option<String> {
        let key = &self.key;
        let groups = (!key.groups.is_empty()).then(|| key.groups.join(", "));
        let department = key.department.as_ref().map(|of| format!("department {of}"));
        let acting = self.acting().filter(|acting| !acting.is_of_site());
        let person = acting.map(|acting| {
            let departments = acting.person.departments.iter().map(|of| format!("department {of}"));
            let on = acting.grants().map(|grant| match &grant.on {
                GrantOn::Job(name) => format!("job {name}"),
                GrantOn::Group(group) => format!("group {group}"),
                GrantOn::BusinessType(of) => format!("business type {of}"),
            });
            let own = format!("{} alone", acting.person.name);
            let all: Vec<String> = departments.chain(on).collect();
            if all.is_empty() { own } else { all.join(", ") }
        });
        let all: Vec<String> = [groups, department, person].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", and of "))
    }

    /// What is granted to the person and to departments of theirs.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.acting().into_iter().flat_map(Acting::grants).cloned().collect()
    }

    /// To what it is bound, if to something.
    fn bound(&self) -> Option<String> {
        let key = &self.key;
        if !key.groups.is_empty() {
            return Some(format!("key {} is bound to {}", key.app, key.groups.join(", ")));
        }
        if let Some(department) = &key.department {
            return Some(format!("key {} is bound to department {department}", key.app));
        }
        let acting = self.acting().filter(|acting| !acting.is_of_site())?;
        let (name, role) = (&acting.person.name, acting.person.role);
        Some(format!("{name} has the role {role}, for what their departments own"))
    }

    fn right(&self) -> Right {
        let actor = Actor { app: Arc::clone(self.app()), user: self.user.clone() };
        Right::new(actor, self.asks.clone())
    }
}
