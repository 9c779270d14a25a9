//! API-5: how people sign in, and what they sign in with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use futures_util::StreamExt as _;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidemill_model::{
    Actor, Command, CredentialCommand, CredentialKind, CredentialProof, CredentialsToEnd, Level, LevelState,
    LiveAnswer, LiveQuery, Outcome, Rejection,
};

use crate::fixture::{Answered, Fixture, send};
use crate::rows::SECRET;
use crate::without_tables::{Followed, key};

const PASSWORD: &str = "correct horse battery staple";
const EXTRACT: i64 = 1 << 12;

type Asked = Arc<Mutex<Vec<(Actor, CredentialCommand)>>>;

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id(letter: char) -> String {
    String::from(letter).repeat(16)
}

/// A credential as it is shown; its secret is made of one letter, and so is its id.
fn shown(prefix: &str, letter: char) -> String {
    let secret = String::from(letter).repeat(32);
    let sum = &sha256(&format!("{}{secret}", id(letter)))[..6];
    format!("{prefix}_{}{secret}{sum}", id(letter))
}

fn issued(kind: &str, letter: char, person: Value, more: &Value) -> Value {
    let mut credential = json!({
        "id": id(letter), "kind": kind, "person": person, "hash": sha256(&String::from(letter).repeat(32)),
        "expires_at": "2100-01-01T00:00:00Z",
    });
    credential.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"credential": {"issued": {"credential": credential}}})
}

fn person(name: &str, role: &str, enabled: bool) -> Value {
    json!({"directory": {"person_defined": {"person": {"name": name, "role": role, "enabled": enabled}}}})
}

fn password(person: &str) -> Value {
    let cheap = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8, 1, 1, None).unwrap());
    let hash = cheap.hash_password(PASSWORD.as_bytes()).unwrap().to_string();
    json!({"credential": {"password_set": {"person": person, "hash": hash}}})
}

/// Ann is a super-administrator, adm an administrator, bob a user and vic a viewer. Each has a session of the first letter of
/// the name, and a password.
async fn fixture_of(config: tidemill_api::SignIn) -> (Fixture, Followed, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let config = tidemill_api::Config { sign_in: config, ..Default::default() };
    let script = Box::new(move |record: &tidemill_model::CommandRecord| {
        if let Command::Credential(command) = &record.command {
            noted.lock().unwrap().push((record.actor.clone(), command.clone()));
            if matches!(command, CredentialCommand::Redeem { invitation, .. } if invitation.as_str() == id('y'))
            {
                return Some(Outcome::Refused(Rejection::unknown("invitation", id('y'))));
            }
        }
        Some(Outcome::Done)
    });
    let fixture = Fixture::with(config, script, Box::new(|_, query| Ok(standing(&query)))).await;
    let mut events = vec![
        super_key("root"),
        json!({"catalogue": {"group_defined": {"group": 1, "name": "demo", "shard": 1, "worker_key": "aa", "settings": {}}}}),
        person("off", "user", false),
    ];
    for (name, role, letter) in [
        ("ann", "super_administrator", 'a'),
        ("dm", "administrator", 'd'),
        ("bob", "user", 'b'),
        ("vic", "viewer", 'v'),
    ] {
        events.extend([
            person(name, role, true),
            password(name),
            issued("session", letter, json!(name), &json!({})),
        ]);
    }
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, events);
    (fixture, journal, asked)
}

fn standing(query: &LiveQuery) -> LiveAnswer {
    let (level, readable, hold) = (Level::DIRECTORY, None, None);
    let state = LevelState { level, readable, hold, counts: Vec::new(), processes: Vec::new() };
    if matches!(query, LiveQuery::Level) { LiveAnswer::Level(Box::new(state)) } else { LiveAnswer::NotFound }
}

fn super_key(app: &str) -> Value {
    let mut defined = key(app, &[]);
    defined["catalogue"]["key_defined"]["role"] = json!("super_administrator");
    defined
}

async fn fixture() -> (Fixture, Followed, Asked) {
    fixture_of(tidemill_api::SignIn::default()).await
}

