//! API-5: people sign in through a real provider, by the interface's own pages.

use std::sync::{Arc, Mutex};

use reqwest::Method;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidemill_model::{
    Actor, Command, CommandRecord, CredentialCommand, CredentialsToEnd, DirectoryChange, DirectoryCommand,
    LiveAnswer, Outcome, Person,
};

use self::browser::{REDIRECT, sent_back};
use crate::fixture::{Fixture, send};
use crate::without_tables::{Followed, key};

#[path = "../../../oidc/tests/suite/kit/browser.rs"]
mod browser;

fn issuer() -> String {
    std::env::var("TIDEMILL_TEST_OIDC").expect(
        "TIDEMILL_TEST_OIDC is not set: run `deploy/dev/services start`, then `eval \"$(deploy/dev/services env)\"`",
    )
}

fn settings(issuer: &str, more: Value) -> tidemill_api::SignIn {
    let mut oidc = json!({
        "issuer": issuer, "client_id": "tidemill", "client_secret": "secret of tidemill: 100% & more",
        "redirect_url": REDIRECT, "role_claim": "realm_access.roles",
        "roles": {"reader": "viewer", "operator": "administrator"},
        "department_claim": "groups", "departments": {"analytics": "analytics", "risk": "market-risk"},
    });
    oidc.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tidemill_api::SignIn { oidc: Some(serde_json::from_value(oidc).unwrap()), ..Default::default() }
}

type Asked = Arc<Mutex<Vec<(Actor, Command)>>>;

