//! The directory as it stands: people and departments.

use std::sync::Arc;

use tidemill_model::DirectoryEvent;
use tidemill_store::rows::DirectoryEntryRow;

use super::job::json;
use super::{Caches, Place};

const PERSON: &str = "person";
const DEPARTMENT: &str = "department";

/// The key of the entry that the event is about.
pub(super) fn entry_of(event: &DirectoryEvent) -> (Arc<str>, Arc<str>) {
    let (kind, name) = match event {
        DirectoryEvent::DepartmentDefined { department } => (DEPARTMENT, department.name.as_str()),
        DirectoryEvent::DepartmentDeleted { name } => (DEPARTMENT, name.as_str()),
        DirectoryEvent::PersonDefined { person } => (PERSON, person.name.as_str()),
        DirectoryEvent::PersonDeleted { name } => (PERSON, name.as_str()),
    };
    (kind.into(), name.into())
}

impl Caches {
    pub(super) fn need_directory(&mut self, event: &DirectoryEvent) {
        self.directory_entries.need(entry_of(event));
    }

    pub(super) fn apply_directory(&mut self, at: Place, event: &DirectoryEvent) {
        let (kind, name) = entry_of(event);
        let definition = match event {
            DirectoryEvent::DepartmentDefined { department } => json(&**department),
            DirectoryEvent::PersonDefined { person } => json(&**person),
            DirectoryEvent::DepartmentDeleted { .. } | DirectoryEvent::PersonDeleted { .. } => {
                return self.directory_entries.remove((kind, name));
            }
        };
        self.directory_entries.put(DirectoryEntryRow { kind, name, definition, changed_at: at.now });
    }
}
