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
    pub const READS: Level = Level(4);
    /// Since it, bodies of the journal may be packed.
    pub const PACKED_BODIES: Level = Level(2);
    /// Since it, jobs and groups may have limits of attempts, and excesses are on record.
    pub const LIMITS: Level = Level(3);
    /// Since it, external work of attempts is on record, and whether its end is confirmed.
    pub const EXTERNAL_WORK: Level = Level(3);
    /// Since it, probers look for the output of lost attempts.
    pub const OUTPUT_LOOKS: Level = Level(3);
    /// Since it, workers seal what they report, and interfaces the codes of programs.
    pub const SEALED_REPORTS: Level = Level(3);
    /// Since it, the catalogue has a directory of people and what they sign in with, and refused calls are on record.
    pub const DIRECTORY: Level = Level(4);
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

/// Why something on the log was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is of a level that is not read here, or raises the level to one.
    #[error("{}", too_new(*.level, *.reads))]
    TooNew {
        /// The level that the log goes on with.
        level: Level,
        /// The highest one that is read here.
        reads: Level,
    },
    /// It is nothing that this version knows.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// What a person is told of a log that goes on with a level which this process does not read.
#[must_use]
pub fn too_new(level: Level, reads: Level) -> String {
    format!(
        "it goes on with level {level}, and this process reads up to level {reads}: nothing was changed; start a version that \
         reads level {level} (`tidemill level show` lists what the others read)"
    )
}

/// All that is looked at of what cannot be read.
#[derive(Deserialize)]
struct Stated {
    #[serde(default)]
    level: Level,
}

impl ReadError {
    /// Why these bytes could not be decoded: they may say that they are of a level that is not read here.
    pub(crate) fn of(error: serde_json::Error, bytes: &[u8], reads: Level) -> Self {
        let level = serde_json::from_slice(bytes).map_or(Level::FIRST, |Stated { level }| level);
        if reads.allows(level) { error.into() } else { Self::TooNew { level, reads } }
    }
}
