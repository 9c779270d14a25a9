//! What people sign in with.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, event};

const RULE: Invariant = Invariant::CredentialsAreOfWhoMaySignIn;
const ID: &str = "aaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbb";

fn person(name: &str, enabled: bool) -> Event {
    event(json!({"directory": {"person_defined": {"person": {"name": name, "enabled": enabled}}}}))
}

fn issued(id: &str, kind: &str, person: Value) -> Event {
    let credential = json!({"id": id, "kind": kind, "person": person, "hash": "5".repeat(64), "expires_at": "2027-01-01T00:00:00Z"});
    event(json!({"credential": {"issued": {"credential": credential}}}))
}

fn ended(id: &str, person: Value) -> Event {
    event(json!({"credential": {"ended": {"credential": id, "person": person, "reason": "revoked"}}}))
}

fn left(person: &str) -> Event {
    event(json!({"credential": {"all_ended": {"person": person, "reason": "person_left"}}}))
}

fn password(person: &str, hash: &str) -> Event {
    event(json!({"credential": {"password_set": {"person": person, "hash": hash}}}))
}

fn used(id: &str) -> Event {
    event(json!({"credential": {"used": {"credential": id, "at": "2026-01-01T00:00:00Z"}}}))
}

/// Ada is there and enabled, bob is not enabled.
fn staffed() -> History {
    History::new().raised(4).on(0, 0).command([person("ada", true), person("bob", false)])
}

fn signed_in() -> History {
    staffed().command([issued(ID, "session", json!("ada")), password("ada", "$argon2id$x")])
}

pub(crate) fn cases() -> Vec<Case> {
    let first = || History::new().raised(4).on(0, 0).command([issued(ID, "invitation", Value::Null)]);
    vec![
        case(
            RULE,
            "a session of nobody, or of who is disabled",
            staffed().command([issued(ID, "session", json!("ada"))]),
            staffed().command([issued(ID, "session", json!("bob"))]),
        ),
        case(
            RULE,
            "nobody's invitation is the first start's",
            first(),
            signed_in().command([issued(OTHER, "invitation", Value::Null)]),
        ),
        case(
            RULE,
            "nobody's token is nobody's",
            first(),
            History::new().raised(4).on(0, 0).command([issued(ID, "token", Value::Null)]),
        ),
        case(
            RULE,
            "who is disabled stays signed in",
            signed_in().command([person("ada", false), left("ada")]),
            signed_in().command([person("ada", false)]),
        ),
        case(
            RULE,
            "who goes keeps a password",
            signed_in()
                .command([event(json!({"directory": {"person_deleted": {"name": "ada"}}})), left("ada")]),
            signed_in().command([
                ended(ID, json!("ada")),
                event(json!({"directory": {"person_deleted": {"name": "ada"}}})),
            ]),
        ),
        case(
            RULE,
            "a credential ends twice",
            signed_in().command([ended(ID, json!("ada"))]),
            signed_in().command([ended(ID, json!("ada"))]).command([ended(ID, json!("ada"))]),
        ),
        case(
            RULE,
            "an id comes again",
            signed_in().command([issued(OTHER, "token", json!("ada"))]),
            signed_in().command([ended(ID, json!("ada"))]).command([issued(ID, "token", json!("ada"))]),
        ),
        case(
            RULE,
            "what has ended is used",
            signed_in().command([used(ID)]),
            signed_in().command([ended(ID, json!("ada"))]).command([used(ID)]),
        ),
        case(
            RULE,
            "a password is no hash, or of nobody",
            signed_in(),
            staffed().command([password("ada", "secret")]),
        ),
    ]
}
