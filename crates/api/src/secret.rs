//! Secrets and requests as hashes, which say nothing of what they are made of.

use sha2::{Digest, Sha256};

/// SHA-256 of a secret, in hexadecimal.
pub(crate) fn hash_of(secret: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Of every request, so without a text for each byte.
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from(DIGITS[usize::from(half)]));
    Sha256::digest(secret.as_bytes()).iter().flat_map(digits).collect()
}

/// Stands for what a request asks for (API-4).
pub(crate) fn fingerprint<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// Compares without telling by its time where the first difference is.
pub(crate) fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_other_hashes_are_told_apart() {
        assert!(is_equal(&hash_of("a"), &hash_of("a")));
        assert!(!is_equal(&hash_of("a"), &hash_of("b")));
        assert!(!is_equal(&hash_of("a"), ""));
    }

    #[test]
    fn hash_is_hexadecimal() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_of("abc"), hash);
    }
}
