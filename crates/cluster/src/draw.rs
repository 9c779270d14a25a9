//! Ids that a process draws: UUIDs of version 7, so that those of a time stand together in indexes and lists. They are no
//! secrets.

use tidemill_model::{InstanceId, RequestId};
use uuid::Uuid;

/// A new request id, for a caller that names none.
pub fn request_id() -> RequestId {
    RequestId::new(id())
}

/// A new instance id; every process that waits for replies needs one of its own.
pub fn instance_id(role: &str) -> InstanceId {
    InstanceId::new(format!("{role}-{}", id()))
}

fn id() -> String {
    Uuid::now_v7().simple().to_string()
}
