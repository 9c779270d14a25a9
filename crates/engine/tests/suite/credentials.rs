//! What people sign in with (API-5): what is issued to whom, and what ends it.

use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, Command, CredentialCommand, CredentialEvent, DirectoryCommand, DirectoryEvent, Event, Outcome,
    ShardId, Timestamp,
};

use crate::kit::{World, rejection};

const PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";

fn done() -> Outcome {
    Outcome::Answered(Answer::Done)
}

fn raised() -> World {
    let mut world = World::new();
    world.raise();
    world
}

/// Ann is a super-administrator, bob a user, and cleo has left.
fn world() -> World {
    let mut world = raised();
    let people = json!([
        {"person": {"name": "ann", "role": "super_administrator"}},
        {"person": {"name": "bob"}},
        {"person": {"name": "cleo", "enabled": false}},
    ]);
    change(&mut world, 0, people);
    world
}

fn change(world: &mut World, revision: u64, changes: Value) {
    let changes = serde_json::from_value(changes).unwrap();
    let command = Command::Directory(DirectoryCommand::Change { revision, changes });
    assert_eq!(world.ask(ShardId::CATALOGUE, command), done());
}

fn id(number: usize) -> String {
    format!("{number:016}")
}

fn hours(world: &World, hours: i64) -> Timestamp {
    world.wall.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap()
}

fn credential(world: &World, number: usize, kind: &str, person: Value, more: Value) -> Value {
    let mut credential = json!({
        "id": id(number), "kind": kind, "person": person, "hash": "5".repeat(64), "expires_at": hours(world, 12),
    });
    credential.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    credential
}

fn ask(world: &mut World, user: &str, command: Value) -> Outcome {
    let command: CredentialCommand = serde_json::from_value(command).unwrap();
    let outcome = world.ask_catalogue(("session", Some(user)), Command::Credential(command));
    assert!(world.partition == world.folded(), "the fold differs from the draft");
    outcome
}

/// A token by the person's first session, anything else as a provider or an administrator has it.
fn issue(world: &mut World, user: &str, credential: Value) -> Outcome {
    let shown = if credential["kind"] == "token" { json!({"session": id(0)}) } else { Value::Null };
    ask(world, user, json!({"issue": {"credential": credential, "shown": shown}}))
}

/// The session by which bob gets tokens.
fn signed_in(world: &mut World) {
    let session = credential(world, 0, "session", json!("bob"), json!({"expires_at": hours(world, 24 * 20)}));
    assert_eq!(issue(world, "bob", session), done());
    said(world);
}

/// What is on record of credentials since this was last asked.
fn said(world: &mut World) -> Vec<String> {
    let told = |event: &Event| match event {
        Event::Credential(CredentialEvent::Issued { credential }) => {
            Some(format!("{} {}", credential.kind, credential.id))
        }
        Event::Credential(CredentialEvent::Ended { credential, reason, .. }) => {
            Some(format!("{credential} {reason}"))
        }
        Event::Credential(CredentialEvent::AllEnded { person, reason }) => {
            Some(format!("all of {person}: {reason}"))
        }
        Event::Credential(CredentialEvent::Used { credential, .. }) => Some(format!("{credential} used")),
        Event::Credential(CredentialEvent::PasswordSet { person, .. }) => {
            Some(format!("password of {person}"))
        }
        Event::Directory(DirectoryEvent::PersonDefined { person }) => {
            Some(format!("{} is {}", person.name, person.role))
        }
        Event::Directory(DirectoryEvent::PersonDeleted { name }) => Some(format!("{name} goes")),
        _ => None,
    };
    world.events().iter().filter_map(told).collect()
}

