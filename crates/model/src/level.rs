//! Levels: what may be written, and what a program reads (rule 13).
//!
//! A kind of event, command or message that older programs cannot read has the level since which it may be written. The
//! catalogue raises the level once every registered process reads the next one; a partition's owner writes nothing above the
//! level that stands in its own journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::vocabulary;

use crate::name::shown_as_wrapped;
use crate::{Actor, InstanceId};

/// A level of what is written to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("minimum" = 1))]
pub struct Level(u32);

shown_as_wrapped!(Level);

impl Level {
    /// That of a log in which none was ever raised.
    pub const FIRST: Level = Level(1);
    /// The highest level that this version of the program reads, unless it is started to read less.
    pub const READS: Level = Level(2);
    /// Far above any level that there will be.
    pub const MAX: Level = Level(1_000);

    /// The level of this number, from 1.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether what is of the level `kind` may be written where this one stands, or read by who reads this one.
    #[must_use]
    pub const fn allows(self, kind: Level) -> bool {
        kind.0 <= self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

/// A process of the program, as it registers itself.
#[vocabulary(Eq)]
pub struct Process {
    /// This life of it; another start is another process.
    pub id: InstanceId,
    /// Its host's name, at most 255 bytes.
    pub host: String,
    /// What it does there: `dispatcher`, `executor` and so on; 1 to 16.
    pub roles: Vec<String>,
    /// The version of its program, at most 64 bytes.
    pub version: String,
    /// The highest level that it reads.
    pub reads: Level,
    /// After so long a silence it does not count any more, milliseconds; 1,000 to 86,400,000.
    pub expire_after_ms: u64,
}

/// An operator keeps the level as it is.
#[vocabulary(Eq)]
pub struct LevelHold {
    /// Who.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

/// The level that stands, and who reads how much.
#[vocabulary(Eq)]
pub struct LevelState {
    /// The level that stands in the catalogue's journal.
    pub level: Level,
    /// The highest level that every registered process reads; absent: none is registered.
    pub readable: Option<Level>,
    /// Absent: the level is raised as soon as every registered process reads the next one.
    pub hold: Option<LevelHold>,
    /// How many processes read how much, the lowest level first.
    pub counts: Vec<LevelCount>,
    /// The registered processes, those that read least first; at most 500.
    pub processes: Vec<Process>,
}

/// How many processes read a level and no more.
#[vocabulary(Copy, Eq)]
pub struct LevelCount {
    /// The highest level that they read.
    pub reads: Level,
    /// How many.
    pub processes: u64,
}
