use tidemill_derive::{Levelled, vocabulary};

use crate::{InstanceId, Process};

/// Processes and the level of what is written. To the catalogue.
#[vocabulary(Levelled)]
pub enum LevelCommand {
    /// A process registers, or shows that it is alive. Makes no event unless something changed.
    RegisterProcess {
        /// As it says itself.
        process: Box<Process>,
        /// Which sign of life of the process. No two records of a process are alike then, so that a resume point names one
        /// of them only.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        number: u64,
    },
    /// A process stops in order.
    DeregisterProcess {
        /// Which.
        process: InstanceId,
    },
    /// The owner has not heard of a process for longer than it said, by the owner's own monotonic clock.
    ExpireProcess {
        /// Which.
        process: InstanceId,
    },
    /// Keeps the level as it is until it is released.
    Hold {
        /// Why; 1 to 500 characters.
        reason: String,
    },
    /// Lets the level be raised.
    Release {
        /// Why; at most 500 characters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}