/// API-5: what cannot be issued, and why; nothing of it is on record.
#[test]
fn what_is_issued_is_of_who_may_have_it() {
    let mut world = world();
    let table: Vec<(&str, &str, Value, Value)> = vec![
        ("bob", "session", json!("bob"), json!({"expires_at": world.wall})),
        ("bob", "session", json!("bob"), json!({"expires_at": hours(&world, 24 * 30 + 2)})),
        ("bob", "token", json!("bob"), json!({"expires_at": hours(&world, 24 * 366 + 2)})),
        ("bob", "session", json!("bob"), json!({"hash": "short"})),
        ("bob", "session", json!("bob"), json!({"title": "two\nlines"})),
        ("bob", "session", json!("bob"), json!({"may": ["view"]})),
        ("bob", "session", json!("ann"), json!({})),
        ("bob", "token", json!("ann"), json!({})),
        ("cleo", "session", json!("cleo"), json!({})),
        ("dan", "session", json!("dan"), json!({})),
        ("ann", "invitation", json!("dan"), json!({})),
        ("ann", "invitation", json!("cleo"), json!({})),
        ("ann", "invitation", Value::Null, json!({})),
        ("ann", "token", Value::Null, json!({})),
    ];
    let before = world.partition.clone();
    let mut told = String::new();
    for (user, kind, person, more) in table {
        let wanted = credential(&world, 1, kind, person, more);
        let outcome = issue(&mut world, user, wanted);
        told.push_str(&format!("{}\n", rejection(&outcome)));
    }
    expect![[r#"
        invalid: expires_at: "2026-07-01T10:10:00.000Z": must be later than now, and within 30 days
        invalid: expires_at: "2026-07-31T12:10:00.000Z": must be later than now, and within 30 days
        invalid: expires_at: "2027-07-02T12:10:00.000Z": must be later than now, and within 366 days
        invalid: hash: "short": must be a SHA-256 in 64 hexadecimal digits
        invalid: title: "two\nlines": must be at most 100 characters, none of them a control character
        invalid: may: "view": is of tokens alone; leave it out
        invalid: person: "ann": is for the person, and for nobody else, to get, who is signed in
        invalid: person: "ann": is for the person, and for nobody else, to get, who is signed in
        invalid: person: "cleo": is disabled; enable the person first
        unknown: there is no person dan
        unknown: there is no person dan
        invalid: person: "cleo": is disabled; enable the person first
        invalid: person: "": is missing: of the first start's invitation alone nobody's name is known
        invalid: person: "": is missing: of the first start's invitation alone nobody's name is known
    "#]]
    .assert_eq(&told);
    assert!(world.partition.catalogue() == before.catalogue());
    // A token is made by whoever is signed in, and not by another token or a key.
    let token = credential(&world, 1, "token", json!("bob"), json!({}));
    let command: CredentialCommand = serde_json::from_value(json!({"issue": {"credential": token}})).unwrap();
    for app in ["token:0000000000000009", "etl", "operator"] {
        let outcome = world.ask_catalogue((app, Some("bob")), Command::Credential(command.clone()));
        assert!(rejection(&outcome).to_string().contains("who is signed in"), "{app}");
    }
}

/// API-5: sessions and tokens are bounded in number: the session that would end first gives way, a token does not; what is
/// over is cleared away.
#[test]
fn what_a_person_has_is_bounded() {
    let mut world = world();
    signed_in(&mut world);
    for number in 1..=19 {
        let hours = hours(&world, number);
        let session =
            credential(&world, number as usize, "session", json!("bob"), json!({"expires_at": hours}));
        assert_eq!(issue(&mut world, "bob", session), done());
        let number = 100 + number as usize;
        let token = credential(&world, number, "token", json!("bob"), json!({"expires_at": hours}));
        assert_eq!(issue(&mut world, "bob", token), done());
    }
    said(&mut world);
    let token = credential(&world, 120, "token", json!("bob"), json!({"expires_at": hours(&world, 20)}));
    assert_eq!(issue(&mut world, "bob", token), done());
    said(&mut world);
    let session = credential(&world, 21, "session", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "bob", session), done());
    assert_eq!(said(&mut world), ["0000000000000001 replaced", "session 0000000000000021"]);
    let token = credential(&world, 121, "token", json!("bob"), json!({}));
    let refused = issue(&mut world, "bob", token);
    expect!["limit_reached: the number of a person's tokens is at its limit of 20"]
        .assert_eq(&rejection(&refused).to_string());
    world.pass(jiff::SignedDuration::from_hours(3));
    let token = credential(&world, 122, "token", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "bob", token), done());
    let over = ["0000000000000101", "0000000000000102", "0000000000000103"].map(|id| format!("{id} expired"));
    assert_eq!(said(&mut world), [&over[..], &["token 0000000000000122".to_owned()]].concat());
    // Another invitation takes the place of the first one.
    for (number, before) in [(200, None), (201, Some("0000000000000200 replaced"))] {
        let invitation = credential(&world, number, "invitation", json!("bob"), json!({}));
        assert_eq!(issue(&mut world, "ann", invitation), done());
        let said = said(&mut world);
        assert_eq!(said.first().map(String::as_str).filter(|_| before.is_some()), before);
    }
}

