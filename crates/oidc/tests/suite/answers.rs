//! What a provider can answer (API-5): later, never, or not like this.

use jiff::Timestamp;
use serde_json::json;
use tidemill_oidc::{Asked, Error, Fault, Provider, Refusal};

use crate::kit::stub::{DISCOVERY, KEYS, Stub, TOKEN};
use crate::kit::{REDIRECT, encrypted, parameter, provider};

async fn begin_error(stub: &Stub) -> Error {
    provider(&stub.issuer, &json!({})).begin(Timestamp::now()).await.unwrap_err()
}

/// Begins well, then finishes.
async fn finish_error(stub: &Stub) -> Error {
    let (provider, now) = (provider(&stub.issuer, &json!({"client_secret": "s"})), Timestamp::now());
    let begun = provider.begin(now).await.unwrap();
    let state = parameter(&begun.url, "state").unwrap();
    provider.finish(&begun.pending, "code", &state, now).await.unwrap_err()
}

/// API-5: what the browser is sent with is what a code flow with PKCE has.
#[tokio::test]
async fn browser_is_sent_with_all_that_the_flow_needs() {
    let stub = Stub::open().await;
    let mut document = stub.document();
    document["authorization_endpoint"] = json!(format!("{}/auth?tenant=7", stub.issuer));
    stub.says(DISCOVERY, &document);
    let provider = provider(&stub.issuer, &json!({}));
    let begun = provider.begin(Timestamp::now()).await.unwrap();
    assert!(begun.url.starts_with(&format!("{}/auth?tenant=7&", stub.issuer)));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "tidemill"),
        ("redirect_uri", REDIRECT),
        ("scope", "openid profile email groups"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(parameter(&begun.url, name).as_deref(), Some(value), "{name}");
    }
    let pending = serde_json::to_value(&begun.pending).unwrap();
    for (name, is_told) in [("state", true), ("nonce", true), ("verifier", false)] {
        assert_eq!(begun.url.contains(pending[name].as_str().unwrap()), is_told, "{name}");
    }
}

