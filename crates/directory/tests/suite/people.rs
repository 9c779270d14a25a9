//! People and departments.

use serde_json::{Value, json};
use tidemill_directory::{Directory, Facts, Owner};
use tidemill_model::{DepartmentName, Envelope, Level, PersonName, Recorded, ShardId, Timestamp};

fn directory(events: &[Value]) -> std::sync::Arc<Directory> {
    let recorded = |event: &Value| Recorded {
        shard: ShardId::CATALOGUE,
        event: serde_json::from_value(json!({"directory": event})).unwrap(),
    };
    let envelope = Envelope {
        level: Level::FIRST,
        now: Timestamp::UNIX_EPOCH,
        resume: None,
        causes: Vec::new(),
        events: events.iter().map(recorded).collect(),
    };
    let mut facts = Facts::default();
    facts.apply(&envelope);
    std::sync::Arc::clone(facts.directory())
}

fn person(person: Value) -> Value {
    json!({"person_defined": {"person": person}})
}

fn department(name: &str) -> Value {
    json!({"department_defined": {"department": {"name": name}}})
}

fn names(directory: &Directory, of: &str) -> Vec<String> {
    let chain = directory.stands_for(&PersonName::try_from(of).unwrap());
    chain.iter().map(|person| person.name.to_string()).collect()
}

/// An owner is a department, or a person with the department that comes first, or nobody who is known.
#[test]
fn an_owner_is_a_department_a_person_or_nobody() {
    let directory = directory(&[
        department("data"),
        department("web"),
        person(json!({"name": "ann", "departments": ["web", "data"]})),
        person(json!({"name": "bob", "departments": ["data"], "enabled": false})),
        person(json!({"name": "eve"})),
    ]);
    assert!(matches!(directory.resolve("data"), Owner::Department(it) if it.name.as_str() == "data"));
    assert!(matches!(directory.resolve("ann"), Owner::Person(it) if it.name.as_str() == "ann"));
    assert!(matches!(directory.resolve("bob"), Owner::Person(it) if !it.enabled));
    for nobody in ["", "somebody", "data team", &"x".repeat(500)] {
        assert_eq!(directory.resolve(nobody), Owner::Nobody, "{nobody}");
    }
    let departments = ["data", "ann", "bob", "eve", "somebody"].map(|owner| directory.department_of(owner));
    assert_eq!(
        departments.map(|it| it.map(DepartmentName::as_str)),
        [Some("data"), Some("web"), Some("data"), None, None]
    );
    let data = DepartmentName::try_from("data").unwrap();
    assert_eq!(directory.members(&data).map(|it| it.name.as_str()).collect::<Vec<_>>(), ["ann", "bob"]);
}

/// Successors stand for those who are disabled, one after the other, up to the first who is enabled; a circle has an end.
#[test]
fn successors_stand_for_those_who_left() {
    let left =
        |name: &str, successor: &str| person(json!({"name": name, "enabled": false, "successor": successor}));
    let directory = directory(&[
        left("ann", "bob"),
        left("bob", "eve"),
        person(json!({"name": "eve"})),
        left("one", "two"),
        left("two", "one"),
        left("lost", "nobody"),
    ]);
    assert_eq!(names(&directory, "ann"), ["ann", "bob", "eve"]);
    assert_eq!(names(&directory, "eve"), ["eve"]);
    assert_eq!(names(&directory, "one"), ["one", "two"]);
    assert_eq!(names(&directory, "lost"), ["lost"]);
    assert_eq!(names(&directory, "nobody"), Vec::<String>::new());
}

/// The revision counts every change, of entries that are gone, too.
#[test]
fn the_revision_counts_every_change() {
    let directory = directory(&[
        department("data"),
        person(json!({"name": "ann"})),
        person(json!({"name": "ann", "phone": "+4912345"})),
        json!({"person_deleted": {"name": "ann"}}),
        json!({"department_deleted": {"name": "data"}}),
    ]);
    assert_eq!((directory.revision(), directory.is_empty()), (5, true));
}
