//! The hash of one encoded journal record.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// SHA-256 of an encoded record; the links of the chain are made of it.
///
/// Shown, and serialised, as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What stands in `prev` of the first record of a journal.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash of these bytes.
    #[must_use]
    pub fn of(record: &[u8]) -> Self {
        Self(Sha256::digest(record).into())
    }

    /// A hash read from somewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits; `None` where the text is anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).expect("two hexadecimal digits fit a byte");
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written at once: one is made for every command.
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        let text: String = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect();
        f.write_str(&text)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| de::Error::custom("a hash is 64 hexadecimal digits"))
    }
}

/// The partition, of `count`, that holds what is addressed to `key`: a worker, or an instance that waits for
/// replies. The first four bytes of SHA-256 of the key, big endian, modulo `count`.
///
/// # Panics
/// When `count` is 0.
#[must_use]
pub fn partition_of_key(key: &str, count: u32) -> u32 {
    assert!(count > 0, "a topic has at least one partition");
    let [a, b, c, d, ..] = *Hash::of(key.as_bytes()).as_bytes();
    u32::from_be_bytes([a, b, c, d]) % count
}

#[cfg(test)]
mod tests {
    use super::{partition_of_key, *};

    #[test]
    fn hex_reads_back() {
        let hash = Hash::of(b"abc");
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Hash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(serde_json::from_str::<Hash>(&serde_json::to_string(&hash).unwrap()).unwrap(), hash);
    }

    #[test]
    fn other_text_is_no_hash() {
        for text in ["", "ab", &"g".repeat(64), &"é".repeat(32), &"0".repeat(65)] {
            assert_eq!(Hash::from_hex(text), None, "{text}");
        }
    }

    /// SHA-256 of `abc` begins with ba7816bf: everyone who looks for a key has to come to the same partition.
    #[test]
    fn partition_of_a_key_is_fixed() {
        assert_eq!([16, 7, 1].map(|count| partition_of_key("abc", count)), [15, 0xba78_16bf % 7, 0]);
    }
}
