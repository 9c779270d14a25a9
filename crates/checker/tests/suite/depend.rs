//! Who gives jobs which parents (API-5).

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, job_id};

const RULE: Invariant = Invariant::ParentsAreSeenOrDependedOn;
/// Of job 1, which finance owns, and of job 3, which is new.
const FOREIGN: u64 = 1;

fn key(app: &str, more: Value) -> Event {
    let mut fields = json!({"app": app, "hash": "5".repeat(64), "role": "user", "groups": []});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({"catalogue": {"key_defined": fields}}))
}

fn person(name: &str, more: Value) -> Event {
    let mut person = json!({"name": name, "departments": ["bi"]});
    person.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({"directory": {"person_defined": {"person": person}}}))
}

fn department(name: &str, grants: Value) -> Event {
    event(json!({"directory": {"department_defined": {"department": {"name": name, "grants": grants}}}}))
}

fn defined(n: u64, version: u32, owner: &str, parents: &[u64]) -> Event {
    let parents: Vec<Value> =
        parents.iter().map(|parent| json!({"job": job_id(*parent), "mapping": "same"})).collect();
    let definition = definition(n, json!({"version": version, "owner": owner, "parents": parents}));
    event(json!({"job": {"defined": {"definition": definition, "enabled": true}}}))
}

fn depend(on: Value) -> Value {
    json!([{"on": on, "may": ["depend"]}])
}

/// Ann of bi sees job 2 and not job 1; dee may depend on that, and everybody of ops on group `g`.
fn site() -> History {
    let ops = department("ops", depend(json!({"group": "g"})));
    let people = [
        person("ann", json!({})),
        person("dee", json!({"grants": depend(json!({"job": "g/j1"}))})),
        person("ola", json!({"departments": ["bi", "ops"]})),
        person("adm", json!({"role": "administrator"})),
    ];
    let keys = [
        key("portal", json!({"role": "administrator"})),
        key("of-bi", json!({"department": "bi"})),
        key("of-ops", json!({"department": "ops"})),
        key("of-h", json!({"groups": ["h"]})),
        key("reads", json!({"role": "viewer", "may": ["edit"]})),
        key("of-h-depends", json!({"groups": ["h"], "may": ["depend"]})),
    ];
    let [finance, bi] = ["finance", "bi"].map(|name| department(name, json!([])));
    let history = History::new().raised(4).on(0, 0).command([finance, bi, ops]);
    history
        .command(people)
        .command(keys)
        .command([defined(FOREIGN, 1, "finance", &[]), defined(2, 1, "bi", &[])])
}

fn apply() -> Value {
    json!({"job": {"apply": {"jobs": [], "prune": [], "cancel": false}}})
}

fn by(history: History, app: &str, user: Option<&str>, events: Vec<Event>) -> History {
    history.said_by(json!({"app": app, "user": user}), apply(), events)
}

fn given(app: &str, user: Option<&str>, parent: u64) -> History {
    by(site(), app, user, vec![defined(3, 1, "bi", &[parent])])
}

pub(crate) fn cases() -> Vec<Case> {
    let ann = Some("ann");
    let twice = |parents: &[u64]| {
        let first = by(site(), "portal", Some("adm"), vec![defined(3, 1, "bi", &[FOREIGN])]);
        by(first, "portal", ann, vec![defined(3, 2, "bi", parents)])
    };
    let committed = |user: &str| {
        let commit = json!({"apply": {"committed": {"apply": "a", "delete": [], "by": {"app": "portal", "user": user}}}});
        let spec = json!({"group": "g", "name": "j3", "type": "noop", "owner": "bi", "parents": ["j1"]});
        let staged = json!({"apply": {"staged": {"apply": "a", "part": 0, "jobs": [spec]}}});
        let ended = json!({"apply": {"finished": {"apply": "a"}}});
        let history = site().command([event(staged)]).command([event(commit)]);
        history.timer([defined(3, 1, "bi", &[FOREIGN]), event(ended)])
    };
    vec![
        case(
            RULE,
            "a parent of one's department, and a foreign one",
            given("portal", ann, 2),
            given("portal", ann, FOREIGN),
        ),
        case(
            RULE,
            "a grant on the job, and none",
            given("portal", Some("dee"), FOREIGN),
            given("session", ann, FOREIGN),
        ),
        case(
            RULE,
            "a grant of a department, for its people and its keys",
            given("of-ops", Some("ola"), FOREIGN),
            given("of-bi", Some("dee"), FOREIGN),
        ),
        case(RULE, "a key of a department", given("of-ops", None, FOREIGN), given("of-bi", None, FOREIGN)),
        case(
            RULE,
            "a key that is bound to nothing, and one of another group",
            given("portal", None, FOREIGN),
            given("of-h", None, FOREIGN),
        ),
        case(
            RULE,
            "a key that may not depend",
            given("reads", None, FOREIGN),
            given("reads", Some("dee"), FOREIGN),
        ),
        case(
            RULE,
            "a key that may depend beside its role, and a person in whose name it calls",
            given("of-h-depends", None, FOREIGN),
            given("of-h-depends", ann, FOREIGN),
        ),
        case(RULE, "who is nobody", given("session", Some("dee"), FOREIGN), given("gone", None, FOREIGN)),
        case(
            RULE,
            "a parent that the job has, and one that it had",
            twice(&[FOREIGN, 2]),
            by(twice(&[]), "portal", ann, vec![defined(3, 3, "bi", &[FOREIGN])]),
        ),
        case(
            RULE,
            "a parent of the same request",
            by(site(), "portal", ann, vec![defined(3, 1, "bi", &[]), defined(4, 1, "bi", &[3])]),
            by(site(), "portal", ann, vec![defined(3, 1, "bi", &[]), defined(4, 1, "bi", &[3, FOREIGN])]),
        ),
        case(RULE, "what was committed in parts", committed("dee"), committed("ann")),
    ]
}
