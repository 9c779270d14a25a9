//! People and departments.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{Department, DepartmentName, DirectoryEvent, Person, PersonName};

/// Whom the owner of a job names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'d> {
    /// A person, enabled or not.
    Person(&'d Arc<Person>),
    /// A department.
    Department(&'d Arc<Department>),
    /// Nobody whom the directory knows.
    Nobody,
}

/// People and departments as the catalogue has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    people: BTreeMap<PersonName, Arc<Person>>,
    departments: BTreeMap<DepartmentName, Arc<Department>>,
    revision: u64,
}

impl Directory {
    /// Takes the next event in.
    pub(crate) fn apply(&mut self, event: &DirectoryEvent) {
        self.revision += 1;
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                self.departments.insert(department.name.clone(), Arc::clone(department));
            }
            DirectoryEvent::DepartmentDeleted { name } => drop(self.departments.remove(name)),
            DirectoryEvent::PersonDefined { person } => {
                self.people.insert(person.name.clone(), Arc::clone(person));
            }
            DirectoryEvent::PersonDeleted { name } => drop(self.people.remove(name)),
        }
    }

    /// How many changes of the directory there ever were.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether it has neither people nor departments: then owners are free text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.people.is_empty() && self.departments.is_empty()
    }

    /// People, by name.
    #[must_use]
    pub fn people(&self) -> &BTreeMap<PersonName, Arc<Person>> {
        &self.people
    }

    /// Departments, by name.
    #[must_use]
    pub fn departments(&self) -> &BTreeMap<DepartmentName, Arc<Department>> {
        &self.departments
    }

    /// Whom this owner of a job is. No person is called as a department is.
    #[must_use]
    pub fn resolve(&self, owner: &str) -> Owner<'_> {
        let department = DepartmentName::try_from(owner).ok();
        if let Some(department) = department.and_then(|name| self.departments.get(&name)) {
            return Owner::Department(department);
        }
        let person = PersonName::try_from(owner).ok();
        person.and_then(|name| self.people.get(&name)).map_or(Owner::Nobody, Owner::Person)
    }

    /// The person, and after each one who is disabled the successor; the last one is who acts, if enabled. Empty where nobody is
    /// called so. Nobody stands in it twice, whatever the records say.
    #[must_use]
    pub fn stands_for(&self, name: &PersonName) -> Vec<&Arc<Person>> {
        let mut chain: Vec<&Arc<Person>> = Vec::new();
        let mut next = self.people.get(name);
        while let Some(person) = next.filter(|person| chain.iter().all(|it| it.name != person.name)) {
            chain.push(person);
            let successor = person.successor.as_ref().filter(|_| !person.enabled);
            next = successor.and_then(|name| self.people.get(name));
        }
        chain
    }

    /// The people of a department, by name, whether they are enabled or not.
    pub fn members<'d>(&'d self, department: &DepartmentName) -> impl Iterator<Item = &'d Arc<Person>> {
        self.people.values().filter(move |person| person.departments.contains(department))
    }

    /// Whether who owns a job is of this department, or is it.
    #[must_use]
    pub fn is_of(&self, owner: &str, department: &DepartmentName) -> bool {
        match self.resolve(owner) {
            Owner::Department(owner) => owner.name == *department,
            Owner::Person(person) => person.departments.contains(department),
            Owner::Nobody => false,
        }
    }

    /// The department that a job with this owner is of: the owner itself, or the owner's first one.
    #[must_use]
    pub fn department_of(&self, owner: &str) -> Option<&DepartmentName> {
        match self.resolve(owner) {
            Owner::Department(department) => Some(&department.name),
            Owner::Person(person) => person.departments.first(),
            Owner::Nobody => None,
        }
    }
}
