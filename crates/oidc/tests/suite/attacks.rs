//! ID tokens and answers that somebody forged (API-5): each is refused, with its reason.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemill_oidc::{Begun, Error, Provider, SignedIn};

use crate::kit::signer::{EC, ED, OTHER_RSA, RSA, Signer, encoded, unsigned};
use crate::kit::stub::{DISCOVERY, KEYS, Stub, TOKEN, USER_INFO};
use crate::kit::{parameter, provider};

/// What a test changes before it is signed.
struct Forged {
    header: Value,
    claims: Value,
    signer: &'static Signer,
}

struct Ground {
    stub: Stub,
    provider: Provider,
    now: Timestamp,
}

impl Ground {
    async fn open(more: &Value) -> Self {
        let stub = Stub::open().await;
        let provider = provider(&stub.issuer, more);
        Self { stub, provider, now: Timestamp::now() }
    }

    /// A good token of this sign-in.
    fn good(&self, begun: &Begun) -> Forged {
        let now = self.now.as_second();
        let claims = json!({
            "iss": self.stub.issuer,
            "aud": "tidemill",
            "sub": "subject 7",
            "iat": now,
            "exp": now + 300,
            "nonce": parameter(&begun.url, "nonce").unwrap(),
            "preferred_username": "ann",
            "email": "ann@example.org",
        });
        Forged { header: json!({"alg": "RS256", "kid": "rsa", "typ": "JWT"}), claims, signer: &RSA }
    }

    async fn finish(&self, begun: &Begun) -> Result<SignedIn, Error> {
        let state = parameter(&begun.url, "state").unwrap();
        self.provider.finish(&begun.pending, "code", &state, self.now).await
    }

    /// Signs in with a token that `forge` made of a good one.
    async fn sign_in_with(&self, forge: impl FnOnce(Forged) -> String) -> Result<SignedIn, Error> {
        let begun = self.provider.begin(self.now).await.unwrap();
        self.stub.gives(&forge(self.good(&begun)));
        self.finish(&begun).await
    }

    async fn sign_in(&self, forge: impl FnOnce(&mut Forged, i64)) -> Result<SignedIn, Error> {
        let now = self.now.as_second();
        self.sign_in_with(|mut forged| {
            forge(&mut forged, now);
            forged.signer.token(&forged.header, &forged.claims)
        })
        .await
    }
}

