//! What the tests have in common.

pub(crate) mod browser;
pub(crate) mod encrypted;
pub(crate) mod real;
pub(crate) mod signer;
pub(crate) mod stub;

use serde_json::{Value, json};
use tidemill_oidc::{Provider, Settings};

pub(crate) use self::browser::REDIRECT;

/// A provider of this issuer, with what differs from the least settings.
pub(crate) fn provider(issuer: &str, more: &Value) -> Provider {
    let mut settings = json!({"issuer": issuer, "client_id": "tidemill", "redirect_url": REDIRECT});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Provider::new(serde_json::from_value::<Settings>(settings).unwrap()).unwrap()
}

/// A parameter of an address.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let url = url::Url::parse(url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