/// API-5: an invitation is used once, by whom it is for, as long as it is good; the password that it brings ends the sessions
/// of before.
#[test]
fn invitation_brings_a_password_once() {
    let mut world = world();
    let session = credential(&world, 1, "session", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "bob", session), done());
    let invitation = credential(&world, 2, "invitation", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "ann", invitation), done());
    let redeem = |world: &World, number: usize, person: &str| {
        let session = credential(world, number, "session", json!(person), json!({}));
        json!({"redeem": {"invitation": id(2), "person": person, "password": PASSWORD, "session": session}})
    };
    let by_ann = redeem(&world, 3, "ann");
    assert!(matches!(ask(&mut world, "ann", by_ann), Outcome::Refused(_)));
    said(&mut world);
    let by_bob = redeem(&world, 3, "bob");
    assert_eq!(ask(&mut world, "bob", by_bob), done());
    let expected = [
        "0000000000000002 used",
        "0000000000000001 password_changed",
        "password of bob",
        "session 0000000000000003",
    ];
    assert_eq!(said(&mut world), expected);
    let again = redeem(&world, 4, "bob");
    expect!["unknown: there is no invitation 0000000000000002"]
        .assert_eq(&rejection(&ask(&mut world, "bob", again)).to_string());
    let invitation = credential(&world, 5, "invitation", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "ann", invitation), done());
    world.pass(jiff::SignedDuration::from_hours(13));
    let session = credential(&world, 6, "session", json!("bob"), json!({}));
    let late =
        json!({"redeem": {"invitation": id(5), "person": "bob", "password": PASSWORD, "session": session}});
    assert!(matches!(ask(&mut world, "bob", late), Outcome::Refused(_)));
}

/// API-5: the invitation of the first start makes its user the first super-administrator, and there is one such invitation.
#[test]
fn first_start_invites_whoever_comes_first() {
    let mut world = raised();
    said(&mut world);
    let first = |world: &World, number: usize| {
        let invitation = credential(world, number, "invitation", Value::Null, json!({}));
        json!({"issue": {"credential": invitation, "first_only": true}})
    };
    let one = first(&world, 1);
    assert_eq!(ask(&mut world, "x", one), done());
    let session = credential(&world, 3, "session", json!("ada"), json!({}));
    let redeem =
        json!({"redeem": {"invitation": id(1), "person": "ada", "password": PASSWORD, "session": session}});
    assert_eq!(ask(&mut world, "ada", redeem), done());
    let expected = [
        "invitation 0000000000000001",
        "ada is super_administrator",
        "0000000000000001 used",
        "password of ada",
        "session 0000000000000003",
    ];
    assert_eq!(said(&mut world), expected);
    let third = first(&world, 4);
    assert!(matches!(ask(&mut world, "x", third), Outcome::Refused(_)), "somebody can sign in");
}

/// API-5: whoever is disabled or goes has nothing left to sign in with, and comes back without it.
#[test]
fn who_leaves_is_signed_out_everywhere() {
    let mut world = world();
    signed_in(&mut world);
    for (number, kind) in [(1, "session"), (2, "token")] {
        let of = credential(&world, number, kind, json!("bob"), json!({}));
        assert_eq!(issue(&mut world, "bob", of), done());
    }
    said(&mut world);
    change(&mut world, 3, json!([{"person": {"name": "bob", "enabled": false}}]));
    assert_eq!(said(&mut world), ["bob is user", "all of bob: person_left"]);
    change(&mut world, 4, json!([{"person": {"name": "bob"}}]));
    assert_eq!(said(&mut world), ["bob is user"]);
    let end = json!({"end": {"person": "bob", "which": {"one": id(1)}}});
    assert!(matches!(ask(&mut world, "bob", end), Outcome::Refused(_)));
    change(&mut world, 5, json!([{"delete_person": {"name": "bob"}}]));
    assert_eq!(said(&mut world), ["bob goes"], "there was nothing left to end");
}

/// API-5: one, every session, or everything ends; of what is another's nothing does.
#[test]
fn credentials_end_as_asked() {
    let mut world = world();
    signed_in(&mut world);
    for (number, kind) in [(1, "session"), (2, "session"), (3, "token"), (4, "session")] {
        let of = credential(&world, number, kind, json!("bob"), json!({}));
        assert_eq!(issue(&mut world, "bob", of), done());
    }
    said(&mut world);
    let end = |person: &str, which: Value| json!({"end": {"person": person, "which": which}});
    assert!(matches!(ask(&mut world, "ann", end("ann", json!({"one": id(1)}))), Outcome::Refused(_)));
    assert_eq!(ask(&mut world, "bob", end("bob", json!({"one": id(1)}))), done());
    assert_eq!(said(&mut world), ["0000000000000001 revoked"]);
    assert_eq!(ask(&mut world, "bob", end("bob", json!("sessions"))), done());
    let sessions = ["0000000000000002 revoked", "0000000000000004 revoked", "0000000000000000 revoked"];
    assert_eq!(said(&mut world), sessions);
    assert_eq!(ask(&mut world, "ann", end("bob", json!("everything"))), done());
    assert_eq!(said(&mut world), ["all of bob: revoked"]);
    assert_eq!(ask(&mut world, "ann", end("bob", json!("everything"))), done());
    assert_eq!(said(&mut world), [""; 0]);
}

