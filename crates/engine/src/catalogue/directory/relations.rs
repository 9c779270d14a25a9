//! What entries of the directory have to do with each other and with jobs, in what comes of all changes of a command.
//!
//! Only entries that change are looked at, with those that name them: the indexes say which, so that nothing is gone
//! through for each of them.

use std::collections::BTreeSet;
use std::fmt::Display;

use tidemill_model::{
    Department, DepartmentName, DirectoryChange, FieldError, Person, PersonName, Rejection, Rota,
};

use super::Directory;
use crate::catalogue::apply_jobs::{MAX_ERRORS, check_none};
use crate::catalogue::reach::Reach;
use crate::catalogue::{Catalogue, NAMED_JOBS};

/// What comes of a command.
struct After<'a> {
    catalogue: &'a Catalogue,
    directory: &'a Directory,
    /// From whom the successors lead to somebody who is enabled.
    led: BTreeSet<&'a PersonName>,
}

impl Catalogue {
    /// Whether the directory may be like this after these changes.
    pub(super) fn check_relations(
        &self,
        directory: &Directory,
        changes: &[DirectoryChange],
    ) -> Result<(), Rejection> {
        let after = After { catalogue: self, directory, led: directory.led() };
        let check = |(index, change): (usize, &DirectoryChange)| {
            let within =
                |path: &str, error: FieldError| error.within(path).within(&format!("changes[{index}]"));
            match change {
                DirectoryChange::Department(department) => {
                    after.department(department).map_err(|error| within("department", error))
                }
                DirectoryChange::DeleteDepartment { name } => {
                    after.no_department(name).map_err(|error| within("delete_department", error))
                }
                DirectoryChange::Person(person) => {
                    after.person(person).map_err(|error| within("person", error))
                }
                DirectoryChange::DeletePerson { name } => {
                    after.nobody(name).map_err(|error| within("delete_person", error))
                }
            }
        };
        let errors = changes.iter().enumerate().filter_map(|change| check(change).err());
        check_none(errors.take(MAX_ERRORS).collect())
    }
}

