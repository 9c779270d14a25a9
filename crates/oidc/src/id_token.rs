//! The ID token: what is checked before a word of it counts (OpenID Connect Core 3.1.3.7).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{DecodingKey, Validation, decode};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use crate::Refusal;
use crate::claims::Claims;
use crate::error::brief;
use crate::keys::Signs;

/// So far may the clocks of provider and machine be apart, seconds.
const LEEWAY_S: f64 = 60.0;
/// Of a subject (OpenID Connect Core, section 2).
const SUBJECT_BYTES: usize = 255;

/// What the token says of its signature. It is used to find the key, and for nothing else.
pub(crate) struct Header {
    pub(crate) signs: Signs,
    pub(crate) kid: String,
}

/// What the token has to say.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) now: Timestamp,
}

impl Header {
    pub(crate) fn of(token: &str) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Written {
            alg: String,
            kid: Option<String>,
        }
        let refused = |why: &str| Refusal::Token { why: why.to_owned() };
        let [header, _, _] = token.split('.').collect::<Vec<_>>()[..] else {
            return Err(refused("it has to have three parts"));
        };
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| refused("its header is not in base64url"))?;
        let written: Written =
            serde_json::from_slice(&header).map_err(|error| refused(&brief(&error.to_string())))?;
        let signs =
            Signs::named(&written.alg).ok_or_else(|| Refusal::Algorithm { alg: brief(&written.alg) })?;
        Ok(Self { signs, kid: written.kid.unwrap_or_default() })
    }
}

/// The claims of a token that was signed with the key, for us, now, in this sign-in; and its subject.
pub(crate) fn verify(
    token: &str,
    signs: Signs,
    key: &Jwk,
    expected: &Expected<'_>,
) -> Result<(String, Claims), Refusal> {
    let claims = signed(token, signs, key)?;
    let issuer = text(&claims, "iss")?;
    if issuer != expected.issuer {
        return Err(Refusal::Issuer { said: brief(issuer) });
    }
    check_audience(&claims, expected.client_id)?;
    check_times(&claims, expected.now)?;
    let is_ours: bool = text(&claims, "nonce")?.as_bytes().ct_eq(expected.nonce.as_bytes()).into();
    if !is_ours {
        return Err(Refusal::Nonce);
    }
    let subject = text(&claims, "sub")?;
    if !(1..=SUBJECT_BYTES).contains(&subject.len()) {
        return Err(Refusal::Claim { claim: "sub" });
    }
    Ok((subject.to_owned(), claims))
}

/// Only the signature is left to the library; with what it refuses besides: headers that have to be understood, and are
/// not.
fn signed(token: &str, signs: Signs, key: &Jwk) -> Result<Claims, Refusal> {
    let unreadable = |error: jsonwebtoken::errors::Error| Refusal::Token { why: brief(&error.to_string()) };
    let key = DecodingKey::from_jwk(key).map_err(unreadable)?;
    let mut validation = Validation::new(signs.algorithm());
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let decoded = decode::<Claims>(token, &key, &validation).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => Refusal::Signature,
        _ => unreadable(error),
    })?;
    Ok(decoded.claims)
}

fn text<'a>(claims: &'a Claims, claim: &'static str) -> Result<&'a str, Refusal> {
    claims.get(claim).and_then(Value::as_str).ok_or(Refusal::Claim { claim })
}

/// It is for us; where it is for others as well, it was given to us.
fn check_audience(claims: &Claims, client_id: &str) -> Result<(), Refusal> {
    let all: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => {
            all.iter().map(Value::as_str).collect::<Option<_>>().ok_or(Refusal::Claim { claim: "aud" })?
        }
        _ => return Err(Refusal::Claim { claim: "aud" }),
    };
    if !all.contains(&client_id) {
        return Err(Refusal::Audience);
    }
    match claims.get("azp") {
        None if all.len() == 1 => Ok(()),
        Some(azp) if azp == client_id => Ok(()),
        None | Some(_) => Err(Refusal::AuthorizedParty),
    }
}

fn check_times(claims: &Claims, now: Timestamp) -> Result<(), Refusal> {
    let seconds = |claim| match claims.get(claim) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(Refusal::Claim { claim }),
    };
    let required = |claim| seconds(claim)?.ok_or(Refusal::Claim { claim });
    let now = now.as_duration().as_secs_f64();
    let (expires, issued) = (required("exp")?, required("iat")?);
    if now >= expires + LEEWAY_S {
        return Err(Refusal::Expired);
    }
    let not_before = seconds("nbf")?.unwrap_or(issued);
    if issued.max(not_before) > now + LEEWAY_S {
        return Err(Refusal::NotYet);
    }
    Ok(())
}
