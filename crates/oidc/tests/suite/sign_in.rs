//! A real provider, from its first page to its last (API-5).

use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use tidemill_model::Role;
use tidemill_oidc::{Admission, Asked, Begun, Error, Fault, Pending, Provider, Refusal, SignedIn};

use crate::kit::browser::sent_back;
use crate::kit::parameter;
use crate::kit::real::{Own, client, issuer, secret};

fn shared(client_id: &str) -> Provider {
    client(&issuer(), client_id, Some(&secret(client_id)))
}

/// What the browser brings back.
struct Back {
    pending: Pending,
    code: String,
    state: String,
}

async fn sign_in(begun: Begun, login: &str) -> Back {
    let url = sent_back(&begun.url, login).await;
    let part = |name| parameter(url.as_str(), name).unwrap_or_else(|| panic!("{name} in {url}"));
    Back { pending: begun.pending, code: part("code"), state: part("state") }
}

async fn come_back(provider: &Provider, login: &str) -> Back {
    sign_in(provider.begin(Timestamp::now()).await.unwrap(), login).await
}

async fn finish(provider: &Provider, back: &Back) -> Result<SignedIn, Error> {
    may_go_on_elsewhere(provider.finish(&back.pending, &back.code, &back.state, Timestamp::now())).await
}

/// An interface awaits it on any of its threads.
fn may_go_on_elsewhere<F: Future + Send>(future: F) -> F {
    future
}

fn is_code_refused(result: Result<SignedIn, Error>) -> bool {
    match result {
        Err(Error::Refused(Refusal::Code { said })) => said.contains("invalid_grant"),
        other => panic!("{other:?}"),
    }
}

/// API-5: name, mail, role and departments are those that the provider says; who is in no group is told from whom the
/// provider says nothing of.
#[tokio::test]
async fn people_sign_in_with_what_the_provider_says() {
    let provider = shared("tidemill");
    let admin = Some(Admission::As(Role::Administrator));
    for (login, role, departments) in [
        ("ann", admin, Some(vec!["analytics"])),
        ("ben", admin, Some(vec!["analytics", "market-risk"])),
        ("cem", Some(Admission::Denied), Some(vec![])),
        ("dee", None, None),
    ] {
        let back = come_back(&provider, login).await;
        let person = finish(&provider, &back).await.unwrap();
        assert_eq!((person.subject.as_str(), person.name.as_str()), (login, login));
        assert_eq!(person.mail, Some(format!("{login}@example.org")));
        assert_eq!(person.role, role, "{login}");
        let found = person.departments.as_ref();
        assert_eq!(found.map(|all| all.iter().map(|it| it.as_str()).collect()), departments, "{login}");
    }
}

/// API-5: tokens by RSA, by elliptic curves and by Ed25519; clients with a secret and without one.
#[tokio::test]
async fn clients_of_every_kind_are_served() {
    for provider in [shared("tidemill-es256"), client(&issuer(), "tidemill-public", None)] {
        let back = come_back(&provider, "ann").await;
        assert_eq!(finish(&provider, &back).await.unwrap().name.as_str(), "ann");
    }
}

/// API-5: a code is good once, for the client that asked, and in the browser that began.
#[tokio::test]
async fn codes_are_good_once_for_their_client_and_browser() {
    let (provider, other) = (shared("tidemill"), shared("tidemill-es256"));
    let back = come_back(&provider, "ann").await;
    finish(&provider, &back).await.unwrap();
    assert!(is_code_refused(finish(&provider, &back).await), "a used code");

    let back = come_back(&provider, "ann").await;
    assert!(is_code_refused(finish(&other, &back).await), "a code of another client");

    let mut back = come_back(&provider, "ann").await;
    let mut sealed: Value = serde_json::to_value(&back.pending).unwrap();
    let foreign = provider.begin(Timestamp::now()).await.unwrap().pending;
    sealed["verifier"] = serde_json::to_value(foreign).unwrap()["verifier"].clone();
    back.pending = serde_json::from_value::<Pending>(sealed).unwrap();
    assert!(is_code_refused(finish(&provider, &back).await), "another browser's verifier");

    let (mine, yours) = (come_back(&provider, "ann").await, come_back(&provider, "ben").await);
    let crossed = Back { pending: mine.pending.clone(), code: yours.code.clone(), state: yours.state };
    assert!(matches!(finish(&provider, &crossed).await, Err(Error::Refused(Refusal::State))));
    let crossed = Back { pending: mine.pending, code: yours.code, state: mine.state };
    assert!(is_code_refused(finish(&provider, &crossed).await), "another browser's code");
    let nonsense = Back { code: "nonsense".to_owned(), ..come_back(&provider, "ann").await };
    assert!(is_code_refused(finish(&provider, &nonsense).await), "what is no code");
}

/// API-5: a wrong secret is no fault of the person who signs in.
#[tokio::test]
async fn wrong_secret_is_told_as_such() {
    let provider = client(&issuer(), "tidemill", Some("wrong"));
    let back = come_back(&provider, "ann").await;
    let error = finish(&provider, &back).await.unwrap_err();
    let Error::Misconfigured(Fault::ClientRefused { said }) = error else { panic!("{error:?}") };
    assert!(said.contains("invalid_client"), "{said}");
}

/// API-5: a secret is sent in the body where the provider takes it there only; a provider that is gone is told as away,
/// in the middle of a sign-in and before its first one.
#[tokio::test]
async fn provider_that_is_gone_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let own = Own::start(directory.path(), "client_secret_post");
    let connect = || client(&own.issuer, "tidemill", Some(&secret("tidemill")));
    let (provider, unused) = (connect(), connect());
    let back = come_back(&provider, "ben").await;
    assert_eq!(finish(&provider, &back).await.unwrap().name.as_str(), "ben");

    let back = come_back(&provider, "ben").await;
    own.stop();
    let begun_at = Instant::now();
    let error = finish(&provider, &back).await.unwrap_err();
    assert!(matches!(error, Error::Away { asked: Asked::Tokens, .. }), "{error:?}");
    // What it was asked with is in no error.
    let shown = format!("{error:?}");
    assert!(![back.code, secret("tidemill")].iter().any(|it| shown.contains(it.as_str())), "{shown}");
    let error = unused.begin(Timestamp::now()).await.unwrap_err();
    assert!(matches!(error, Error::Away { asked: Asked::Discovery, .. }), "{error:?}");
    assert!(begun_at.elapsed().as_secs() < 20);
}
