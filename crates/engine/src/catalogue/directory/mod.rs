//! The directory: people, departments, and who is on call.
//!
//! *Invariant:* after each decision people are of departments that are there; rotas and successors name people who are
//! there, and who are enabled or have a successor; and whoever is disabled and owns jobs or has places in rotas has one.
//! Whoever has a successor is disabled, so from everybody the successors lead to somebody who is enabled: the last link of a
//! circle could only be made to somebody who is enabled, whom nobody succeeds.
//!
//! *Invariant:* no name is that of a person and of a department, so an owner means one of them.
//!
//! What jobs owned before the directory had anybody stays as it was written, until their owner changes.

mod change;
mod form;
mod owner;
mod relations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{Department, DepartmentName, DirectoryEvent, JobId, Person, PersonName, Rota};

use super::Catalogue;

/// Whose something is → the names of what is theirs.
type Index<Whose, Of> = BTreeMap<Whose, BTreeSet<Of>>;

/// Everybody, and what follows from it.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Directory {
    people: BTreeMap<PersonName, Arc<Person>>,
    departments: BTreeMap<DepartmentName, Arc<Department>>,
    /// Who is of each department.
    members: Index<DepartmentName, PersonName>,
    /// The departments whose rota names them.
    rotas: Index<PersonName, DepartmentName>,
    /// Whom they succeed.
    succeeds: Index<PersonName, PersonName>,
    /// Counts the changes that there ever were.
    revision: u64,
}

/// Owner → the jobs that name it, whether the directory knows it or not.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Owners(Index<String, JobId>);

impl Owners {
    /// A job has this owner from now on, after another one or none.
    pub(super) fn changed(&mut self, job: JobId, before: Option<&str>, after: Option<&str>) {
        if before == after {
            return;
        }
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            unlink(&mut self.0, &before.to_owned(), &job);
        }
        if let Some(after) = after.filter(|after| !after.is_empty()) {
            link(&mut self.0, after.to_owned(), job);
        }
    }

    fn jobs(&self, owner: &str) -> Vec<JobId> {
        self.0.get(owner).into_iter().flatten().copied().collect()
    }
}

fn link<Whose: Ord, Of: Ord>(index: &mut Index<Whose, Of>, whose: Whose, of: Of) {
    index.entry(whose).or_default().insert(of);
}

fn unlink<Whose: Ord, Of: Ord>(index: &mut Index<Whose, Of>, whose: &Whose, of: &Of) {
    if let Some(known) = index.get_mut(whose) {
        known.remove(of);
        if known.is_empty() {
            index.remove(whose);
        }
    }
}

impl Directory {
    /// As long as it is, owners are free texts.
    fn is_empty(&self) -> bool {
        self.people.is_empty() && self.departments.is_empty()
    }

    fn apply(&mut self, event: &DirectoryEvent) {
        self.revision += 1;
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                self.set_department(&department.name, Some(department));
            }
            DirectoryEvent::DepartmentDeleted { name } => self.set_department(name, None),
            DirectoryEvent::PersonDefined { person } => self.set_person(&person.name, Some(person)),
            DirectoryEvent::PersonDeleted { name } => self.set_person(name, None),
        }
    }

    fn set_department(&mut self, name: &DepartmentName, new: Option<&Arc<Department>>) {
        if let Some(old) = self.departments.remove(name) {
            for person in old.on_call.iter().flat_map(Rota::people) {
                unlink(&mut self.rotas, person, name);
            }
        }
        let Some(new) = new else { return };
        for person in new.on_call.iter().flat_map(Rota::people) {
            link(&mut self.rotas, person.clone(), name.clone());
        }
        self.departments.insert(name.clone(), Arc::clone(new));
    }

    fn set_person(&mut self, name: &PersonName, new: Option<&Arc<Person>>) {
        if let Some(old) = self.people.remove(name) {
            for department in &old.departments {
                unlink(&mut self.members, department, name);
            }
            if let Some(successor) = &old.successor {
                unlink(&mut self.succeeds, successor, name);
            }
        }
        let Some(new) = new else { return };
        for department in &new.departments {
            link(&mut self.members, department.clone(), name.clone());
        }
        if let Some(successor) = &new.successor {
            link(&mut self.succeeds, successor.clone(), name.clone());
        }
        self.people.insert(name.clone(), Arc::clone(new));
    }
}

impl Catalogue {
    pub(super) fn apply_directory(&mut self, event: &DirectoryEvent) {
        self.directory.apply(event);
    }
}