/// API-5: the verifier and the secret go to the token endpoint, as it takes them.
#[tokio::test]
async fn token_endpoint_gets_code_verifier_and_secret() {
    let stub = Stub::open().await;
    stub.answers(TOKEN, 400, json!({"error": "invalid_grant", "error_description": "too\nlate"}).to_string());
    let error = finish_error(&stub).await;
    assert!(
        matches!(&error, Error::Refused(Refusal::Code { said }) if said == "invalid_grant (toolate)"),
        "{error:?}"
    );
    let asked = stub.asked(TOKEN).remove(0);
    assert_eq!(asked.authorization.as_deref(), Some("Basic dGlkZW1pbGw6cw=="));
    let form = format!("http://form/?{}", asked.body);
    assert_eq!(parameter(&form, "grant_type").as_deref(), Some("authorization_code"));
    assert_eq!(parameter(&form, "code").as_deref(), Some("code"));
    assert_eq!(parameter(&form, "redirect_uri").as_deref(), Some(REDIRECT));
    assert_eq!(parameter(&form, "code_verifier").unwrap().len(), 43);
    assert_eq!((parameter(&form, "client_id"), parameter(&form, "client_secret")), (None, None));

    let mut document = stub.document();
    document["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    stub.says(DISCOVERY, &document);
    finish_error(&stub).await;
    let asked = stub.asked(TOKEN).remove(1);
    assert_eq!(asked.authorization, None);
    assert!(asked.body.ends_with("&client_id=tidemill&client_secret=s"), "{}", asked.body);
}

/// API-5: a provider that has no time now is asked later.
#[tokio::test]
async fn errors_of_the_provider_are_passing() {
    let stub = Stub::open().await;
    for status in [408, 429, 500, 502, 503] {
        stub.answers(TOKEN, status, "busy".to_owned());
        let error = finish_error(&stub).await;
        assert!(matches!(error, Error::Away { asked: Asked::Tokens, .. }), "{status}: {error:?}");
    }
    stub.answers(DISCOVERY, 503, "busy".to_owned());
    assert!(matches!(begin_error(&stub).await, Error::Away { asked: Asked::Discovery, .. }));
}

/// API-5: answers that no provider gives are told as a matter of settings: too long ones, redirects, other documents.
#[tokio::test]
async fn answers_that_are_no_provider_s_are_told() {
    let long = "x".repeat((256 << 10) + 1);
    let stub = Stub::open().await;
    stub.answers(DISCOVERY, 200, long.clone());
    let error = begin_error(&stub).await;
    assert!(
        matches!(error, Error::Misconfigured(Fault::TooLong { asked: Asked::Discovery, .. })),
        "{error:?}"
    );
    stub.answers(DISCOVERY, 302, format!("{}/elsewhere", stub.issuer));
    let error = begin_error(&stub).await;
    assert!(matches!(error, Error::Misconfigured(Fault::Redirect { asked: Asked::Discovery })), "{error:?}");
    assert!(stub.asked("/elsewhere").is_empty());
    stub.answers(DISCOVERY, 404, "no\u{7} such page".to_owned());
    let error = begin_error(&stub).await;
    assert!(
        matches!(&error, Error::Misconfigured(Fault::Status { status: 404, said, .. }) if said == "no such page")
    );
    stub.answers(DISCOVERY, 200, "<html>".to_owned());
    let error = begin_error(&stub).await;
    assert!(
        matches!(error, Error::Misconfigured(Fault::Unreadable { asked: Asked::Discovery, .. })),
        "{error:?}"
    );
    stub.says(DISCOVERY, &{
        let mut document = stub.document();
        document["issuer"] = json!("https://id.example.org");
        document
    });
    let error = begin_error(&stub).await;
    assert!(matches!(error, Error::Misconfigured(Fault::Issuer { .. })), "{error:?}");
}

/// API-5: the same for what is asked behind the sign-in page.
#[tokio::test]
async fn answers_behind_the_page_are_bounded() {
    let long = "x".repeat((256 << 10) + 1);
    let stub = Stub::open().await;
    stub.answers(TOKEN, 200, long.clone());
    let error = finish_error(&stub).await;
    assert!(matches!(error, Error::Misconfigured(Fault::TooLong { asked: Asked::Tokens, .. })), "{error:?}");
    stub.answers(TOKEN, 307, stub.issuer.clone());
    let error = finish_error(&stub).await;
    assert!(matches!(error, Error::Misconfigured(Fault::Redirect { asked: Asked::Tokens })), "{error:?}");
    stub.says(TOKEN, &json!({"access_token": "a"}));
    let error = finish_error(&stub).await;
    assert!(
        matches!(error, Error::Misconfigured(Fault::Unreadable { asked: Asked::Tokens, .. })),
        "{error:?}"
    );
    for (said, status) in [("invalid_client", 401), ("unauthorized_client", 400)] {
        stub.answers(TOKEN, status, json!({"error": said}).to_string());
        let error = finish_error(&stub).await;
        assert!(matches!(error, Error::Misconfigured(Fault::ClientRefused { .. })), "{error:?}");
    }
    stub.answers(KEYS, 200, long);
    stub.gives("eyJhbGciOiJSUzI1NiJ9.x.x");
    let error = finish_error(&stub).await;
    assert!(matches!(error, Error::Misconfigured(Fault::TooLong { asked: Asked::Keys, .. })), "{error:?}");
}

/// API-5: an encrypted provider is trusted by the given file, and by what the machine trusts without it; an unknown one is
/// told nothing.
#[tokio::test]
async fn only_a_trusted_provider_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = encrypted::certificate(directory.path());
    let stub = Stub::open_behind(async |address| {
        format!("https://{}", encrypted::in_front_of(address, &certificate, &key).await)
    })
    .await;
    let error = begin_error(&stub).await;
    let Error::Misconfigured(fault @ Fault::Encryption { .. }) = error else { panic!("{error:?}") };
    assert!(fault.to_string().contains("ca_file"), "{fault}");
    assert!(stub.asked(DISCOVERY).is_empty());

    let trusting = provider(&stub.issuer, &json!({"ca_file": certificate}));
    let begun = tokio::spawn(async move { trusting.begin(Timestamp::now()).await }).await.unwrap();
    assert!(begun.unwrap().url.starts_with("https://"));

    let settings = json!({
        "issuer": stub.issuer, "client_id": "tidemill", "redirect_url": REDIRECT, "ca_file": key,
    });
    let error = Provider::new(serde_json::from_value(settings).unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Misconfigured(Fault::Setting(it)) if it.field == "ca_file"), "{error:?}");
}
