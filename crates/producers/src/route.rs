//! Where records for one receiver go.

use sha2::{Digest, Sha256};

/// The partition, of `count`, that holds what is addressed to `receiver`: a worker or a waiting instance. The
/// first four bytes of SHA-256 of its id, big endian, modulo `count`.
///
/// # Panics
/// When `count` is 0.
pub fn partition_of(receiver: &str, count: u32) -> u32 {
    assert!(count > 0, "a topic has at least one partition");
    let hash = Sha256::digest(receiver.as_bytes());
    let head: [u8; 4] = hash[..4].try_into().expect("SHA-256 has 32 bytes");
    u32::from_be_bytes(head) % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_is_the_first_four_bytes_of_sha_256() {
        // SHA-256("abc") begins ba7816bf.
        assert_eq!(partition_of("abc", 16), 0xba78_16bf % 16);
        assert_eq!(partition_of("abc", 7), 0xba78_16bf % 7);
    }
}
