//! What has to change so that the directory is what a file says, in an order in which nothing ever names what is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidemill_model::{
    Department, DepartmentName, DirectoryChange, DirectoryFile, FieldDiff, FieldError, Person, PersonName,
    bounds,
};

use crate::directory::Directory;

/// Changes of one command together, bytes of JSON; an entry with the largest rota fits beside others.
const PART_BYTES: usize = 96 * 1024;
/// Characters of a value that a diff shows.
const SHOWN: usize = 200;

/// What happens to one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Fields of it change.
    Changed,
    /// It goes.
    Deleted,
}

/// What kind of entry it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A department.
    Department,
    /// A person.
    Person,
}

/// One entry that is not as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedEntry {
    /// What it is.
    pub entry: EntryKind,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub change: ChangeKind,
    /// The fields that differ, for a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDiff>,
}

/// What an apply of a file does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Entry by entry: departments, then people, by name.
    pub entries: Vec<PlannedEntry>,
    /// All changes, in an order in which any first part of them can stand alone: a department that is new may stand in it twice,
    /// the first time without its rota.
    pub changes: Vec<DirectoryChange>,
}

/// The file's entries by name.
struct Wanted<'f> {
    departments: BTreeMap<&'f DepartmentName, &'f Department>,
    people: BTreeMap<&'f PersonName, &'f Person>,
}

impl Plan {
    /// What has to change. With `prune`, what the file does not have goes.
    ///
    /// # Errors
    /// The file has an entry twice.
    pub fn new(directory: &Directory, file: &DirectoryFile, prune: bool) -> Result<Self, FieldError> {
        let wanted = Wanted::of(file)?;
        let departments = compared(directory.departments(), &wanted.departments, prune);
        let people = compared(directory.people(), &wanted.people, prune);
        let planned = |entry| {
            move |(name, change, fields): (String, ChangeKind, Vec<FieldDiff>)| PlannedEntry {
                entry,
                name,
                change,
                fields,
            }
        };
        let entries = departments.entries.into_iter().map(planned(EntryKind::Department));
        let entries = entries.chain(people.entries.into_iter().map(planned(EntryKind::Person))).collect();
        let changes = in_order(directory, departments.put, people.put, departments.gone, people.gone);
        Ok(Self { entries, changes })
    }

    /// Of one change; it tells nothing of its fields.
    #[must_use]
    pub fn of_one(change: DirectoryChange) -> Self {
        Self { entries: Vec::new(), changes: vec![change] }
    }

    /// Each entry once, as it is to be.
    #[must_use]
    pub fn whole(&self) -> Vec<DirectoryChange> {
        let last = |index: &usize| {
            self.changes[index + 1..].iter().all(|later| !is_of_same(later, &self.changes[*index]))
        };
        let kept = (0..self.changes.len()).filter(last);
        kept.map(|index| self.changes[index].clone()).collect()
    }

    /// The changes in commands of a bounded size: all at once, if they fit; else in an order in which each command can stand
    /// alone. None has an entry twice.
    ///
    /// # Errors
    /// They do not fit at once, and a name passes from a person to a department or back, which has to be one command.
    pub fn parts(self) -> Result<Vec<Vec<DirectoryChange>>, FieldError> {
        let parts = split(self.whole());
        if parts.len() <= 1 {
            return Ok(parts);
        }
        let gone = self.entries.iter().filter(|entry| entry.change == ChangeKind::Deleted);
        let gone: BTreeSet<(&str, EntryKind)> =
            gone.map(|entry| (entry.name.as_str(), entry.entry)).collect();
        let passes = |entry: &&PlannedEntry| {
            let other = match entry.entry {
                EntryKind::Department => EntryKind::Person,
                EntryKind::Person => EntryKind::Department,
            };
            entry.change == ChangeKind::Added && gone.contains(&(entry.name.as_str(), other))
        };
        if let Some(entry) = self.entries.iter().find(passes) {
            let rule = "passes from a person to a department, or back, in an apply of several parts; delete the one in an apply \
                        before";
            return Err(FieldError::new("name", &entry.name, rule));
        }
        Ok(split(self.changes))
    }
}

