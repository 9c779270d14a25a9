//! The keys that the provider signs with.

use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::http::{Http, send};
use crate::{Asked, Error};

/// What signs an ID token. There are no others: neither `none`, nor what is signed with a secret that both sides have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    Rs256,
    Es256,
    EdDsa,
}

impl Signs {
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Rs256, Self::Es256, Self::EdDsa].into_iter().find(|it| it.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    pub(crate) const fn algorithm(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }

    /// Whether it is what a key is for.
    fn fits(self, key: &Jwk) -> bool {
        let is_type = match (self, &key.algorithm) {
            (Self::Rs256, AlgorithmParameters::RSA(_)) => true,
            (Self::Es256, AlgorithmParameters::EllipticCurve(it)) => it.curve == EllipticCurve::P256,
            (Self::EdDsa, AlgorithmParameters::OctetKeyPair(it)) => it.curve == EllipticCurve::Ed25519,
            _ => false,
        };
        let says = key.common.key_algorithm;
        is_type
            && says.is_none_or(|says| says == KeyAlgorithm::from(self.algorithm()))
            && key.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature)
    }
}

/// A set of keys (RFC 7517).
pub(crate) struct Keys(Vec<Jwk>);

/// What a set has of a key.
pub(crate) enum Found<'a> {
    Key(&'a Jwk),
    OfAnotherType,
    Nothing,
}

impl Keys {
    pub(crate) async fn fetch(http: &Http, url: &Url) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document = send(Asked::Keys, http.get(url)).await?.good()?;
        // A key of a kind that nobody knows yet is no reason to refuse the others (section 5).
        let known = document.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(known.collect()))
    }

    pub(crate) fn find(&self, kid: &str, signs: Signs) -> Found<'_> {
        let mut named = self.0.iter().filter(|key| key.common.key_id.as_deref() == Some(kid)).peekable();
        if named.peek().is_none() {
            return Found::Nothing;
        }
        named.find(|key| signs.fits(key)).map_or(Found::OfAnotherType, Found::Key)
    }
}
