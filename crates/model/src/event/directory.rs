use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Department, DepartmentName, Person, PersonName, Refusal};

/// People and departments.
#[vocabulary(Aggregate)]
pub enum DirectoryEvent {
    /// A client adds a department, or changes one.
    #[event(
        kind = "department.defined",
        subject = "department/{department.name}",
        internal = "Directory",
        level = 4
    )]
    DepartmentDefined {
        /// As accepted.
        department: Arc<Department>,
    },
    /// A client removes a department.
    #[event(kind = "department.deleted", subject = "department/{name}", internal = "Directory", level = 4)]
    DepartmentDeleted {
        /// Its name.
        name: DepartmentName,
    },
    /// A client adds a person, or changes one.
    #[event(kind = "person.defined", subject = "person/{person.name}", internal = "Directory", level = 4)]
    PersonDefined {
        /// As accepted.
        person: Arc<Person>,
    },
    /// A client removes a person.
    #[event(kind = "person.deleted", subject = "person/{name}", internal = "Directory", level = 4)]
    PersonDeleted {
        /// The name.
        name: PersonName,
    },
}

/// Calls that were refused.
#[vocabulary(Aggregate)]
pub enum AccessEvent {
    /// An interface refuses calls.
    #[event(kind = "access.refused", subject = "access/{refusal.app}", internal = "Directory", level = 4)]
    Refused {
        /// Whose, of what, and how many.
        refusal: Refusal,
    },
}
