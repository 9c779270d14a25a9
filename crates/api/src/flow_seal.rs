//! What a browser keeps between two steps of a sign-in, so that it brings back what it was given and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The seal of all interfaces that have the same internal key; where there is none, of this one.
pub(crate) struct FlowSeal([u8; 32]);

impl FlowSeal {
    pub(crate) fn of(internal_key: &str) -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the operating system gives random bytes");
        if !internal_key.is_empty() {
            let mut mac = mac(internal_key.as_bytes());
            mac.update(b"sign-in through a provider");
            key = mac.finalize().into_bytes().into();
        }
        Self(key)
    }

    pub(crate) fn seal(&self, what: &[u8]) -> String {
        let mut mac = mac(&self.0);
        mac.update(what);
        let seal = mac.finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(what), URL_SAFE_NO_PAD.encode(seal))
    }

    /// What was sealed here; nothing where it was not.
    pub(crate) fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let (what, seal) = sealed.split_once('.')?;
        let (what, seal) = (URL_SAFE_NO_PAD.decode(what).ok()?, URL_SAFE_NO_PAD.decode(seal).ok()?);
        let mut mac = mac(&self.0);
        mac.update(&what);
        mac.verify_slice(&seal).ok()?;
        Some(what)
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length is one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sealed_here_is_nothing() {
        let (one, same, other) = (FlowSeal::of("key"), FlowSeal::of("key"), FlowSeal::of("other"));
        let sealed = one.seal(b"state");
        assert_eq!(same.open(&sealed).as_deref(), Some(&b"state"[..]));
        let changed = format!("A{}", &sealed[1..]);
        for none in [&*changed, "", ".", "c3RhdGU.", &sealed[..sealed.len() - 1]] {
            assert!(one.open(none).is_none(), "{none}");
        }
        assert!(other.open(&sealed).is_none());
        let (without, another) = (FlowSeal::of(""), FlowSeal::of(""));
        assert!(another.open(&without.seal(b"x")).is_none() && without.open(&without.seal(b"x")).is_some());
    }
}
