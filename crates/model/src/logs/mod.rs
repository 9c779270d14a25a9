//! Logs of attempts: what workers ship to stores of logs, and what stores tell readers.
//!
//! Nothing of it stands in a journal.

mod reading;
mod shipping;
mod text;

pub use reading::{
    KeptLog, KeptStream, LogChunk, LogChunks, LogLines, LogMatch, LogMatches, LogOffsets, LogParts, LogPlace,
};
pub use shipping::{
    FrameError, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrame, ShipFrames, ShipFrom, ShipRequest, Shipped,
};

pub use text::whole_lines;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an attempt writes, and what is written about it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Its standard output.
    #[default]
    Stdout,
    /// Its standard error.
    Stderr,
    /// What its worker says of it: limits, kills, that another life of the worker took it over.
    Worker,
}

impl LogStream {
    /// All of them, each at the place of its index.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Worker];

    /// From 0.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
            Self::Worker => 2,
        }
    }

    /// As calls number it: 1 is stdout, 2 stderr, 3 the worker's.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Worker => 3,
        }
    }

    /// By its number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|stream| stream.number() == number)
    }

    /// Its name, which is its file's, too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Worker => "worker",
        }
    }
}
