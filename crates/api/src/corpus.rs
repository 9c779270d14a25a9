//! Headers, parameters and bodies as anybody may send them, before a call is looked for.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tidemill_corpus::corpus;

use crate::auth::{Credentials, user_of};
use crate::credential::Secret;
use crate::params::is_text;
use crate::secret::{hash_of, is_equal};
use crate::unique::Unique;
use crate::view::DeadLetterPlace;

/// The lines as headers; what is none is left out.
fn headers(input: &[u8]) -> HeaderMap {
    let header = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
    };
    input.split(|byte| *byte == b'\n').filter_map(header).collect()
}

/// API-5: credentials are shown by one of two forms and mean the same in both; a secret counts by its hash alone, and only as a
/// whole.
#[test]
fn credentials_are_none_or_the_same_in_both_forms() {
    corpus!("credential").fuzz(1_000, |input| {
        let headers = headers(input);
        assert!(user_of(&headers).is_none_or(|user: Arc<str>| user.chars().count() <= 200));
        let (app, secret) = match Credentials::from_headers(&headers) {
            Some(Credentials::Key { app, secret }) => (app, secret),
            Some(Credentials::Own(token)) => return assert!(Secret::read(&token.text()) == Some(token)),
            None => return,
        };
        let hash = hash_of(&secret);
        assert!(hash.len() == 64 && is_equal(&hash, &hash_of(&secret)));
        assert!(!is_equal(&hash, &hash_of(&format!("{secret}."))) && !is_equal(&hash, ""));
        // An application's name has no colon, and what surrounds a header is no part of it.
        if app.contains(':') || app.trim() != app || secret.trim() != secret {
            return;
        }
        let mut shown = HeaderMap::new();
        shown.insert("authorization", format!("Bearer {app}:{secret}").parse().unwrap());
        match Credentials::from_headers(&shown).expect("it is one") {
            Credentials::Key { app: again, secret: same } => assert_eq!((again, same), (app, secret)),
            Credentials::Own(_) => panic!("a token has no colon"),
        }
    });
}

/// A body without names given twice is read as it is; one with such names is refused.
#[test]
fn bodies_are_refused_or_read_as_they_are() {
    corpus!("body").fuzz(1_000, |input| {
        let plain = serde_json::from_slice::<Value>(input);
        let Ok(Unique(read)) = serde_json::from_slice::<Unique>(input) else { return };
        assert_eq!(plain.ok().as_ref(), Some(&read));
        let written = serde_json::to_vec(&read).unwrap();
        assert_eq!(serde_json::from_slice::<Unique>(&written).map(|Unique(value)| value).unwrap(), read);
    });
}

/// Texts in addresses: what stands percent-encoded, and the places of dead letters.
#[test]
fn texts_of_addresses_are_refused_or_kept() {
    corpus!("address").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let encoded: String = input.iter().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(is_text(&encoded), std::str::from_utf8(input).is_ok(), "{encoded}");
        is_text(&text);
        if let Ok(place) = text.parse::<DeadLetterPlace>() {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
    });
}