impl After<'_> {
    fn department(&self, department: &Department) -> Result<(), FieldError> {
        if self.directory.person(department.name.as_str()).is_some() {
            let rule =
                "is the name of a person; people and departments have different names, take another one";
            return Err(FieldError::new("name", &department.name, rule));
        }
        if department.for_system {
            let other = |of: &&Department| of.for_system && of.name != department.name;
            if let Some(other) = self.directory.departments.values().map(AsRef::as_ref).find(other) {
                let rule = format!(
                    "is said of {} already, and can be of one department; take it from that first",
                    other.name
                );
                return Err(FieldError::new("for_system", true, rule));
            }
        }
        let Some(rota) = &department.on_call else { return Ok(()) };
        self.on_call(rota).map_err(|error| error.within("on_call"))
    }

    fn on_call(&self, rota: &Rota) -> Result<(), FieldError> {
        for (turn, people) in rota.turns.iter().enumerate() {
            self.all_serve(people, &format!("turns[{turn}]"))?;
        }
        for (at, other) in rota.overrides.iter().enumerate() {
            self.all_serve(&other.people, &format!("overrides[{at}].people"))?;
        }
        Ok(())
    }

    /// Whether these can be on call, or others stand for them.
    fn all_serve(&self, people: &[PersonName], field: &str) -> Result<(), FieldError> {
        for (index, name) in people.iter().enumerate() {
            let Some(person) = self.directory.people.get(name) else {
                let rule = self.no_such_person(name);
                return Err(FieldError::new(format!("{field}[{index}]"), name, rule));
            };
            if !person.enabled && person.successor.is_none() {
                let rule =
                    "is disabled and has no successor; name somebody else, or give this person a successor";
                return Err(FieldError::new(format!("{field}[{index}]"), name, rule));
            }
        }
        Ok(())
    }

    fn no_department(&self, name: &DepartmentName) -> Result<(), FieldError> {
        let mut needs = Vec::new();
        if let Some(members) = self.directory.members.get(name) {
            needs.push(format!("{} of it", are(members)));
        }
        needs.extend(self.jobs_of(name.as_str()).map(|jobs| format!("it owns {jobs}")));
        let keys = self.catalogue.keys.iter().filter(|(_, key)| key.department.as_ref() == Some(name));
        let keys: BTreeSet<&String> = keys.map(|(app, _)| app).collect();
        needs.extend((!keys.is_empty()).then(|| format!("it has the keys {}", listed(&keys))));
        if needs.is_empty() {
            return Ok(());
        }
        let rule = format!(
            "cannot be removed: {}; give them another department or owner, and revoke its keys, first",
            needs.join(", and ")
        );
        Err(FieldError::new("name", name, rule))
    }

    fn person(&self, person: &Person) -> Result<(), FieldError> {
        if self.directory.has_department(person.name.as_str()) {
            let rule =
                "is the name of a department; people and departments have different names, take another one";
            return Err(FieldError::new("name", &person.name, rule));
        }
        for (index, name) in person.departments.iter().enumerate() {
            if !self.directory.departments.contains_key(name) {
                let meant = Directory::meant(name.as_str(), self.directory.names_of_departments());
                let rule =
                    format!("there is no department of that name; define it first, or leave it out{meant}");
                return Err(FieldError::new(format!("departments[{index}]"), name, rule));
            }
        }
        match &person.successor {
            Some(successor) => self.successor(person, successor),
            None if person.enabled => Ok(()),
            None => match self.needs_of(&person.name) {
                Some(needs) => {
                    let rule = format!("is missing: {needs}; name who takes that over, or change it first");
                    Err(FieldError::new("successor", "", rule))
                }
                None => Ok(()),
            },
        }
    }

    /// Whether the way over this successor leads to somebody who is enabled.
    fn successor(&self, person: &Person, successor: &PersonName) -> Result<(), FieldError> {
        let refused = |rule: String| Err(FieldError::new("successor", successor, rule));
        let Some(known) = self.directory.people.get(successor) else {
            return refused(self.no_such_person(successor));
        };
        if self.led.contains(&person.name) {
            return Ok(());
        }
        refused(match &known.successor {
            Some(next) => {
                format!("is disabled, and over {next} nobody follows who is enabled; name somebody who is")
            }
            None => "is disabled and has no successor; name somebody who is enabled".to_owned(),
        })
    }

    fn nobody(&self, name: &PersonName) -> Result<(), FieldError> {
        planted!(DirectoryForgetsWhoIsNamed => return Ok(()));
        let Some(needs) = self.needs_of(name) else { return Ok(()) };
        let rule =
            format!("cannot be removed: {needs}; change that first, or disable the person, with a successor");
        Err(FieldError::new("name", name, rule))
    }

    /// For what somebody must be there, or somebody else for them.
    fn needs_of(&self, name: &PersonName) -> Option<String> {
        let mut needs = Vec::new();
        needs.extend(self.jobs_of(name.as_str()).map(|jobs| format!("{name} owns {jobs}")));
        if let Some(departments) = self.directory.rotas.get(name) {
            needs.push(format!("the rota of {} names {name}", listed(departments)));
        }
        if let Some(people) = self.directory.succeeds.get(name) {
            needs.push(format!("{name} succeeds {}", listed(people)));
        }
        (!needs.is_empty()).then(|| needs.join(", and "))
    }

    /// The jobs of an owner. Whoever may change the directory is of the whole site.
    fn jobs_of(&self, owner: &str) -> Option<String> {
        let jobs = self.catalogue.owners.jobs(owner);
        (!jobs.is_empty()).then(|| self.catalogue.named_for(&jobs, Reach::All))
    }

    fn no_such_person(&self, name: &PersonName) -> String {
        let meant = Directory::meant(name.as_str(), self.directory.names_of_people());
        format!("there is no person of that name; define the person first, or name another one{meant}")
    }
}

/// The first of these, and how many more.
fn listed<Name: Display>(names: &BTreeSet<Name>) -> String {
    let first: Vec<String> = names.iter().take(NAMED_JOBS).map(ToString::to_string).collect();
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn are<Name: Display>(names: &BTreeSet<Name>) -> String {
    format!("{} {}", listed(names), if names.len() == 1 { "is" } else { "are" })
}