/// Ann and cem are in the directory, and dan is disabled; ben is not there.
async fn fixture(sign_in: tidemill_api::SignIn) -> (Fixture, Followed, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let script = Box::new(move |record: &CommandRecord| {
        noted.lock().unwrap().push((record.actor.clone(), record.command.clone()));
        Some(Outcome::Done)
    });
    let config = tidemill_api::Config { sign_in, ..Default::default() };
    let fixture = Fixture::with(config, script, Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let mut journal = Followed::follow(&fixture);
    let person = |name: &str, enabled: bool| json!({"directory": {"person_defined": {"person": {"name": name, "enabled": enabled, "departments": ["analytics"]}}}});
    let department =
        |name: &str| json!({"directory": {"department_defined": {"department": {"name": name}}}});
    let known = vec![
        key("etl", &[]),
        department("analytics"),
        department("market-risk"),
        person("ann", true),
        person("cem", true),
    ];
    journal.decide(&fixture, known);
    (fixture, journal, asked)
}

/// Begins, signs in at the provider, and comes back: the status, the cookies that are set, and the body.
async fn flow(
    fixture: &Fixture,
    login: &str,
    change: impl FnOnce(String, String) -> (String, String),
) -> (u16, String, Value) {
    // The browser follows nothing here: where it is sent, is looked at.
    let http =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let begun = http.get(format!("http://{}/api/sign-in/oidc", fixture.address)).send().await.unwrap();
    assert_eq!(begun.status(), 303);
    let text = |name: reqwest::header::HeaderName| begun.headers()[name].to_str().unwrap().to_owned();
    let (location, cookie) = (text(LOCATION), text(SET_COOKIE));
    assert!(
        cookie.starts_with("__Host-tidemill-begun=") && cookie.contains("; HttpOnly; SameSite=Lax;"),
        "{cookie}"
    );
    let back = sent_back(&location, login).await;
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let (query, cookie) = change(back.query().unwrap().to_owned(), cookie);
    let done = http.get(format!("http://{}/api/sign-in/oidc/done?{query}", fixture.address));
    let done = done.header(COOKIE, cookie).send().await.unwrap();
    let status = done.status().as_u16();
    let cookies: Vec<_> =
        done.headers().get_all(SET_COOKIE).iter().map(|line| line.to_str().unwrap().to_owned()).collect();
    let body = done.text().await.unwrap();
    (status, cookies.join("\n"), serde_json::from_str(&body).unwrap_or(Value::Null))
}

fn as_it_is(query: String, cookie: String) -> (String, String) {
    (query, cookie)
}

/// API-5: what the provider says of somebody is written to the directory, and opens a session; whoever may not, has none.
#[tokio::test]
async fn provider_signs_people_in_with_what_it_says_of_them() {
    let (fixture, _journal, asked) = fixture(settings(&issuer(), json!({}))).await;
    let options = send(fixture.open(Method::GET, "/api/sign-in")).await.body;
    assert_eq!(options, json!({"password": true, "provider": "/api/sign-in/oidc"}));
    let (status, cookies, _) = flow(&fixture, "ann", as_it_is).await;
    assert_eq!(status, 303);
    assert!(
        cookies.starts_with("__Host-tidemill=ts_") && cookies.contains("\n__Host-tidemill-begun=; "),
        "{cookies}"
    );
    let said = std::mem::take(&mut *asked.lock().unwrap());
    let [
        (by, Command::Directory(DirectoryCommand::Change { changes, .. })),
        (signed_in, Command::Credential(issued)),
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!((&*by.app, by.user.as_deref()), ("identity-provider", Some("ann")));
    let [DirectoryChange::Person(person)] = &changes[..] else { panic!("{changes:?}") };
    let Person { role, mail, departments, .. } = person.as_ref();
    assert_eq!(
        (role.as_str(), mail.as_deref(), departments.len()),
        ("administrator", Some("ann@example.org"), 1)
    );
    assert_eq!((&*signed_in.app, signed_in.user.as_deref()), ("session", Some("ann")));
    assert!(
        matches!(issued, CredentialCommand::Issue { credential, .. } if &*credential.title == "provider")
    );
    // No role, nobody of that name here, and a page that says no.
    for (login, told) in [("cem", "gives cem no role"), ("ben", "ben is not in the directory")] {
        let (status, cookies, body) = flow(&fixture, login, as_it_is).await;
        assert_eq!((status, body["code"].as_str()), (401, Some("not_signed_in")), "{body}");
        assert!(body["detail"].as_str().unwrap().contains(told) && cookies.is_empty(), "{body} {cookies}");
    }
    // Whoever the provider lets in no more is signed out.
    let said = std::mem::take(&mut *asked.lock().unwrap());
    let [(by, Command::Credential(CredentialCommand::End { person, which: CredentialsToEnd::Everything }))] =
        &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!((&*by.app, person.as_str()), ("identity-provider", "cem"));
    let denied =
        send(fixture.open(Method::GET, "/api/sign-in/oidc/done?error=access_denied&error_description=no"))
            .await;
    assert_eq!((denied.status, &denied.body["detail"]), (401, &json!("the provider says access_denied: no")));
    let sign_in = tidemill_api::SignIn { adds_people: true, ..settings(&issuer(), json!({})) };
    let (fixture, _journal, asked) = self::fixture(sign_in).await;
    assert_eq!(flow(&fixture, "ben", as_it_is).await.0, 303);
    assert_eq!(asked.lock().unwrap().len(), 2, "ben is added, and signed in");
}

/// API-5 (fixation): an answer of the provider is good in the browser that asked, once.
#[tokio::test]
async fn answer_of_the_provider_is_for_the_browser_that_asked() {
    let (fixture, _journal, asked) = fixture(settings(&issuer(), json!({}))).await;
    let no_cookie = |query: String, _: String| (query, String::new());
    let other_state = |query: String, cookie: String| (query.replace("state=", "state=x"), cookie);
    let other_code = |query: String, cookie: String| (query.replace("code=", "code=x"), cookie);
    let changed_cookie = |query: String, cookie: String| {
        let (name, value) = cookie.split_once('=').unwrap();
        (query, format!("{name}=A{}", &value[1..]))
    };
    let mut kept = (String::new(), String::new());
    for (what, found) in [
        ("no cookie", flow(&fixture, "ann", no_cookie).await),
        ("another state", flow(&fixture, "ann", other_state).await),
        ("another code", flow(&fixture, "ann", other_code).await),
        ("another cookie", flow(&fixture, "ann", changed_cookie).await),
    ] {
        assert_eq!(
            (found.0, &*found.1, found.2["code"].as_str()),
            (401, "", Some("not_signed_in")),
            "{what}"
        );
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
    let keep = |query: String, cookie: String| {
        kept = (query.clone(), cookie.clone());
        (query, cookie)
    };
    assert_eq!(flow(&fixture, "ann", keep).await.0, 303);
    let again =
        fixture.open(Method::GET, &format!("/api/sign-in/oidc/done?{}", kept.0)).header(COOKIE, kept.1);
    assert_eq!(send(again).await.status, 401, "a code is good once");
}

/// API-5: while the provider is away nobody signs in by it, and sessions go on.
#[tokio::test]
async fn provider_that_is_away_keeps_nobody_out_who_is_in() {
    let gone = settings("http://127.0.0.1:9", json!({}));
    let (fixture, mut journal, _) = fixture(gone).await;
    let hash = |text: &str| {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (id, secret) = ("a".repeat(16), "b".repeat(32));
    let session = json!({"id": id, "kind": "session", "person": "ann", "hash": hash(&secret), "expires_at": "2100-01-01T00:00:00Z"});
    journal.decide(&fixture, vec![json!({"credential": {"issued": {"credential": session}}})]);
    let begun = send(fixture.open(Method::GET, "/api/sign-in/oidc")).await;
    assert_eq!(begun.code(), (503, "provider_away"));
    assert!(begun.retry_after.is_some());
    let cookie = format!("__Host-tidemill=ts_{id}{secret}{}", &hash(&format!("{id}{secret}"))[..6]);
    let me = send(fixture.open(Method::GET, "/api/me").header(COOKIE, cookie)).await;
    assert_eq!((me.status, &me.body["person"]), (200, &json!("ann")), "whoever is in stays in");
    let without = self::fixture(tidemill_api::SignIn::default()).await;
    assert_eq!(send(without.0.open(Method::GET, "/api/sign-in/oidc")).await.code(), (404, "no_provider"));
    let options = send(without.0.open(Method::GET, "/api/sign-in")).await.body;
    assert_eq!(options, json!({"password": true}));
}