/// With the cookie of a session.
fn by_cookie(fixture: &Fixture, method: Method, path: &str, letter: char) -> RequestBuilder {
    fixture.open(method, path).header("cookie", format!("__Host-tidemill={}", shown("ts", letter)))
}

/// As its page asks.
fn by_page(fixture: &Fixture, method: Method, path: &str, letter: char) -> RequestBuilder {
    let csrf = &sha256(&format!("csrf:{}", String::from(letter).repeat(32)))[..32];
    by_cookie(fixture, method, path, letter).header("X-CSRF-Token", csrf)
}

fn by_token(fixture: &Fixture, method: Method, path: &str, letter: char) -> RequestBuilder {
    fixture.open(method, path).bearer_auth(shown("tm", letter))
}

async fn code(request: RequestBuilder) -> (u16, String) {
    let answer = send(request).await;
    (answer.status, answer.code().1.to_owned())
}

/// API-5: a token calls as its person, within what it may, until it is over, ended or of somebody who left.
#[tokio::test]
async fn tokens_call_as_their_person_within_what_they_may() {
    let (fixture, mut journal, _) = fixture().await;
    journal.decide(
        &fixture,
        vec![
            issued("token", '1', json!("ann"), &json!({})),
            issued("token", '2', json!("ann"), &json!({"may": ["operate"]})),
            issued("token", '3', json!("bob"), &json!({})),
            issued("token", '4', json!("ann"), &json!({"expires_at": "2020-01-01T00:00:00Z"})),
            issued("token", '5', json!("off"), &json!({})),
            issued("invitation", '6', json!("ann"), &json!({})),
        ],
    );
    let get = |path: &str, letter: char| by_token(&fixture, Method::GET, path, letter);
    let me = send(get("/api/me", '1')).await.body;
    let expected = json!({"app": format!("token:{}", id('1')), "person": "ann", "signed_in": {
        "id": id('1'), "kind": "token", "role": "super_administrator", "expires_at": "2100-01-01T00:00:00.000Z"}});
    assert_eq!(me, expected);
    // Keys are for super-administrators; a token may be for less, and never for more than its person.
    for (letter, keys, disable) in [('1', 200, 200), ('2', 403, 403), ('3', 403, 404)] {
        assert_eq!(send(get("/api/keys", letter)).await.status, keys, "{letter}");
        let disabled = by_token(&fixture, Method::POST, &format!("/api/jobs/{EXTRACT}/disable"), letter);
        assert_eq!(send(disabled.json(&json!({}))).await.status, disable, "{letter}");
    }
    let refused = send(get("/api/keys", '2')).await;
    assert_eq!(refused.body["detail"], "the token may not manage; take one that may, or sign in");
    assert_eq!(send(get("/api/jobs", '2')).await.status, 200, "whoever may anything sees");
    for letter in ['4', '5', '9'] {
        assert_eq!(code(get("/api/me", letter)).await, (401, "signed_out".to_owned()), "{letter}");
    }
    // Only what a token is counts as one: no session, no invitation, no other person, and no word of it is another.
    let bearer = |text: String| fixture.open(Method::GET, "/api/me").bearer_auth(text);
    for text in [shown("ts", 'a'), shown("ti", '6'), shown("tm", 'a'), shown("tm", '1').replace('1', "2")] {
        assert_eq!(send(bearer(text.clone())).await.status, 401, "{text}");
    }
    let user = |name: &'static str| get("/api/me", '1').header("X-User", name);
    assert_eq!(send(user("ann")).await.status, 200);
    assert_eq!(code(user("bob")).await, (403, "forbidden".to_owned()));
    let listed = send(get("/api/me/credentials", '1')).await.body;
    let kinds: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|of| (&of["kind"], &of["calls_now"])).collect();
    let (session, token, invitation) = (json!("session"), json!("token"), json!("invitation"));
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(kinds, [(&session, &no), (&token, &yes), (&token, &no), (&invitation, &no)]);
    assert!(!listed.to_string().contains(&sha256(&"1".repeat(32))), "no hash is shown");
}