/// The reason of a refusal; anything else fails the test.
fn reason(result: Result<SignedIn, Error>) -> String {
    match result {
        Err(Error::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Changes a good token; now, in seconds, is beside it.
type Forge = fn(&mut Forged, i64);
/// Makes a token of a good one.
type Made = fn(Forged) -> String;

/// API-5: what the tests forge is good before they do.
#[tokio::test]
async fn good_tokens_are_accepted() {
    let ground = Ground::open(&json!({})).await;
    let good: &[(&str, Forge)] = &[
        ("as it is", |_, _| ()),
        ("ES256", |it, _| (it.header, it.signer) = (json!({"alg": "ES256", "kid": "ec"}), &EC)),
        ("EdDSA", |it, _| (it.header, it.signer) = (json!({"alg": "EdDSA", "kid": "ed"}), &ED)),
        ("a list of one client", |it, _| it.claims["aud"] = json!(["tidemill"])),
        ("several clients, given to us", |it, _| {
            it.claims["aud"] = json!(["other", "tidemill"]);
            it.claims["azp"] = json!("tidemill");
        }),
        ("over for less than a minute", |it, now| it.claims["exp"] = json!(now - 58)),
        ("of the next minute", |it, now| it.claims["iat"] = json!(now + 58)),
        ("with parts of seconds", |it, now| it.claims["exp"] = json!(now as f64 + 0.5)),
    ];
    for (what, forge) in good {
        let person = ground.sign_in(forge).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert_eq!((person.subject.as_str(), person.name.as_str()), ("subject 7", "ann"), "{what}");
        assert_eq!(person.mail.as_deref(), Some("ann@example.org"));
    }
    assert_eq!(ground.stub.asked(KEYS).len(), 1);
    assert_eq!(ground.stub.asked(DISCOVERY).len(), 1);
    assert!(ground.stub.asked(USER_INFO).is_empty(), "nothing was lacking");
}

/// API-5: claims that are not for us, not of now, or not of this sign-in.
#[tokio::test]
async fn tokens_with_wrong_claims_are_refused() {
    let ground = Ground::open(&json!({})).await;
    let bad: &[(&str, Forge, &str)] = &[
        ("no issuer", |it, _| it.claims["iss"] = json!(null), "no claim iss"),
        ("another issuer", |it, _| it.claims["iss"] = json!("https://id.example.org"), "is of issuer"),
        ("a list of issuers", |it, _| it.claims["iss"] = json!([it.claims["iss"]]), "no claim iss"),
        ("no audience", |it, _| it.claims["aud"] = json!(null), "no claim aud"),
        ("an empty audience", |it, _| it.claims["aud"] = json!([]), "for another client"),
        ("another audience", |it, _| it.claims["aud"] = json!("other"), "for another client"),
        ("other audiences", |it, _| it.claims["aud"] = json!(["other", "more"]), "for another client"),
        ("no texts", |it, _| it.claims["aud"] = json!(["tidemill", 7]), "no claim aud"),
        ("several, given to nobody", |it, _| it.claims["aud"] = json!(["tidemill", "other"]), "(azp)"),
        ("given to another client", |it, _| it.claims["azp"] = json!("other"), "(azp)"),
        (
            "several, given to another",
            |it, _| {
                it.claims["aud"] = json!(["tidemill", "other"]);
                it.claims["azp"] = json!("other");
            },
            "(azp)",
        ),
        ("no end", |it, _| it.claims["exp"] = json!("never"), "no claim exp"),
        ("over", |it, now| it.claims["exp"] = json!(now - 61), "has expired"),
        ("no beginning", |it, _| it.claims["iat"] = json!(null), "no claim iat"),
        ("of later", |it, now| it.claims["iat"] = json!(now + 62), "not good yet"),
        ("not before later", |it, now| it.claims["nbf"] = json!(now + 62), "not good yet"),
        ("no nonce", |it, _| it.claims["nonce"] = json!(null), "no claim nonce"),
        ("another nonce", |it, _| it.claims["nonce"] = json!("another"), "(nonce)"),
        ("no subject", |it, _| it.claims["sub"] = json!(null), "no claim sub"),
        ("an empty subject", |it, _| it.claims["sub"] = json!(""), "no claim sub"),
        ("a long subject", |it, _| it.claims["sub"] = json!("x".repeat(256)), "no claim sub"),
    ];
    for (what, forge, expected) in bad {
        let reason = reason(ground.sign_in(forge).await);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
}

/// API-5: signatures that are none, are another's, or are of what anybody can know.
#[tokio::test]
async fn tokens_with_wrong_signatures_are_refused() {
    let ground = Ground::open(&json!({})).await;
    let bad: &[(&str, Forge, &str)] = &[
        ("another key of the type", |it, _| it.signer = &OTHER_RSA, "signature"),
        ("a key of another type", |it, _| it.signer = &ED, "signature"),
        ("the algorithm of another key", |it, _| it.header["alg"] = json!("ES256"), "is none for that"),
        ("the key of another algorithm", |it, _| it.header["kid"] = json!("ec"), "is none for that"),
        ("an unknown key", |it, _| it.header["kid"] = json!("unknown"), "does not publish"),
        ("a key of an unknown type", |it, _| it.header["kid"] = json!("new"), "is none for that"),
        ("a key that enciphers", |it, _| it.header["kid"] = json!("enciphers"), "is none for that"),
        ("a key of another hash", |it, _| it.header["kid"] = json!("longer"), "is none for that"),
        ("no key", |it, _| it.header["kid"] = json!(null), "does not publish"),
        (
            "its own key",
            |it, _| {
                it.header = json!({"alg": "RS256", "kid": "mine", "jwk": OTHER_RSA.jwk("mine")});
                it.signer = &OTHER_RSA;
            },
            "does not publish",
        ),
        ("another hash", |it, _| it.header["alg"] = json!("RS512"), "is signed by \"RS512\""),
        ("another padding", |it, _| it.header["alg"] = json!("PS256"), "is signed by \"PS256\""),
        ("no algorithm", |it, _| it.header["alg"] = json!(null), "cannot be read"),
        ("a header to be understood", |it, _| it.header["crit"] = json!(["exp"]), "cannot be read"),
    ];
    for (what, forge, expected) in bad {
        let reason = reason(ground.sign_in(forge).await);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
}

/// API-5: neither unsigned, nor signed with the public key as if it was a secret, nor cut or changed.
#[tokio::test]
async fn tokens_that_are_put_together_are_refused() {
    fn by_hmac(mut it: Forged, secret: &[u8]) -> String {
        it.header["alg"] = json!("HS256");
        let message = unsigned(&it.header, &it.claims);
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
        let signature = aws_lc_rs::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", encoded(signature.as_ref()))
    }
    fn without(mut it: Forged, alg: &str) -> String {
        it.header["alg"] = json!(alg);
        format!("{}.", unsigned(&it.header, &it.claims))
    }
    fn signed(it: &Forged) -> String {
        it.signer.token(&it.header, &it.claims)
    }
    let ground = Ground::open(&json!({"client_secret": "secret"})).await;
    let bad: &[(&str, Made, &str)] = &[
        ("none", |it| without(it, "none"), "is signed by \"none\""),
        ("None", |it| without(it, "None"), "is signed by \"None\""),
        ("the public key as a secret", |it| by_hmac(it, &RSA.public()), "is signed by \"HS256\""),
        ("the client's secret", |it| by_hmac(it, b"secret"), "is signed by \"HS256\""),
        ("no signature", |it| without(it, "RS256"), "signature"),
        ("a cut signature", |it| signed(&it)[..signed(&it).len() - 6].to_owned(), "signature"),
        ("two parts", |it| unsigned(&it.header, &it.claims), "three parts"),
        ("four parts", |it| format!("{}.x", signed(&it)), "three parts"),
        ("nothing", |_| String::new(), "three parts"),
        ("dots", |_| "..".to_owned(), "cannot be read"),
        ("no base64", |it| format!("!{}", signed(&it)), "not in base64url"),
        (
            "other claims",
            |mut it| {
                let token = signed(&it);
                it.claims["preferred_username"] = json!("root");
                format!("{}.{}", unsigned(&it.header, &it.claims), token.rsplit('.').next().unwrap())
            },
            "signature",
        ),
    ];
    for (what, forge, expected) in bad {
        let reason = reason(ground.sign_in_with(forge).await);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
}

/// API-5: the answer to another sign-in, or to one that was begun long ago, is refused before the provider hears of it.
#[tokio::test]
async fn answers_of_other_or_old_sign_ins_are_refused() {
    let ground = Ground::open(&json!({})).await;
    let (mine, yours) =
        (ground.provider.begin(ground.now).await.unwrap(), ground.provider.begin(ground.now).await.unwrap());
    let state = |begun: &Begun| parameter(&begun.url, "state").unwrap();
    let late = ground.now + SignedDuration::from_secs(601);
    for (what, state, code, at, expected) in [
        ("the state of another", state(&yours), "code", ground.now, "another sign-in"),
        ("no state", String::new(), "code", ground.now, "another sign-in"),
        ("too late", state(&mine), "code", late, "10 minutes"),
        ("no code", state(&mine), "", ground.now, "the code has to be"),
        ("no characters", state(&mine), "a\nb", ground.now, "the code has to be"),
        ("a long code", state(&mine), &"x".repeat(4_097), ground.now, "the code has to be"),
    ] {
        let reason = reason(ground.provider.finish(&mine.pending, code, &state, at).await);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
    assert!(ground.stub.asked(TOKEN).is_empty());
    // The token of another sign-in in this one.
    let token = ground.good(&yours);
    ground.stub.gives(&token.signer.token(&token.header, &token.claims));
    assert!(reason(ground.finish(&mine).await).contains("(nonce)"));
}

/// API-5: userinfo completes the ID token where it is of the same subject, and only there.
#[tokio::test]
async fn userinfo_of_another_subject_is_refused() {
    let more = json!({"department_claim": "groups", "departments": {"risk": "risk"}});
    let ground = Ground::open(&more).await;
    ground
        .stub
        .says(USER_INFO, &json!({"sub": "subject 7", "groups": ["risk"], "preferred_username": "root"}));
    let person = ground.sign_in(|_, _| ()).await.unwrap();
    assert_eq!(person.name.as_str(), "ann", "what the ID token says counts");
    assert_eq!(person.departments.unwrap().len(), 1);
    assert_eq!(ground.stub.asked(USER_INFO)[0].authorization.as_deref(), Some("Bearer access"));
    for other in [json!({"sub": "subject 8", "groups": ["risk"]}), json!({"groups": ["risk"]})] {
        ground.stub.says(USER_INFO, &other);
        assert!(reason(ground.sign_in(|_, _| ()).await).contains("another subject"));
    }
}

/// API-5: a provider that changes its keys is asked for them again, and one that signs with unknown ones once a minute.
#[tokio::test]
async fn unknown_keys_are_asked_for_once_a_minute() {
    let ground = Ground::open(&json!({})).await;
    let fetched = || ground.stub.asked(KEYS).len();
    ground.sign_in(|_, _| ()).await.unwrap();
    assert_eq!(fetched(), 1);
    ground.stub.says(KEYS, &json!({"keys": [OTHER_RSA.jwk("next")]}));
    let next = |it: &mut Forged, _| (it.header["kid"], it.signer) = (json!("next"), &OTHER_RSA);
    ground.sign_in(next).await.unwrap();
    assert_eq!(fetched(), 2);
    for _ in 0..3 {
        assert!(reason(ground.sign_in(|_, _| ()).await).contains("does not publish"), "the old key is gone");
    }
    assert_eq!(fetched(), 2);
}
