//! The directory, as the workload knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    CredentialEvent, CredentialId, CredentialKind, Department, DepartmentName, DirectoryEvent, Person,
    PersonName,
};

#[derive(Debug, Default)]
pub(crate) struct KnownDirectory {
    pub(crate) people: BTreeMap<PersonName, Arc<Person>>,
    pub(crate) departments: BTreeMap<DepartmentName, Arc<Department>>,
    /// Whose what is that people sign in with, and what it is for.
    pub(crate) credentials: BTreeMap<CredentialId, (Option<PersonName>, CredentialKind)>,
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

    pub(crate) fn credential_event(&mut self, event: &CredentialEvent) {
        match event {
            CredentialEvent::Issued { credential } => {
                let held = (credential.person.clone(), credential.kind);
                self.credentials.insert(credential.id.clone(), held);
            }
            CredentialEvent::Ended { credential, .. } => {
                self.credentials.remove(credential);
            }
            CredentialEvent::AllEnded { person, .. } => {
                self.credentials.retain(|_, (of, _)| of.as_ref() != Some(person));
            }
            CredentialEvent::Used { .. } | CredentialEvent::PasswordSet { .. } => {}
        }
    }
}