/// API-5 (CSRF, fixation): a cookie alone changes nothing; nor does one of another site's page, or of another name.
#[tokio::test]
async fn sessions_change_something_for_their_own_page_alone() {
    let (fixture, _journal, _) = fixture().await;
    let me = send(by_cookie(&fixture, Method::GET, "/api/me", 'a')).await.body;
    let csrf = me["csrf_token"].as_str().unwrap().to_owned();
    assert_eq!((&me["app"], &me["person"]), (&json!("session"), &json!("ann")));
    let disable =
        || by_cookie(&fixture, Method::POST, &format!("/api/jobs/{EXTRACT}/disable"), 'a').json(&json!({}));
    let fine = || disable().header("X-CSRF-Token", &csrf);
    assert_eq!(send(fine()).await.status, 200);
    let other = sha256(&format!("csrf:{}", "b".repeat(32)));
    for request in [
        disable(),
        disable().header("X-CSRF-Token", ""),
        disable().header("X-CSRF-Token", &other[..32]),
        fine().header("Origin", "https://evil.example"),
        fine().header("Origin", "null"),
        fine().header("Sec-Fetch-Site", "cross-site"),
        fine().header("Sec-Fetch-Site", "same-site"),
    ] {
        assert_eq!(code(request).await, (403, "forbidden".to_owned()));
    }
    let own = format!("http://{}", fixture.address);
    assert_eq!(send(fine().header("Origin", own).header("Sec-Fetch-Site", "same-origin")).await.status, 200);
    // A key in the headers is meant, whatever cookie comes along.
    let keyed = disable().bearer_auth(format!("root:{SECRET}"));
    assert_eq!(send(keyed).await.status, 200);
    assert_eq!(send(disable().bearer_auth("root:wrong")).await.status, 401);
    // The name of the other kind of cookie, a token in the cookie, a session that nobody was given.
    let cookie = |text: String| fixture.open(Method::GET, "/api/me").header("cookie", text);
    for text in [
        format!("tidemill={}", shown("ts", 'a')),
        format!("__Host-tidemill={}", shown("tm", 'a')),
        format!("__Host-tidemill={}", shown("ts", 'z')),
        "__Host-tidemill=".to_owned(),
    ] {
        assert_eq!(send(cookie(text.clone())).await.status, 401, "{text}");
    }
    let plain = fixture_of(tidemill_api::SignIn { secure_cookies: false, ..Default::default() }).await;
    let cookie = format!("x=1; tidemill={}", shown("ts", 'a'));
    assert_eq!(send(plain.0.open(Method::GET, "/api/me").header("cookie", cookie)).await.status, 200);
}