fn is_of_same(one: &DirectoryChange, other: &DirectoryChange) -> bool {
    let department = |change: &DirectoryChange| match change {
        DirectoryChange::Department(department) => Some(department.name.clone()),
        DirectoryChange::DeleteDepartment { name } => Some(name.clone()),
        // Nobody stands in a plan twice.
        DirectoryChange::Person(_) | DirectoryChange::DeletePerson { .. } => None,
    };
    department(one).is_some_and(|one| department(other).is_some_and(|other| one == other))
}

fn split(changes: Vec<DirectoryChange>) -> Vec<Vec<DirectoryChange>> {
    let mut parts: Vec<Vec<DirectoryChange>> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let size = serde_json::to_vec(&change).map_or(0, |json| json.len());
        let fits = |part: &Vec<DirectoryChange>| {
            part.len() < bounds::DIRECTORY_CHANGES
                && bytes + size <= PART_BYTES
                && part.iter().all(|before| !is_of_same(before, &change))
        };
        if parts.last().is_some_and(fits) {
            bytes += size;
        } else {
            bytes = size;
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(change);
        }
    }
    parts
}

impl<'f> Wanted<'f> {
    fn of(file: &'f DirectoryFile) -> Result<Self, FieldError> {
        let mut wanted = Self { departments: BTreeMap::new(), people: BTreeMap::new() };
        for (index, department) in file.departments.iter().enumerate() {
            if wanted.departments.insert(&department.name, department).is_some() {
                return Err(twice("departments", index, &department.name));
            }
        }
        for (index, person) in file.people.iter().enumerate() {
            if wanted.people.insert(&person.name, person).is_some() {
                return Err(twice("people", index, &person.name));
            }
        }
        Ok(wanted)
    }
}

fn twice(list: &str, index: usize, name: impl Display) -> FieldError {
    FieldError::new(format!("{list}[{index}].name"), name, "stands twice in the file; leave one of them out")
}

/// Entries of one kind that differ.
struct Compared<'f, N, E> {
    entries: Vec<(String, ChangeKind, Vec<FieldDiff>)>,
    put: Vec<&'f E>,
    gone: Vec<N>,
}

fn compared<'f, N: Ord + Clone + Display, E: PartialEq + Serialize>(
    known: &BTreeMap<N, Arc<E>>,
    wanted: &BTreeMap<&'f N, &'f E>,
    prune: bool,
) -> Compared<'f, N, E> {
    let mut found = Compared { entries: Vec::new(), put: Vec::new(), gone: Vec::new() };
    for (name, entry) in wanted {
        let (change, fields) = match known.get(*name) {
            Some(known) if **known == **entry => continue,
            Some(known) => (ChangeKind::Changed, differing(&**known, *entry)),
            None => (ChangeKind::Added, Vec::new()),
        };
        found.entries.push((name.to_string(), change, fields));
        found.put.push(*entry);
    }
    let gone = known.keys().filter(|name| prune && !wanted.contains_key(name));
    for name in gone {
        found.entries.push((name.to_string(), ChangeKind::Deleted, Vec::new()));
        found.gone.push(name.clone());
    }
    found.entries.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    found
}

/// New departments without their rotas; who is enabled; departments that go, without their rotas; who is disabled and has a
/// successor, successors first, for a rota may name them; departments as they are to be, before others those that are not for the
/// system; who is disabled and has none, whom no rota names any more; then whoever goes, successors last; and the departments that go.
fn in_order(
    directory: &Directory,
    departments: Vec<&Department>,
    people: Vec<&Person>,
    gone_departments: Vec<DepartmentName>,
    gone_people: Vec<PersonName>,
) -> Vec<DirectoryChange> {
    let person = |person: &&Person| DirectoryChange::Person(Box::new((*person).clone()));
    let department = |department: &Department| DirectoryChange::Department(Box::new(department.clone()));
    let mut changes = Vec::new();
    let is_new = |department: &&Department| !directory.departments().contains_key(&department.name);
    let bare =
        |department: &Department| Department { on_call: None, for_system: false, ..department.clone() };
    changes.extend(departments.iter().copied().filter(is_new).map(|it| department(&bare(it))));
    changes.extend(people.iter().filter(|person| person.enabled).map(person));
    let (system, others): (Vec<&Department>, Vec<&Department>) =
        departments.into_iter().partition(|department| department.for_system);
    let whole = others.into_iter().chain(system).filter(|it| !is_new(it) || **it != bare(it));
    let stripped = gone_departments.iter().filter_map(|name| directory.departments().get(name));
    changes.extend(stripped.filter(|it| ***it != bare(it)).map(|it| department(&bare(it))));
    let disabled = people.into_iter().filter(|person| !person.enabled);
    let (succeeded, alone): (Vec<&Person>, Vec<&Person>) =
        disabled.partition(|person| person.successor.is_some());
    let succeeded: BTreeMap<PersonName, &Person> =
        succeeded.into_iter().map(|person| (person.name.clone(), person)).collect();
    let successor = |name: &PersonName| succeeded.get(name)?.successor.clone();
    let names = successors_last(succeeded.keys().cloned().collect(), successor);
    changes.extend(names.iter().rev().filter_map(|name| succeeded.get(name)).map(person));
    changes.extend(whole.map(department));
    changes.extend(alone.iter().map(person));
    let successor = |name: &PersonName| directory.people().get(name)?.successor.clone();
    let gone = successors_last(gone_people.into_iter().collect(), successor);
    changes.extend(gone.into_iter().map(|name| DirectoryChange::DeletePerson { name }));
    changes.extend(gone_departments.into_iter().map(|name| DirectoryChange::DeleteDepartment { name }));
    changes
}

