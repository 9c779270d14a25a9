//! Which jobs whoever asks for something reaches, and what they may do with them (API-5).
//!
//! A refusal names the jobs that the caller sees, and counts the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_model::{
    Actor, DepartmentName, FieldError, GroupName, JobDefinition, JobId, Permission, Person, Rejection, Role,
};

use super::apply_jobs::check_none;
use super::{Catalogue, NAMED_JOBS};

/// Which jobs the key of a request reaches, and the person in whose name it is made.
#[derive(Clone, Copy)]
pub(super) enum Reach<'a> {
    /// All.
    All,
    /// None.
    Nothing,
    /// Those that all of these reach.
    Those {
        /// The groups that the key is bound to.
        groups: Option<&'a BTreeSet<GroupName>>,
        /// The department that the key belongs to.
        department: Option<&'a DepartmentName>,
        /// A person who is no administrator.
        person: Option<&'a Person>,
        /// What the key, or the token, may let jobs depend on.
        depends: Depends,
    },
}

/// Where jobs are that one does not see, and may let others depend on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depends {
    Nowhere,
    /// Within what the key reaches, or where its department is granted it.
    Granted,
    /// Of a key that `may` do so beside its role, whatever it is bound to.
    Anywhere,
}

impl Reach<'_> {
    pub(super) fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

impl Catalogue {
    /// What the key of this actor reaches, as it is now, in the name of the person; a key that is not known reaches nothing.
    /// Before the first key nobody is kept from anything.
    pub(super) fn reach_of(&self, actor: Option<&Actor>) -> Reach<'_> {
        if self.keys.is_empty() {
            return Reach::All;
        }
        let Some(actor) = actor else { return Reach::Nothing };
        let (key, person) = match (self.keys.get(&*actor.app), self.own_caller(actor)) {
            (None, None) => return Reach::Nothing,
            (None, own) => (None, own),
            (key, _) => (key, actor.user.as_deref().and_then(|name| self.directory.person(name))),
        };
        let person = person.filter(|person| person.role < Role::Administrator);
        let groups = key.map(|key| &key.groups).filter(|groups| !groups.is_empty());
        match (groups, key.and_then(|key| key.department.as_ref()), person) {
            (None, None, None) => Reach::All,
            (groups, department, person) => {
                let depends = match key {
                    Some(key) => key.depends(),
                    None if self.own_may(actor, Permission::Depend) => Depends::Granted,
                    None => Depends::Nowhere,
                };
                Reach::Those { groups, department, person, depends }
            }
        }
    }

    /// Whether the job may be named.
    pub(super) fn is_reached(&self, job: JobId, reach: Reach<'_>) -> bool {
        self.may(Permission::View, job, reach)
    }

    /// Whether this may be done with the job.
    pub(super) fn may(&self, needed: Permission, job: JobId, reach: Reach<'_>) -> bool {
        self.jobs.get(&job).is_some_and(|job| self.allows(reach, needed, (&job.definition, !job.unnamed)))
    }

    /// A job that is known by its id alone may be called as another one is.
    fn allows(&self, reach: Reach<'_>, needed: Permission, (job, is_named): (&JobDefinition, bool)) -> bool {
        match reach {
            Reach::All => true,
            Reach::Nothing => false,
            Reach::Those { groups, department, person, depends } => {
                let of_department = |of: &DepartmentName| {
                    let directory = &self.directory;
                    let is_granted = || directory.grants_dependence(of, (job, is_named));
                    directory.is_of(&job.spec.owner, of) || needed == Permission::Depend && is_granted()
                };
                let is_within = || {
                    groups.is_none_or(|groups| groups.contains(&job.spec.group))
                        && department.is_none_or(of_department)
                };
                let of_key = match (needed, depends) {
                    (Permission::Depend, Depends::Nowhere) => false,
                    (Permission::Depend, Depends::Anywhere) => true,
                    _ => is_within(),
                };
                of_key && person.is_none_or(|person| self.directory.allows(person, needed, (job, is_named)))
            }
        }
    }

    /// Whether who defines jobs may edit them, as they are and as they would be: nobody takes the job of another department, nor
    /// gives one where it could not be changed any more.
    pub(super) fn check_editable(
        &self,
        (definitions, are_named): (&[Arc<JobDefinition>], bool),
        reach: Reach<'_>,
        field: impl Fn(usize) -> String,
    ) -> Result<(), Rejection> {
        // Groups are looked at by who takes the request, which names them.
        let Reach::Those { department, person, .. } = reach else { return Ok(()) };
        if department.is_none() && person.is_none() {
            return Ok(());
        }
        let mut errors = Vec::new();
        for (index, definition) in definitions.iter().enumerate() {
            let spec = &definition.spec;
            let before = self.jobs.get(&definition.id).map(|job| &job.definition);
            let may =
                |definition: &JobDefinition| self.allows(reach, Permission::Edit, (definition, are_named));
            let error = if before.is_some_and(|before| !may(before)) {
                let rule = "is the name of a job that the caller may not edit; take another name";
                FieldError::new("name", &spec.name, rule)
            } else if !may(definition) {
                let rule = "must be a department of the caller, or somebody of it";
                FieldError::new("owner", &spec.owner, rule)
            } else {
                continue;
            };
            let path = field(index);
            errors.push(if path.is_empty() { error } else { error.within(&path) });
        }
        check_none(errors)
    }

    /// Jobs by name, as far as a key may see them, and how many others there are.
    pub(super) fn named_for(&self, jobs: &[JobId], reach: Reach<'_>) -> String {
        let (seen, hidden): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().copied().partition(|job| self.is_reached(*job, reach));
        let known = |job: &JobId| self.jobs.get(job).map(|job| &job.definition);
        let mut parts: Vec<String> = seen.iter().filter_map(known).map(|job| job.full_name()).collect();
        let more = parts.len().saturating_sub(NAMED_JOBS);
        parts.truncate(NAMED_JOBS);
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        if !hidden.is_empty() {
            let groups: BTreeSet<&GroupName> =
                hidden.iter().filter_map(known).map(|job| &job.spec.group).collect();
            parts.push(format!("{} of {}", count(hidden.len(), "job"), count(groups.len(), "other group")));
        }
        match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.concat(),
        }
    }
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