async fn sign_in(fixture: &Fixture, person: &str, password: &str) -> (Answered, Option<String>) {
    let request =
        fixture.open(Method::POST, "/api/sign-in").json(&json!({"person": person, "password": password}));
    let response = request.send().await.unwrap();
    let cookie = response.headers().get("set-cookie").map(|line| line.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (Answered { status, media: String::new(), retry_after: None, body }, cookie)
}

/// API-5: a password opens a session of its person; whoever has none, is disabled or is not there is told the same; and
/// passwords cannot be tried out.
#[tokio::test]
async fn password_opens_a_session_and_cannot_be_tried_out() {
    let (fixture, _journal, asked) = fixture().await;
    let (answer, cookie) = sign_in(&fixture, "bob", PASSWORD).await;
    assert_eq!(
        (answer.status, &answer.body["person"], &answer.body["role"]),
        (200, &json!("bob"), &json!("user"))
    );
    let cookie = cookie.unwrap();
    assert!(cookie.starts_with("__Host-tidemill=ts_"), "{cookie}");
    assert!(
        cookie.contains("; Path=/; HttpOnly; SameSite=Lax; Max-Age=43") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let (actor, command) = asked.lock().unwrap().pop().unwrap();
    assert_eq!((&*actor.app, actor.user.as_deref()), ("session", Some("bob")));
    let CredentialCommand::Issue { credential, shown, first_only: false } = command else {
        panic!("{command:?}")
    };
    assert!(matches!(shown, Some(CredentialProof::Password(hash)) if hash.starts_with("$argon2id$")));
    let hours = credential.expires_at.duration_since(tidemill_journal::now()).as_hours();
    assert!((11..=12).contains(&hours), "{hours}");
    // What is on record opens nothing.
    assert!(!cookie.contains(&credential.hash) && !cookie.contains(&credential.hash[..32]));
    let wrong = json!("there is no such person, or the password is another one");
    let long = "x".repeat(10_000);
    for (person, password) in [
        ("bob", "wrong"),
        ("nobody", PASSWORD),
        ("off", PASSWORD),
        ("a b", PASSWORD),
        ("bob", ""),
        ("bob", &long),
    ] {
        let (answer, cookie) = sign_in(&fixture, person, password).await;
        assert_eq!(
            (answer.status, &answer.body["detail"], cookie),
            (401, &wrong, None),
            "{person} {}",
            password.len()
        );
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
    for _ in 0..10 {
        sign_in(&fixture, "vic", "wrong password").await;
    }
    assert_eq!(sign_in(&fixture, "vic", PASSWORD).await.0.status, 429);
    assert_eq!(sign_in(&fixture, "ann", PASSWORD).await.0.status, 200);
    let post = |body: Value| fixture.open(Method::POST, "/api/sign-in").json(&body);
    let fine = json!({"person": "ann", "password": PASSWORD});
    assert_eq!(send(post(fine.clone()).header("Origin", "https://evil.example")).await.status, 403);
    assert_eq!(send(post(fine.clone()).header("Idempotency-Key", "x")).await.status, 422);
    assert_eq!(send(post(json!({"person": "ann", "password": PASSWORD, "more": 1}))).await.status, 422);
    let only_ann = tidemill_api::SignIn {
        password_for: ["ann".try_into().unwrap()].into_iter().collect(),
        ..Default::default()
    };
    let (fixture, _journal, _) = fixture_of(only_ann).await;
    assert_eq!(sign_in(&fixture, "ann", PASSWORD).await.0.status, 200);
    assert_eq!(sign_in(&fixture, "bob", PASSWORD).await.0.status, 401);
}

/// API-5: an invitation is looked at before a password is taken, and what the catalogue refuses opens nothing.
#[tokio::test]
async fn invitation_opens_a_session_for_whom_it_is() {
    let (fixture, mut journal, asked) = fixture().await;
    let invited = |letter: char, person: Value| issued("invitation", letter, person, &json!({}));
    journal.decide(
        &fixture,
        vec![invited('x', json!("bob")), invited('y', json!("bob")), invited('z', Value::Null)],
    );
    let redeem = |code: String, person: &str, password: &str| {
        let body = json!({"code": code, "person": person, "password": password});
        fixture.open(Method::POST, "/api/sign-in/invitation").json(&body)
    };
    assert_eq!(send(redeem(shown("ti", 'x'), "bob", PASSWORD)).await.status, 200);
    let (actor, command) = asked.lock().unwrap().pop().unwrap();
    assert_eq!((&*actor.app, actor.user.as_deref()), ("session", Some("bob")));
    let CredentialCommand::Redeem { invitation, password, session, .. } = command else {
        panic!("{command:?}")
    };
    assert_eq!(invitation.as_str(), id('x'));
    assert!(password.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{password}");
    assert_eq!((session.person.unwrap().as_str(), &*session.title), ("bob", "invitation"));
    // The catalogue has heard of another use meanwhile.
    assert_eq!(code(redeem(shown("ti", 'y'), "bob", PASSWORD)).await, (401, "not_signed_in".to_owned()));
    asked.lock().unwrap().clear();
    for (code_shown, person, password, status) in [
        (shown("ti", 'x'), "ann", PASSWORD, 401),
        (shown("ti", 'w'), "bob", PASSWORD, 401),
        (shown("tm", 'x'), "bob", PASSWORD, 401),
        ("ti_x".to_owned(), "bob", PASSWORD, 401),
        (shown("ti", 'x'), "bob", "short", 422),
        (shown("ti", 'x'), "bob", "Bob is my name and so it is", 422),
        (shown("ti", 'x'), "b b", PASSWORD, 422),
    ] {
        let answer = send(redeem(code_shown.clone(), person, password)).await;
        assert_eq!(answer.status, status, "{code_shown} {person}: {}", answer.body);
        assert!(!answer.body.to_string().contains(password), "a password is not told again");
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
    assert_eq!(
        send(redeem(shown("ti", 'z'), "vic", PASSWORD)).await.status,
        200,
        "the first start's is anybody's"
    );
}

/// API-5: no route mints, widens or prolongs what its caller does not have: each kind of caller against each call that makes a
/// key, a token or an invitation, or takes one away.
#[tokio::test]
async fn nobody_gives_more_than_they_have() {
    let (fixture, mut journal, asked) = fixture().await;
    let mut events = Vec::new();
    for (app, role) in [("k1", "administrator"), ("k2", "user")] {
        let mut defined = key(app, &[]);
        defined["catalogue"]["key_defined"]["role"] = json!(role);
        events.push(defined);
    }
    events.extend([
        issued("token", '1', json!("ann"), &json!({})),
        issued("token", '2', json!("ann"), &json!({"may": ["administer"]})),
        issued("token", '3', json!("dm"), &json!({})),
    ]);
    journal.decide(&fixture, events);
    let callers = [
        "key root",
        "key k1",
        "key k2",
        "session a",
        "session d",
        "session b",
        "session v",
        "token 1",
        "token 2",
        "token 3",
    ];
    let by = |caller: &str, method: Method, path: &str| {
        let (kind, name) = caller.split_once(' ').unwrap();
        let letter = name.chars().next().unwrap();
        match kind {
            "key" => fixture.request(method, path, name),
            "session" => by_page(&fixture, method, path, letter),
            _ => by_token(&fixture, method, path, letter),
        }
    };
    let key_request = json!({"app": "new", "secret": "0123456789abcdef", "role": "viewer"});
    let table: [(Method, &str, Value, &str); 10] = [
        // A token is for who is signed in, and for nobody else.
        (Method::POST, "/api/me/tokens", json!({"title": "x"}), "0001111000"),
        (
            Method::PUT,
            "/api/me/password",
            json!({"old": PASSWORD, "new": "another good password"}),
            "0001111000",
        ),
        (Method::POST, "/api/keys", key_request.clone(), "1001000000"),
        (Method::POST, "/api/admin/keys", key_request, "1001000000"),
        // Who invites somebody can become them.
        (Method::POST, "/api/people/ann/invite", json!({}), "1001000000"),
        (Method::POST, "/api/people/dm/invite", json!({}), "1001000000"),
        (Method::POST, "/api/people/vic/invite", json!({}), "1101100000"),
        (Method::DELETE, "/api/people/ann/credentials", json!({}), "1001000100"),
        (Method::DELETE, "/api/people/vic/credentials", json!({}), "1101100111"),
        (Method::GET, "/api/people/vic/credentials", json!({}), "1101100111"),
    ];
    let mut found = String::new();
    let mut expected = String::new();
    for (method, path, body, may) in table {
        let mut told = String::new();
        for caller in callers {
            let request = by(caller, method.clone(), path);
            let request = if method == Method::GET { request } else { request.json(&body) };
            let answer = send(request).await;
            assert!(matches!(answer.status, 200 | 403), "{caller} {path}: {} {}", answer.status, answer.body);
            told.push(if answer.status == 200 { '1' } else { '0' });
        }
        found.push_str(&format!("{method} {path} {told}\n"));
        expected.push_str(&format!("{method} {path} {may}\n"));
    }
    assert_eq!(found, expected);
    // What was made is of who asked, and no longer than it can be.
    for (actor, command) in asked.lock().unwrap().iter() {
        if let CredentialCommand::Issue { credential, .. } = command {
            let is_own = credential.person.as_ref().map(|of| of.as_str()) == actor.user.as_deref();
            assert!(is_own || credential.kind == CredentialKind::Invitation, "{command:?}");
        }
    }
    let token = |body: Value| by_page(&fixture, Method::POST, "/api/me/tokens", 'b').json(&body);
    for bad in [
        json!({"title": "x", "days": 367}),
        json!({"title": "x", "days": 0}),
        json!({"title": " "}),
        json!({"title": "x", "may": ["everything"]}),
        json!({"title": "x", "person": "ann"}),
        json!({}),
    ] {
        assert_eq!(send(token(bad.clone())).await.status, 422, "{bad}");
    }
}

/// API-5: signing out ends the session, or all of the person's, and takes the cookie away; a key or a token has nothing to sign
/// out from, and a person ends what is theirs alone.
#[tokio::test]
async fn people_sign_out_here_or_everywhere() {
    let (fixture, mut journal, asked) = fixture().await;
    journal.decide(&fixture, vec![issued("token", '1', json!("bob"), &json!({}))]);
    for (body, which) in [
        (json!({}), CredentialsToEnd::One(id('b').as_str().try_into().unwrap())),
        (json!({"everywhere": true}), CredentialsToEnd::Sessions),
    ] {
        let request = by_page(&fixture, Method::POST, "/api/me/sign-out", 'b').json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.starts_with("__Host-tidemill=; ") && cookie.contains("Max-Age=0"), "{cookie}");
        let (actor, command) = asked.lock().unwrap().pop().unwrap();
        let CredentialCommand::End { person, which: found } = command else { panic!("{command:?}") };
        assert_eq!((&*actor.app, person.as_str(), found), ("session", "bob", which));
    }
    let out = |request: RequestBuilder| code(request.json(&json!({})));
    assert_eq!(out(by_token(&fixture, Method::POST, "/api/me/sign-out", '1')).await.0, 403);
    assert_eq!(out(fixture.request(Method::POST, "/api/me/sign-out", "root")).await.0, 403);
    let own = format!("/api/me/credentials/{}", id('1'));
    assert_eq!(send(by_token(&fixture, Method::DELETE, &own, '1')).await.status, 200);
    let (actor, _) = asked.lock().unwrap().pop().unwrap();
    assert_eq!(*actor.app, format!("token:{}", id('1')));
    for nothing in ["x", "ZZZZZZZZZZZZZZZZ"] {
        let path = format!("/api/me/credentials/{nothing}");
        assert_eq!(send(by_page(&fixture, Method::DELETE, &path, 'b')).await.status, 404);
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
}

/// API-5: what ends is refused, and ends the streams that it opened; who leaves has no session and no password more.
#[tokio::test]
async fn what_ends_is_over_on_streams_too() {
    let (fixture, mut journal, _) = fixture().await;
    journal.decide(
        &fixture,
        vec![issued("token", '1', json!("ann"), &json!({})), issued("token", '2', json!("ann"), &json!({}))],
    );
    let ended = |letter: char| json!({"credential": {"ended": {"credential": id(letter), "person": "ann", "reason": "revoked"}}});
    let left = json!({"credential": {"all_ended": {"person": "ann", "reason": "person_left"}}});
    for (letter, end) in [('1', ended('1')), ('2', left)] {
        let stream = by_token(&fixture, Method::GET, "/api/events", letter).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        let mut stream = stream.bytes_stream();
        journal.decide(&fixture, vec![end]);
        let over = async { while let Some(Ok(_)) = stream.next().await {} };
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("the stream ends");
        assert_eq!(send(by_token(&fixture, Method::GET, "/api/me", letter)).await.status, 401);
    }
    assert_eq!(
        send(by_cookie(&fixture, Method::GET, "/api/me", 'a')).await.status,
        401,
        "and so are sessions"
    );
    assert_eq!(sign_in(&fixture, "ann", PASSWORD).await.0.status, 401, "and the password");
}
