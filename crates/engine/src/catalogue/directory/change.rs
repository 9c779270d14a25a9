//! Changes of the directory: all of a command, or nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_model::{
    Answer, DirectoryChange, DirectoryCommand, DirectoryEvent, Event, FieldError, Rejection, bounds,
};

use super::{Directory, form};
use crate::catalogue::apply_jobs::{MAX_BYTES, check_none};
use crate::catalogue::{Catalogue, check_limit};
use crate::decision::{Decision, Ruled};
use crate::weight::of_events;

const MAX_PEOPLE: usize = 20_000;
const MAX_DEPARTMENTS: usize = 2_000;

impl Catalogue {
    pub(in crate::catalogue) fn decide_directory(&self, command: &DirectoryCommand) -> Decision {
        match command {
            DirectoryCommand::Change { revision, changes } => {
                self.change_directory(*revision, changes).into()
            }
        }
    }

    fn change_directory(&self, revision: u64, changes: &[DirectoryChange]) -> Ruled {
        if !(1..=bounds::DIRECTORY_CHANGES).contains(&changes.len()) {
            let rule =
                format!("must be 1 to {} in one command; split what is more", bounds::DIRECTORY_CHANGES);
            return Err(Rejection::field("changes", changes.len(), rule));
        }
        let events = self.check_directory(revision, changes)?;
        if events.is_empty() {
            return Ok(Decision::unchanged(Answer::Done));
        }
        let bytes = of_events(&events);
        if bytes > MAX_BYTES {
            let rule = format!("must be at most {MAX_BYTES} bytes together; split it");
            return Err(Rejection::field("changes", format!("{bytes} bytes"), rule));
        }
        Ok(Decision::answered(events, Answer::Done))
    }

    /// What these changes make of the directory together, however many they are.
    pub(crate) fn check_directory(
        &self,
        expected: u64,
        changes: &[DirectoryChange],
    ) -> Result<Vec<Event>, Rejection> {
        let revision = self.directory.revision;
        if expected != revision {
            return Err(Rejection::RevisionChanged { expected, revision });
        }
        check_each(changes)?;
        let mut events = Vec::new();
        let mut after = self.directory.clone();
        for change in changes {
            if let Some(event) = self.directory.event(change)? {
                after.apply(&event);
                let left = self.credentials.left(&self.directory, &event);
                events.push(Event::Directory(event));
                events.extend(left.map(Event::Credential));
            }
        }
        check_limit("the number of people", after.people.len(), MAX_PEOPLE)?;
        check_limit("the number of departments", after.departments.len(), MAX_DEPARTMENTS)?;
        self.check_relations(&after, changes)?;
        Ok(events)
    }
}

impl Directory {
    /// What a change makes of it; nothing, where all is so already.
    fn event(&self, change: &DirectoryChange) -> Result<Option<DirectoryEvent>, Rejection> {
        Ok(match change {
            DirectoryChange::Department(new) => {
                let is_so = self.departments.get(&new.name).is_some_and(|old| **old == **new);
                let department = || Arc::new(new.as_ref().clone());
                (!is_so).then(|| DirectoryEvent::DepartmentDefined { department: department() })
            }
            DirectoryChange::Person(new) => {
                let is_so = self.people.get(&new.name).is_some_and(|old| **old == **new);
                let person = || Arc::new(new.as_ref().clone());
                (!is_so).then(|| DirectoryEvent::PersonDefined { person: person() })
            }
            DirectoryChange::DeleteDepartment { name } => {
                if !self.departments.contains_key(name) {
                    return Err(Rejection::unknown("department", name));
                }
                Some(DirectoryEvent::DepartmentDeleted { name: name.clone() })
            }
            DirectoryChange::DeletePerson { name } => {
                if !self.people.contains_key(name) {
                    return Err(Rejection::unknown("person", name));
                }
                Some(DirectoryEvent::PersonDeleted { name: name.clone() })
            }
        })
    }
}

/// Each of the form that it must have, and of an entry that no other one is of.
fn check_each(changes: &[DirectoryChange]) -> Result<(), Rejection> {
    let (mut people, mut departments) = (BTreeSet::new(), BTreeSet::new());
    let mut errors = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let field = format!("changes[{index}]");
        let (path, name, is_first) = match change {
            DirectoryChange::Department(of) => ("department", of.name.as_str(), departments.insert(&of.name)),
            DirectoryChange::DeleteDepartment { name } => {
                ("delete_department", name.as_str(), departments.insert(name))
            }
            DirectoryChange::Person(of) => ("person", of.name.as_str(), people.insert(&of.name)),
            DirectoryChange::DeletePerson { name } => ("delete_person", name.as_str(), people.insert(name)),
        };
        if !is_first {
            let rule = "stands twice among the changes; make one of them";
            errors.push(FieldError::new(format!("{field}.{path}.name"), name, rule));
        }
        errors.extend(form::check(change).err().map(|error| error.within(&field)));
    }
    check_none(errors)
}
