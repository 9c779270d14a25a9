//! Ids that a process draws.

use std::fmt::Write;

use tidemill_model::{InstanceId, RequestId};

/// A new request id, of 128 random bits, for a caller that names none.
pub fn request_id() -> RequestId {
    RequestId::new(random_hex())
}

/// A new instance id; every process that waits for replies needs one of its own.
pub fn instance_id(role: &str) -> InstanceId {
    InstanceId::new(format!("{role}-{}", random_hex()))
}

fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    let mut text = String::with_capacity(32);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}
