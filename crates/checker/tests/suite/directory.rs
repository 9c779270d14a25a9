//! The directory of people and departments, and the owners of jobs that it knows.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, job_id};

const NAMED: Invariant = Invariant::DirectoryNamesNobodyWhoIsNotThere;

fn person(name: &str, more: Value) -> Event {
    let mut person = json!({"name": name});
    person.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({"directory": {"person_defined": {"person": person}}}))
}

fn department(name: &str, on_call: &[&str]) -> Event {
    let rota = json!({"zone": "UTC", "starts": "2026-01-05T09:00:00", "days": 7, "turns": [on_call]});
    let on_call = if on_call.is_empty() { Value::Null } else { rota };
    event(json!({"directory": {"department_defined": {"department": {"name": name, "on_call": on_call}}}}))
}

fn for_system(name: &str) -> Event {
    event(json!({"directory": {"department_defined": {"department": {"name": name, "for_system": true}}}}))
}

fn gone(what: &str, name: &str) -> Event {
    event(json!({"directory": {what: {"name": name}}}))
}

fn left(name: &str, successor: Option<&str>) -> Event {
    person(name, json!({"enabled": false, "successor": successor}))
}

fn owned(version: u32, owner: &str) -> Event {
    let definition = definition(1, json!({"version": version, "owner": owner}));
    event(json!({"job": {"defined": {"definition": definition, "enabled": true}}}))
}

fn unnamed(owner: &str) -> Event {
    let definition = definition(2, json!({"owner": owner}));
    event(json!({"job": {"defined": {"definition": definition, "enabled": true, "unnamed": true}}}))
}

fn deleted() -> [Event; 3] {
    let asked = json!({"deletion": {"unfinished_queried": {
        "question": 1, "deletion": {"delete": {"job": job_id(1)}}, "jobs": [job_id(1)], "by": {"app": "a"},
    }}});
    let heard = json!({"deletion": {"unfinished_received": {"question": 1, "from": 1, "jobs": []}}});
    [event(asked), event(heard), event(json!({"job": {"deleted": {"job": job_id(1)}}}))]
}

fn of<const N: usize>(events: [Event; N]) -> History {
    History::new().raised(4).on(0, 0).command(events)
}

/// Ada is there, bob has left for her, and `data` has them in turn.
fn staffed() -> History {
    of([
        department("data", &["ada", "bob"]),
        left("bob", Some("ada")),
        person("ada", json!({"departments": ["data"]})),
    ])
}

pub(crate) fn owners() -> Vec<Case> {
    let rule = Invariant::OwnerIsInTheDirectory;
    let owned_by = |owner: &str| staffed().command([owned(1, owner)]);
    vec![
        case(rule, "the owner of a new job is nobody", owned_by("ada"), owned_by("adda")),
        case(rule, "the owner of a new job is disabled", owned_by("data"), owned_by("bob")),
        case(
            rule,
            "a job gets another owner, who is nobody",
            owned_by("ada").command([owned(2, "")]),
            owned_by("ada").command([owned(2, "the team")]),
        ),
        case(
            rule,
            "an owner of before there was a directory stays, and does not come back",
            of([owned(1, "the team"), person("ada", json!({})), owned(2, "the team")]),
            of([owned(1, "the team"), person("ada", json!({})), owned(2, ""), owned(3, "the team")]),
        ),
        case(
            rule,
            "a job that is known by its id alone has any owner, and others have not",
            staffed().command([left("dan", None), unnamed("dan")]).command([person("cleo", json!({}))]),
            staffed().command([left("dan", None), owned(1, "dan")]),
        ),
        case(
            rule,
            "whoever comes later is not there yet",
            of([department("data", &[]), person("ada", json!({})), owned(1, "ada")]),
            of([department("data", &[]), owned(1, "ada"), person("ada", json!({}))]),
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let then = |event: Event| staffed().command([event]);
    let both = |one: Event, other: Event| staffed().command([one, other]);
    let owned_by = |owner: &str| staffed().command([person("cleo", json!({})), owned(1, owner)]);
    vec![
        case(
            NAMED,
            "a person is of a department that is not there",
            then(person("cleo", json!({"departments": ["data"]}))),
            then(person("cleo", json!({"departments": ["web"]}))),
        ),
        case(
            NAMED,
            "a department goes that somebody is of",
            both(gone("department_deleted", "data"), person("ada", json!({}))),
            then(gone("department_deleted", "data")),
        ),
        case(
            NAMED,
            "a rota names nobody",
            then(department("web", &["bob"])),
            then(department("web", &["cleo"])),
        ),
        case(
            NAMED,
            "a rota names whom nobody follows",
            both(left("cleo", Some("bob")), department("web", &["cleo"])),
            both(left("cleo", None), department("web", &["cleo"])),
        ),
        case(
            NAMED,
            "somebody goes whom a rota names",
            both(gone("person_deleted", "bob"), department("data", &["ada"])),
            then(gone("person_deleted", "bob")),
        ),
        case(
            NAMED,
            "somebody leaves whom somebody has as successor",
            both(left("ada", Some("cleo")), person("cleo", json!({}))),
            then(left("ada", None)),
        ),
        case(
            NAMED,
            "two succeed each other",
            both(left("cleo", Some("ada")), left("dan", Some("cleo"))),
            both(left("cleo", Some("dan")), left("dan", Some("cleo"))),
        ),
        case(
            NAMED,
            "somebody who is enabled has a successor",
            then(left("cleo", Some("ada"))),
            then(person("cleo", json!({"successor": "ada"}))),
        ),
        case(
            NAMED,
            "one name is that of two",
            both(gone("person_deleted", "cleo"), department("cleo", &[])),
            both(person("cleo", json!({})), department("cleo", &[])),
        ),
        case(
            NAMED,
            "two departments are for the system",
            both(for_system("web"), department("ops", &[])),
            both(for_system("web"), for_system("ops")),
        ),
        case(
            NAMED,
            "an owner of jobs leaves without a successor",
            owned_by("cleo").command([left("cleo", Some("ada"))]),
            owned_by("cleo").command([left("cleo", None)]),
        ),
        case(
            NAMED,
            "the owner of a job that is known by its id alone leaves without a successor",
            staffed().command([left("cleo", Some("ann")), person("ann", json!({})), unnamed("cleo")]),
            staffed().command([person("cleo", json!({})), unnamed("cleo")]).command([left("cleo", None)]),
        ),
        case(
            NAMED,
            "an owner of jobs is deleted",
            owned_by("cleo").command(deleted()).command([gone("person_deleted", "cleo")]),
            owned_by("cleo").command([gone("person_deleted", "cleo")]),
        ),
        case(
            NAMED,
            "a department that owns jobs is deleted",
            staffed()
                .command([department("web", &[]), owned(1, "web")])
                .command([owned(2, "ada")])
                .command([gone("department_deleted", "web")]),
            staffed()
                .command([department("web", &[]), owned(1, "web")])
                .command([gone("department_deleted", "web")]),
        ),
    ]
}
