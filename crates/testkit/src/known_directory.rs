//! The directory, as the workload knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{Department, DepartmentName, DirectoryEvent, Person, PersonName};

#[derive(Debug, Default)]
pub(crate) struct KnownDirectory {
    pub(crate) people: BTreeMap<PersonName, Arc<Person>>,
    pub(crate) departments: BTreeMap<DepartmentName, Arc<Department>>,
    /// The changes that there ever were.
    pub(crate) revision: u64,
}

impl KnownDirectory {
    pub(crate) fn event(&mut self, event: &DirectoryEvent) {
        self.revision += 1;
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                self.departments.insert(department.name.clone(), Arc::clone(department));
            }
            DirectoryEvent::DepartmentDeleted { name } => {
                self.departments.remove(name);
            }
            DirectoryEvent::PersonDefined { person } => {
                self.people.insert(person.name.clone(), Arc::clone(person));
            }
            DirectoryEvent::PersonDeleted { name } => {
                self.people.remove(name);
            }
        }
    }
}
