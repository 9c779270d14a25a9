//! The directory of the catalogue: whom its entries and the owners of jobs name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Department, DepartmentName, DirectoryEvent, Event, JobDefinition, JobEvent, JobId, Person, PersonName,
    Rota,
};

use crate::{At, Invariant};

const RULE: Invariant = Invariant::DirectoryNamesNobodyWhoIsNotThere;

/// Who is there, and what the owners of jobs are.
#[derive(Debug, Default)]
pub(super) struct Directory {
    people: BTreeMap<PersonName, Arc<Person>>,
    departments: BTreeMap<DepartmentName, Arc<Department>>,
    owners: HashMap<JobId, String>,
    /// How many jobs an owner has.
    owned: HashMap<String, usize>,
    /// What the record at hand changes.
    changed: Changed,
}

#[derive(Debug, Default)]
struct Changed {
    people: BTreeSet<PersonName>,
    departments: BTreeSet<DepartmentName>,
    /// Somebody or something is not there any more, or does not serve: whoever names it is wrong now.
    is_less: bool,
}

impl Directory {
    /// `owner_is_in_the_directory`, and what the record changes.
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        match event {
            // Of a job that is known by its id alone, the owner is whoever an application calls its user.
            Event::Job(JobEvent::Defined { definition, unnamed: true, .. }) => {
                self.owner_is(definition.id, &definition.spec.owner);
            }
            Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
                self.job_defined(at, definition);
            }
            Event::Job(JobEvent::Deleted { job }) => self.owner_is(*job, ""),
            Event::Directory(event) => self.fold(at, event),
            _ => {}
        }
    }

    fn job_defined(&mut self, at: &At<'_>, definition: &JobDefinition) {
        let (id, owner) = (definition.id, &*definition.spec.owner);
        let before = self.owners.get(&id).map(String::as_str);
        let is_as_it_was = before.unwrap_or_default() == owner;
        if !is_as_it_was && !self.may_own(owner) {
            let why = format!(
                "job {id} gets the owner {owner:?}, whom the directory does not have, or as disabled"
            );
            at.breaks(Invariant::OwnerIsInTheDirectory, why);
        }
        self.owner_is(id, owner);
    }

    fn may_own(&self, owner: &str) -> bool {
        let is_person = |name: PersonName| self.people.get(&name).is_some_and(|person| person.enabled);
        let is_department = |name: DepartmentName| self.departments.contains_key(&name);
        owner.is_empty()
            || self.people.is_empty() && self.departments.is_empty()
            || PersonName::try_from(owner).is_ok_and(is_person)
            || DepartmentName::try_from(owner).is_ok_and(is_department)
    }

    fn owner_is(&mut self, job: JobId, owner: &str) {
        if let Some(count) = self.owners.remove(&job).and_then(|before| self.owned.get_mut(&before)) {
            *count -= 1;
        }
        if !owner.is_empty() {
            *self.owned.entry(owner.to_owned()).or_default() += 1;
            self.owners.insert(job, owner.to_owned());
        }
    }

    fn owns(&self, name: &str) -> bool {
        self.owned.get(name).is_some_and(|count| *count > 0)
    }

    fn fold(&mut self, at: &At<'_>, event: &DirectoryEvent) {
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                self.changed.departments.insert(department.name.clone());
                self.departments.insert(department.name.clone(), Arc::clone(department));
            }
            DirectoryEvent::DepartmentDeleted { name } => {
                self.changed.is_less = true;
                self.departments.remove(name);
                self.owns_nothing(at, name.as_str());
            }
            DirectoryEvent::PersonDefined { person } => {
                self.changed.is_less |= !person.enabled;
                // A job that is known by its id alone may come later, with whomever as its owner.
                if !person.enabled && person.successor.is_none() && self.owns(person.name.as_str()) {
                    let why =
                        format!("{} is disabled, has no successor, and is the owner of jobs", person.name);
                    at.breaks(RULE, why);
                }
                self.changed.people.insert(person.name.clone());
                self.people.insert(person.name.clone(), Arc::clone(person));
            }
            DirectoryEvent::PersonDeleted { name } => {
                self.changed.is_less = true;
                self.people.remove(name);
                self.owns_nothing(at, name.as_str());
            }
        }
    }

    fn owns_nothing(&self, at: &At<'_>, name: &str) {
        if self.owns(name) {
            at.breaks(RULE, format!("{name} is deleted, and is the owner of jobs"));
        }
    }

    /// `directory_names_nobody_who_is_not_there`, in what comes of the whole record.
    pub(super) fn settle(&mut self, at: &At<'_>) {
        let Changed { people, departments, is_less } = std::mem::take(&mut self.changed);
        if people.is_empty() && departments.is_empty() && !is_less {
            return;
        }
        let of_people = self.people.values().filter(|person| is_less || people.contains(&person.name));
        let mut wrong: Vec<String> = of_people.filter_map(|person| self.wrong_person(person)).collect();
        let of_departments =
            self.departments.values().filter(|department| is_less || departments.contains(&department.name));
        wrong.extend(of_departments.filter_map(|department| self.wrong_department(department)));
        if self.departments.values().filter(|department| department.for_system).count() > 1 {
            wrong.push("more than one department is for the system".to_owned());
        }
        wrong.into_iter().for_each(|why| at.breaks(RULE, why));
    }

    fn wrong_person(&self, person: &Person) -> Option<String> {
        let name = &person.name;
        if DepartmentName::try_from(name.as_str()).is_ok_and(|name| self.departments.contains_key(&name)) {
            return Some(format!("{name} is a person and a department"));
        }
        if let Some(none) = person.departments.iter().find(|of| !self.departments.contains_key(*of)) {
            return Some(format!("{name} is of department {none}, which is not there"));
        }
        match &person.successor {
            Some(successor) if person.enabled || !self.serves(person) => Some(format!(
                "{name} has the successor {successor}, who is not there, or for somebody who is enabled"
            )),
            Some(_) | None => None,
        }
    }

    fn wrong_department(&self, department: &Department) -> Option<String> {
        let mut on_call = department.on_call.iter().flat_map(Rota::people);
        let serves = |name: &PersonName| self.people.get(name).is_some_and(|person| self.serves(person));
        let nobody = on_call.find(|name| !serves(name))?;
        let name = &department.name;
        Some(format!(
            "the rota of {name} names {nobody}, who is not there, or disabled and followed by nobody"
        ))
    }

    /// Whether somebody is enabled, or followed by somebody who is.
    fn serves(&self, person: &Person) -> bool {
        let next = |person: &&Person| {
            let successor = self.people.get(person.successor.as_ref()?)?;
            Some(successor.as_ref())
        };
        // Nobody comes twice on a way that ends.
        std::iter::successors(Some(person), next).take(self.people.len()).any(|person| person.enabled)
    }
}
