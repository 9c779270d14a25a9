//! How what a person signs in with is written: `tm_` (a token), `ts_` (a session) or `ti_` (an invitation), the id, the secret
//! and a checksum, by which a text that is no credential is told from one without a look at the journal.

use tidemill_model::{CredentialId, CredentialKind, bounds};

use crate::secret::hash_of;

/// As the record names whoever is signed in.
pub(crate) const SESSION: &str = "session";
/// The same of what the provider says by whom people sign in.
pub(crate) const PROVIDER: &str = "identity-provider";
/// 165 bits.
const SECRET_CHARS: usize = 32;
const CHECKSUM_CHARS: usize = 6;
const SIGNS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A credential with its secret, as it is shown once and then by its owner.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) kind: CredentialKind,
    pub(crate) id: CredentialId,
    secret: String,
}

fn prefix(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Token => "tm_",
        CredentialKind::Session => "ts_",
        CredentialKind::Invitation => "ti_",
    }
}

fn checksum(id: &str, secret: &str) -> String {
    hash_of(&format!("{id}{secret}")).chars().take(CHECKSUM_CHARS).collect()
}

/// So many signs of the operating system's random numbers.
fn drawn(signs: usize) -> String {
    let mut text = String::with_capacity(signs);
    while text.len() < signs {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        // Each sign is as likely as the others.
        let fair = bytes.into_iter().filter(|byte| usize::from(*byte) < 256 / SIGNS.len() * SIGNS.len());
        let of = fair.map(|byte| char::from(SIGNS[usize::from(byte) % SIGNS.len()]));
        text.extend(of.take(signs - text.len()));
    }
    text
}

impl Secret {
    /// A new one.
    pub(crate) fn draw(kind: CredentialKind) -> Self {
        let id = drawn(bounds::CREDENTIAL_ID_CHARS);
        let id = CredentialId::try_from(id.as_str()).expect("its signs are those of an id");
        Self { kind, id, secret: drawn(SECRET_CHARS) }
    }

    /// As it was shown; nothing where it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let kinds = [CredentialKind::Token, CredentialKind::Session, CredentialKind::Invitation];
        let of_kind = |kind| text.strip_prefix(prefix(kind)).map(|rest| (kind, rest));
        let (kind, rest) = kinds.into_iter().find_map(of_kind)?;
        let is_whole = rest.len() == bounds::CREDENTIAL_ID_CHARS + SECRET_CHARS + CHECKSUM_CHARS;
        if !is_whole || !rest.bytes().all(|byte| SIGNS.contains(&byte)) {
            return None;
        }
        let (id, rest) = rest.split_at(bounds::CREDENTIAL_ID_CHARS);
        let (secret, sum) = rest.split_at(SECRET_CHARS);
        (checksum(id, secret) == sum).then_some(())?;
        Some(Self { kind, id: CredentialId::try_from(id).ok()?, secret: secret.to_owned() })
    }

    /// As it is shown.
    pub(crate) fn text(&self) -> String {
        let (id, secret) = (self.id.as_str(), &self.secret);
        format!("{}{id}{secret}{}", prefix(self.kind), checksum(id, secret))
    }

    /// What the journal keeps of it.
    pub(crate) fn hash(&self) -> String {
        hash_of(&self.secret)
    }

    /// What a page has to show beside the cookie of its session, so that no other page can act by it.
    pub(crate) fn csrf(&self) -> String {
        hash_of(&format!("csrf:{}", self.secret)).chars().take(SECRET_CHARS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: a credential reads as what was drawn; with any sign changed, added or left out it is none.
    #[test]
    fn credential_is_read_as_a_whole_or_not_at_all() {
        for kind in [CredentialKind::Token, CredentialKind::Session, CredentialKind::Invitation] {
            let drawn = Secret::draw(kind);
            let text = drawn.text();
            assert!(text.len() == 57 && Secret::read(&text) == Some(drawn.clone()), "{text}");
            for at in 0..text.len() {
                let mut other = text.clone().into_bytes();
                other[at] = if other[at] == b'x' { b'y' } else { b'x' };
                assert!(Secret::read(std::str::from_utf8(&other).unwrap()).is_none(), "{at} of {text}");
                assert!(Secret::read(&format!("{}{}", &text[..at], &text[at + 1..])).is_none());
            }
            assert!(Secret::read(&format!("{text}0")).is_none());
            assert!(drawn.hash() != Secret::draw(kind).hash() && !text.contains(&drawn.csrf()));
        }
        for none in ["", "tm_", "etl:secret", "tm_\u{e4}", "ty_aaaa"] {
            assert!(Secret::read(none).is_none(), "{none}");
        }
    }

    #[test]
    fn signs_are_drawn_evenly() {
        let text = drawn(36_000);
        for sign in SIGNS {
            let count = text.bytes().filter(|byte| byte == sign).count();
            assert!((800..1_200).contains(&count), "{} of 36,000 are {}", count, char::from(*sign));
        }
    }
}
