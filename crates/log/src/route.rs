//! Where records for one receiver go.

use crate::Hash;

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
    use super::partition_of_key;

    /// SHA-256 of `abc` begins with ba7816bf: everyone who looks for a key has to come to the same partition.
    #[test]
    fn partition_of_a_key_is_fixed() {
        assert_eq!([16, 7, 1].map(|count| partition_of_key("abc", count)), [15, 0xba78_16bf % 7, 0]);
    }
}
