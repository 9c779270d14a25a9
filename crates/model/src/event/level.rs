use tidemill_derive::{Aggregate, vocabulary};

use crate::{Actor, InstanceId, Level, Process};

/// Processes, the levels that they read, and the level of what is written.
#[vocabulary(Aggregate)]
#[event(subject = "level")]
pub enum LevelEvent {
    /// A process registers with the catalogue, and says which level it reads.
    #[event(kind = "process.registered", subject = "process/{process.id}", public)]
    ProcessRegistered {
        /// As it says itself.
        process: Process,
    },
    /// A process stops in order.
    #[event(kind = "process.deregistered", subject = "process/{process}", public)]
    ProcessDeregistered {
        /// Which.
        process: InstanceId,
    },
    /// A process sends no sign of life for longer than it said it would.
    #[event(kind = "process.expired", subject = "process/{process}", public)]
    ProcessExpired {
        /// Which.
        process: InstanceId,
    },
    /// The catalogue raises the level: every registered process reads it.
    ///
    /// From the next record on the partition may hold what is new in that level; a program that does not read it stops here.
    #[event(kind = "level.raised", public)]
    Raised {
        /// The new one.
        level: Level,
    },
    /// An operator holds the level, so that programs which read no more can be gone back to.
    #[event(kind = "level.held", public)]
    Held {
        /// Who.
        by: Actor,
        /// Why.
        reason: String,
    },
    /// An operator releases the level, which is raised as soon as every registered process reads the next one.
    #[event(kind = "level.released", public)]
    Released {
        /// Who.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}
