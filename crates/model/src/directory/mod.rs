//! The directory: people, departments, and who is on call. The catalogue keeps it.

mod rota;

use serde_json::Value;
use tidemill_derive::{AsStr, Word, vocabulary};

pub use self::rota::{Rota, RotaOverride};
use crate::unreadable::read;
use crate::{DepartmentName, FieldError, Grant, PersonName, Role, bounds};

/// In which language a person is written to.
#[vocabulary(Copy, Eq, Default, PartialOrd, Ord, Word)]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

fn user() -> Role {
    Role::User
}

fn is_user(role: &Role) -> bool {
    *role == Role::User
}

/// A person, as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// What the person signs in as; unique among people and departments.
    pub name: PersonName,
    /// The name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::PERSON_TEXT_CHARS), pattern(bounds::VISIBLE_PATTERN))]
    pub full_name: String,
    /// Where alarms are mailed to; absent: nowhere.
    #[schemars(length(min = 3, max = bounds::MAIL_BYTES), pattern(bounds::MAIL_PATTERN))]
    pub mail: Option<String>,
    /// The number that is called and gets SMS: `+`, the country and the number, 5 to 15 digits; absent: none.
    #[schemars(pattern(bounds::PHONE_PATTERN))]
    pub phone: Option<String>,
    /// `en` (default) or `zh`.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub language: Language,
    /// Whether the person may sign in, owns jobs and is on call; default true. Who leaves is disabled, and stays known.
    #[serde(default = "crate::yes", skip_serializing_if = "Clone::clone")]
    pub enabled: bool,
    /// What the person may: `viewer` (sees the jobs of the own departments), `user` (default; acts on them, too),
    /// `administrator`, `super_administrator` (both of the whole site).
    #[serde(default = "user", skip_serializing_if = "is_user")]
    pub role: Role,
    /// The departments that the person is of, the main one first; at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::PERSON_DEPARTMENTS))]
    pub departments: Vec<DepartmentName>,
    /// What the person may beside what the role gives; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::GRANTS))]
    pub grants: Vec<Grant>,
    /// Only of who is disabled: who owns the person's jobs and takes the places in rotas from now on.
    pub successor: Option<PersonName>,
}

/// A department, as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct Department {
    /// Its name; unique among people and departments.
    pub name: DepartmentName,
    /// The name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::PERSON_TEXT_CHARS), pattern(bounds::VISIBLE_PATTERN))]
    pub title: String,
    /// Whether those on call here are on call for the scheduler itself; of one department at most. Default false.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub for_system: bool,
    /// Who is on call when; absent: nobody.
    pub on_call: Option<Rota>,
    /// What the people of the department may each beside what the role gives; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::GRANTS))]
    pub grants: Vec<Grant>,
}

impl Person {
    /// One who may everything, of no department.
    #[must_use]
    pub fn super_administrator(name: PersonName) -> Self {
        Self {
            name,
            full_name: String::new(),
            mail: None,
            phone: None,
            language: Language::default(),
            enabled: true,
            role: Role::SuperAdministrator,
            departments: Vec::new(),
            grants: Vec::new(),
            successor: None,
        }
    }

    /// Reads one from its JSON or YAML value.
    ///
    /// # Errors
    /// The first field that is unknown, missing or of the wrong form.
    pub fn from_value(value: Value) -> Result<Self, FieldError> {
        read(value, "person")
    }
}

impl Department {
    /// Reads one from its JSON or YAML value.
    ///
    /// # Errors
    /// The first field that is unknown, missing or of the wrong form.
    pub fn from_value(value: Value) -> Result<Self, FieldError> {
        read(value, "department")
    }
}

/// A directory as a file has it, and as it is exported.
#[vocabulary(Eq, Default)]
#[serde(deny_unknown_fields)]
pub struct DirectoryFile {
    /// Departments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departments: Vec<Department>,
    /// People.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<Person>,
}

/// One change of the directory. All changes of a command are made together: what they name is looked for in what comes
/// of all of them.
#[vocabulary(Eq)]
pub enum DirectoryChange {
    /// Adds a department, or gives a known one this form.
    Department(Box<Department>),
    /// Removes a department that nobody is of, and that owns no job.
    DeleteDepartment {
        /// Its name.
        name: DepartmentName,
    },
    /// Adds a person, or gives a known one this form.
    Person(Box<Person>),
    /// Removes a person who owns no job, has no place in a rota, and succeeds nobody.
    DeletePerson {
        /// The name.
        name: PersonName,
    },
}

/// Why a call was refused.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash, AsStr)]
pub enum RefusalReason {
    /// It showed no key, or one that is not good.
    Unauthenticated,
    /// Its key does not have the right.
    Forbidden,
}

/// Calls that were refused for the same reason within a minute.
#[vocabulary(Eq)]
pub struct Refusal {
    /// The application that was named, cut to 64 characters; empty: none.
    pub app: String,
    /// The person that was named, cut to 128 characters.
    pub person: Option<String>,
    /// Method and path, cut to 200 characters: `POST /api/jobs/7/run`.
    pub call: String,
    /// From where, as far as the interface sees.
    pub address: String,
    /// Why.
    pub reason: RefusalReason,
    /// How many, at least 1.
    pub count: u32,
    /// The first of them.
    pub first_at: crate::Timestamp,
    /// The last of them.
    pub last_at: crate::Timestamp,
}
