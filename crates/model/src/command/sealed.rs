//! A record of the commands topic with the seal of who wrote it: `body ‖ 0x00 ‖ seal`.
//!
//! A body is JSON, which has no raw zero byte, so the two come apart in one way only. What a seal is worth, `tidemill-seal`
//! and the owner know; all others read the body.

/// A seal is an HMAC-SHA256.
pub const SEAL_BYTES: usize = 32;

/// The body of a record, and its seal where it has one.
#[must_use]
pub fn seal_parts(value: &[u8]) -> (&[u8], Option<&[u8; SEAL_BYTES]>) {
    let split = value.split_last_chunk::<SEAL_BYTES>();
    match split.and_then(|(body, seal)| Some((body.strip_suffix(&[0])?, seal))) {
        Some((body, seal)) => (body, Some(seal)),
        None => (value, None),
    }
}

/// A record with its seal.
#[must_use]
pub fn sealed_value(body: Vec<u8>, seal: &[u8; SEAL_BYTES]) -> Vec<u8> {
    let mut value = body;
    value.reserve_exact(1 + SEAL_BYTES);
    value.push(0);
    value.extend_from_slice(seal);
    value
}
