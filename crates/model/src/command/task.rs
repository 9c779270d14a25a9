//! Tasks that clients pull. To the shard of the group.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pull::{TaskSpec, UserName};
use crate::{GrantId, TaskId};

/// Tasks that clients pull. To the shard of the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskCommand {
    /// A new task (PUL-2, PUL-3).
    Create {
        /// As written.
        spec: TaskSpec,
    },
    /// Changes a task. Live grants keep what they were given.
    Change {
        /// Which.
        task: TaskId,
        /// As written; the executor stays.
        spec: TaskSpec,
    },
    /// Deletes a task. Its live grants can still be completed.
    Delete {
        /// Which.
        task: TaskId,
    },
    /// A client asks for work (PUL-5): the live grant again, or the earliest task that is due for the user.
    Pull {
        /// Who.
        user: UserName,
    },
    /// A client has done it (PUL-7).
    Complete {
        /// Who.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// 1 to 4,096 bytes.
        result: String,
    },
    /// A client, or somebody for it, gives a grant back.
    ReturnGrant {
        /// Who has it.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}
