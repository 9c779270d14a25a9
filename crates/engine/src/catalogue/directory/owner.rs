//! Who may own a job.

use std::collections::BTreeSet;

use tidemill_model::{
    DepartmentName, FieldError, Grant, GrantOn, JobDefinition, JobId, JobSpec, Permission, Person,
    PersonName, closest,
};

use super::Directory;
use crate::catalogue::Catalogue;

/// Of longer names no other one is proposed.
const MEANT_CHARS: usize = 32;
/// Names that are looked at closely for one proposal: an owner of a partition has other things to do.
const MEANT_NAMES: usize = 500;

impl Directory {
    /// How many changes there ever were.
    pub(in crate::catalogue) fn revision(&self) -> u64 {
        self.revision
    }

    pub(in crate::catalogue) fn person(&self, name: &str) -> Option<&Person> {
        self.people.get(&PersonName::try_from(name).ok()?).map(AsRef::as_ref)
    }

    pub(in crate::catalogue) fn has_department(&self, name: &str) -> bool {
        DepartmentName::try_from(name).is_ok_and(|name| self.departments.contains_key(&name))
    }

    /// Whether who owns a job is of this department, or is it.
    pub(in crate::catalogue) fn is_of(&self, owner: &str, department: &DepartmentName) -> bool {
        owner == department.as_str()
            || self.person(owner).is_some_and(|person| person.departments.contains(department))
    }

    /// Whether the person, who is no administrator, may do this with the job: by the role where a department of theirs or they own
    /// it, else by what is granted to them or to such a department.
    pub(in crate::catalogue) fn allows(
        &self,
        person: &Person,
        needed: Permission,
        (job, is_named): (&JobDefinition, bool),
    ) -> bool {
        let owner = &*job.spec.owner;
        let is_own = || person.departments.iter().any(|department| self.is_of(owner, department));
        if person.role.has(needed) && (owner == person.name.as_str() || is_own()) {
            return true;
        }
        let of_departments = person.departments.iter().filter_map(|name| self.departments.get(name));
        let mut all = person.grants.iter().chain(of_departments.flat_map(|of| &of.grants));
        all.any(|grant| grant.gives(needed) && fits(grant, (job, is_named)))
    }

    /// Whether everybody of the department may have jobs depend on this one, its keys among them.
    pub(in crate::catalogue) fn grants_dependence(
        &self,
        department: &DepartmentName,
        job: (&JobDefinition, bool),
    ) -> bool {
        let mut grants = self.departments.get(department).into_iter().flat_map(|of| &of.grants);
        grants.any(|grant| grant.gives(Permission::Depend) && fits(grant, job))
    }

    /// Who stands for somebody in the end, over all successors; `None`: nobody does, or they go round.
    pub(super) fn stands_for(&self, person: &Person) -> Option<&Person> {
        // Nobody comes twice on a way that ends.
        let mut successors = std::iter::successors(person.successor.as_ref(), |name| {
            self.people.get(*name)?.successor.as_ref()
        });
        let people = successors.by_ref().take(self.people.len()).filter_map(|name| self.people.get(name));
        people.map(AsRef::as_ref).find(|person| person.enabled)
    }

    /// Those who have a successor, and from whom the way over successors ends with somebody who is enabled.
    pub(super) fn led(&self) -> BTreeSet<&PersonName> {
        let enabled = self.succeeds.keys().filter(|name| self.people.get(*name).is_some_and(|it| it.enabled));
        let mut next: Vec<&PersonName> = enabled.collect();
        let mut led = BTreeSet::new();
        while let Some(name) = next.pop() {
            next.extend(self.succeeds.get(name).into_iter().flatten().filter(|person| led.insert(*person)));
        }
        led
    }

    /// What to do where a name is that of nobody: the closest one that there is, if one is close.
    pub(super) fn meant<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> String {
        let length = written.chars().count();
        if length > MEANT_CHARS {
            return String::new();
        }
        // A name that is longer or shorter by more than two letters, or begins and ends otherwise, is hardly a slip, and is not
        // looked at closely.
        let ends = |name: &str| (name.chars().next(), name.chars().next_back());
        let (first, last) = ends(written);
        let is_near = |name: &&str| {
            let (begins, ended) = ends(name);
            (begins == first || ended == last) && name.chars().count().abs_diff(length) <= 2
        };
        let near = names.into_iter().filter(is_near).take(MEANT_NAMES);
        closest(written, near).map_or_else(String::new, |name| format!("; did you mean {name}?"))
    }

    /// Of those who are enabled.
    pub(super) fn names_of_people(&self) -> impl Iterator<Item = &str> {
        self.people.values().filter(|person| person.enabled).map(|person| person.name.as_str())
    }

    pub(super) fn names_of_departments(&self) -> impl Iterator<Item = &str> {
        self.departments.keys().map(DepartmentName::as_str)
    }
}

/// Whether a grant is on this job. One that is known by its id alone may be called as another one is.
fn fits(grant: &Grant, (job, is_named): (&JobDefinition, bool)) -> bool {
    match &grant.on {
        GrantOn::Job(name) => is_named && *name == job.full_name(),
        GrantOn::Group(group) => *group == job.spec.group,
        GrantOn::BusinessType(of) => of == job.spec.class(),
    }
}

impl Catalogue {
    /// Whether a job that is new, or gets another owner, may have the one that it names.
    pub(in crate::catalogue) fn check_owner(&self, id: JobId, spec: &JobSpec) -> Result<(), FieldError> {
        planted!(OwnerNotLookedUp => return Ok(()));
        let (owner, directory) = (&*spec.owner, &self.directory);
        let is_as_it_was = self.jobs.get(&id).is_some_and(|job| job.definition.spec.owner == owner);
        if owner.is_empty() || is_as_it_was || directory.is_empty() || directory.has_department(owner) {
            return Ok(());
        }
        let rule = match directory.person(owner) {
            Some(person) if person.enabled => return Ok(()),
            Some(person) => {
                let instead = match directory.stands_for(person) {
                    Some(successor) => format!("{}, who succeeds this person", successor.name),
                    None => "somebody else".to_owned(),
                };
                format!("is a person who is disabled; name {instead}, or a department")
            }
            None => {
                let names = directory.names_of_people().chain(directory.names_of_departments());
                let meant = Directory::meant(owner, names);
                format!(
                    "is neither a person nor a department of the directory; name one of them, or leave it out{meant}"
                )
            }
        };
        Err(FieldError::new("owner", owner, rule))
    }
}