/// API-5: the last use of a credential is on record once an hour.
#[test]
fn uses_are_on_record_once_an_hour() {
    let mut world = world();
    signed_in(&mut world);
    let of = credential(&world, 1, "token", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "bob", of), done());
    let used = |world: &World, number: usize| json!({"report_uses": {"uses": [{"credential": id(number), "at": world.wall}]}});
    said(&mut world);
    for (minutes, is_news) in [(1, true), (30, false), (31, true), (59, false)] {
        world.pass(jiff::SignedDuration::from_mins(minutes));
        let report = used(&world, 1);
        assert_eq!(ask(&mut world, "bob", report), done());
        assert_eq!(said(&mut world).len(), usize::from(is_news), "{minutes}");
    }
    let unknown = used(&world, 7);
    assert_eq!(ask(&mut world, "bob", unknown), done());
    assert_eq!(said(&mut world), [""; 0]);
    assert!(matches!(ask(&mut world, "bob", json!({"report_uses": {"uses": []}})), Outcome::Refused(_)));
}

/// API-5: what was good when an interface looked at it, and has ended since, opens nothing any more: no session by a password of
/// before, no token by a session that is over, no other password by either.
#[test]
fn what_has_ended_meanwhile_opens_nothing() {
    let mut world = world();
    let invitation = credential(&world, 1, "invitation", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "ann", invitation), done());
    let session = credential(&world, 2, "session", json!("bob"), json!({}));
    let redeem =
        json!({"redeem": {"invitation": id(1), "person": "bob", "password": PASSWORD, "session": session}});
    assert_eq!(ask(&mut world, "bob", redeem), done());
    let by = |world: &World, number: usize, kind: &str, shown: Value| json!({"issue": {"credential": credential(world, number, kind, json!("bob"), json!({})), "shown": shown}});
    let change = |world: &World, number: usize, old: &str, by: usize, new: &str| {
        let session = credential(world, number, "session", json!("bob"), json!({}));
        json!({"change_password": {"person": "bob", "old": old, "by": id(by), "password": new, "session": session}})
    };
    let (other, third) = (format!("{PASSWORD}x"), format!("{PASSWORD}y"));
    let fine = [
        by(&world, 3, "session", json!({"password": PASSWORD})),
        by(&world, 4, "token", json!({"session": id(2)})),
        change(&world, 5, PASSWORD, 2, &other),
    ];
    for command in fine {
        assert_eq!(ask(&mut world, "bob", command), done());
    }
    said(&mut world);
    // Password 1 and sessions 2 and 3 are of before.
    let late = [
        by(&world, 6, "session", json!({"password": PASSWORD})),
        by(&world, 6, "token", json!({"session": id(2)})),
        by(&world, 6, "token", json!({"session": id(4)})),
        by(&world, 6, "token", json!({"password": other})),
        by(&world, 6, "token", Value::Null),
        change(&world, 6, PASSWORD, 5, &third),
        change(&world, 6, &other, 2, &third),
        change(&world, 6, &other, 4, &third),
    ];
    for command in late {
        assert!(matches!(ask(&mut world, "bob", command.clone()), Outcome::Refused(_)), "{command}");
    }
    assert_eq!(said(&mut world), [""; 0]);
    let now = change(&world, 6, &other, 5, &third);
    assert_eq!(ask(&mut world, "bob", now), done());
}

/// API-5: an invitation ends where its person gets another role, for who made it may be one who may less; and the first start's
/// is of no use once somebody can sign in.
#[test]
fn invitation_is_of_no_use_where_it_would_give_more() {
    let mut world = world();
    let invitation = credential(&world, 1, "invitation", json!("bob"), json!({}));
    assert_eq!(issue(&mut world, "ann", invitation), done());
    said(&mut world);
    change(&mut world, 3, json!([{"person": {"name": "bob", "role": "super_administrator"}}]));
    assert_eq!(said(&mut world), ["bob is super_administrator", "0000000000000001 revoked"]);
    let mut world = raised();
    let first = |world: &World, number: usize| json!({"issue": {"credential": credential(world, number, "invitation", Value::Null, json!({})), "first_only": true}});
    let (one, other) = (first(&world, 1), first(&world, 2));
    assert_eq!(ask(&mut world, "x", one), done());
    said(&mut world);
    // One that was lost is replaced.
    assert_eq!(ask(&mut world, "x", other), done());
    assert_eq!(said(&mut world), ["0000000000000001 replaced", "invitation 0000000000000002"]);
    change(&mut world, 0, json!([{"person": {"name": "ann", "role": "super_administrator"}}]));
    let session = credential(&world, 3, "session", json!("ann"), json!({}));
    assert_eq!(issue(&mut world, "ann", session), done());
    for person in ["mallory", "ann"] {
        let session = credential(&world, 4, "session", json!(person), json!({}));
        let redeem = json!({"redeem": {"invitation": id(2), "person": person, "password": PASSWORD, "session": session}});
        assert!(matches!(ask(&mut world, person, redeem), Outcome::Refused(_)), "{person}");
    }
}