/// Each after those of them whom it succeeds.
fn successors_last(
    mut rest: BTreeSet<PersonName>,
    successor: impl Fn(&PersonName) -> Option<PersonName>,
) -> Vec<PersonName> {
    let mut ordered = Vec::new();
    while !rest.is_empty() {
        let succeeding: BTreeSet<PersonName> = rest.iter().filter_map(&successor).collect();
        let mut next: Vec<PersonName> = rest.difference(&succeeding).cloned().collect();
        // A circle, which the catalogue does not accept.
        if next.is_empty() {
            next = rest.iter().cloned().collect();
        }
        next.iter().for_each(|name| {
            rest.remove(name);
        });
        ordered.append(&mut next);
    }
    ordered
}

/// The fields in which two entries differ, as they are written.
fn differing<E: Serialize>(old: &E, new: &E) -> Vec<FieldDiff> {
    let fields = |entry: &E| match serde_json::to_value(entry) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    differs
        .map(|name| FieldDiff { field: name.clone(), old: shown(old.get(name)), new: shown(new.get(name)) })
        .collect()
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => return String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_model::DirectoryEvent;

    use super::*;

    fn file(yaml: Value) -> DirectoryFile {
        serde_json::from_value(yaml).unwrap()
    }

    fn record(directory: &mut Directory, changes: &[DirectoryChange]) {
        for change in changes.iter().cloned() {
            directory.apply(&match change {
                DirectoryChange::Department(department) => {
                    DirectoryEvent::DepartmentDefined { department: Arc::new(*department) }
                }
                DirectoryChange::DeleteDepartment { name } => DirectoryEvent::DepartmentDeleted { name },
                DirectoryChange::Person(person) => {
                    DirectoryEvent::PersonDefined { person: Arc::new(*person) }
                }
                DirectoryChange::DeletePerson { name } => DirectoryEvent::PersonDeleted { name },
            });
        }
    }

    fn applied(directory: &Directory, wanted: &DirectoryFile, prune: bool) -> (Directory, String) {
        let plan = Plan::new(directory, wanted, prune).unwrap();
        let names = |change: &DirectoryChange| match change {
            DirectoryChange::Department(it) => {
                format!("{}{}", it.name, if it.on_call.is_some() { "+rota" } else { "" })
            }
            DirectoryChange::DeleteDepartment { name } => format!("-{name}"),
            DirectoryChange::Person(it) => {
                format!("{}{}", it.name, if it.enabled { "" } else { "+disabled" })
            }
            DirectoryChange::DeletePerson { name } => format!("-{name}"),
        };
        let order = plan.changes.iter().map(names).collect::<Vec<_>>().join(" ");
        let mut after = directory.clone();
        record(&mut after, &plan.changes);
        (after, order)
    }

    fn rota(people: Value) -> Value {
        json!({"zone": "UTC", "starts": "2026-01-05T09:00:00", "days": 7, "turns": people})
    }

    /// API-5: whatever the directory is like, after an apply it is what the file says, and no first part of the changes names
    /// what is not there.
    #[test]
    fn plan_makes_the_directory_what_the_file_says() {
        let first = file(json!({
            "departments": [
                {"name": "etl", "on_call": rota(json!([["ann"], ["bo"]])), "for_system": true}, {"name": "web"},
            ],
            "people": [
                {"name": "ann", "departments": ["etl"]}, {"name": "bo", "departments": ["etl", "web"]},
            ],
        }));
        let (directory, order) = applied(&Directory::default(), &first, true);
        assert_eq!(order, "etl web ann bo etl+rota");
        let again = Plan::new(&directory, &first, true).unwrap();
        assert_eq!((again.entries, again.changes), (Vec::new(), Vec::new()), "nothing is left to change");

        let second = file(json!({
            "departments": [
                {"name": "etl", "on_call": rota(json!([["bo"], ["cy"]]))}, {"name": "ops", "for_system": true},
            ],
            "people": [
                {"name": "ann", "enabled": false, "successor": "cy"}, {"name": "bo", "departments": ["etl"]},
                {"name": "cy", "departments": ["ops"], "mail": "cy@example.org"},
            ],
        }));
        let (directory, order) = applied(&directory, &second, true);
        assert_eq!(order, "ops bo cy ann+disabled etl+rota ops -web");
        let wanted: Vec<_> = second.people.iter().collect();
        assert_eq!(directory.people().values().map(|it| &**it).collect::<Vec<_>>(), wanted);
        let wanted: Vec<_> = second.departments.iter().collect();
        assert_eq!(directory.departments().values().map(|it| &**it).collect::<Vec<_>>(), wanted);

        let (directory, order) = applied(&directory, &DirectoryFile::default(), false);
        assert_eq!((order.as_str(), directory.people().len()), ("", 3), "without prune the rest stays");
        let (directory, order) = applied(&directory, &DirectoryFile::default(), true);
        assert_eq!(order, "etl ops -ann -bo -cy -etl -ops");
        assert!(directory.is_empty());
    }

    #[test]
    fn diff_names_the_fields_and_a_name_stands_once() {
        let before = file(json!({"people": [{"name": "ann", "phone": "+4912345"}]}));
        let (directory, _) = applied(&Directory::default(), &before, false);
        let after = file(json!({"people": [{"name": "ann", "mail": "a@b"}, {"name": "bo"}]}));
        let entries = Plan::new(&directory, &after, false).unwrap().entries;
        let fields: Vec<_> = entries[0]
            .fields
            .iter()
            .map(|it| (it.field.as_str(), it.old.as_str(), it.new.as_str()))
            .collect();
        assert_eq!(fields, [("mail", "", "a@b"), ("phone", "+4912345", "")]);
        assert_eq!((entries[1].name.as_str(), entries[1].change), ("bo", ChangeKind::Added));
        let twice = file(json!({"people": [{"name": "ann"}, {"name": "ann"}]}));
        assert_eq!(Plan::new(&directory, &twice, false).unwrap_err().field, "people[1].name");
    }

    #[test]
    fn parts_are_bounded_and_hold_all() {
        let people: Vec<Value> = (0..1_000).map(|number| json!({"name": format!("p{number}")})).collect();
        let plan = Plan::new(&Directory::default(), &file(json!({ "people": people })), false).unwrap();
        assert_eq!(plan.whole(), plan.changes, "nothing stands in it twice");
        let parts = plan.clone().parts().unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [bounds::DIRECTORY_CHANGES; 5]);
        assert_eq!(parts.concat(), plan.changes);
        let title = "x".repeat(200);
        let rota = rota(json!(vec![vec!["a".repeat(100); 8]; 35]));
        let large: Vec<Value> = (0..10)
            .map(|number| json!({"name": format!("d{number}"), "title": title, "on_call": rota}))
            .collect();
        let plan = Plan::new(&Directory::default(), &file(json!({ "departments": large })), false).unwrap();
        assert_eq!((plan.changes.len(), plan.whole().len()), (20, 10), "first without rotas, then with them");
        let parts = plan.parts().unwrap();
        assert!(parts.iter().all(|part| {
            part.iter().enumerate().all(|(at, one)| !part[..at].iter().any(|other| is_of_same(one, other)))
        }));
        let sizes = parts.iter().map(|part| serde_json::to_vec(part).unwrap().len());
        assert!(parts.len() > 2 && sizes.max() <= Some(PART_BYTES + 1_000));
    }
}
