//! What a store of logs tells of the log of an attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LogStream;
use crate::Timestamp;

/// Which partitions' attempts a store has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogParts {
    /// Which are its own, sorted.
    pub mine: Vec<u32>,
    /// Of how many.
    pub count: u32,
}

/// What is kept of the log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KeptLog {
    /// Its standard output.
    pub stdout: KeptStream,
    /// Its standard error.
    pub stderr: KeptStream,
    /// What its worker says of it.
    pub worker: KeptStream,
    /// Whether nothing will follow.
    pub is_end: bool,
    /// Whether its worker lost some of it before it could be shipped. What is here is its beginning then.
    pub is_cut: bool,
    /// The first line that looks like an error: of stderr, where there is one, else of stdout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<LogMatch>,
}

/// How long a stream of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KeptStream {
    /// Bytes.
    pub bytes: u64,
    /// Lines: how many ends of lines there are, and one more where the last line has no end.
    pub lines: u64,
}

/// A place in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogPlace {
    /// This byte, from 0.
    Offset(u64),
    /// The beginning of this line, from 1.
    Line(u64),
    /// The beginning of the last so many lines.
    Last(u64),
}

/// Lines of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLines {
    /// Whole lines, except where the last one has no end yet. Bytes that are not UTF-8 are shown as U+FFFD.
    pub content: String,
    /// The byte that it begins with.
    pub begin: u64,
    /// The number of its first line, from 1.
    pub line: u64,
    /// The byte offset to go on from.
    pub offset: u64,
    /// Whether nothing will follow.
    pub is_end: bool,
}

/// A line that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogMatch {
    /// Of which stream.
    pub stream: LogStream,
    /// Its number, from 1.
    pub line: u64,
    /// The byte that it begins with.
    pub offset: u64,
    /// The line, of a long one at most 1,000 characters around what was looked for.
    pub text: String,
}

/// Lines that were looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogMatches {
    /// In the order of the stream.
    pub matches: Vec<LogMatch>,
    /// The byte offset to go on from.
    pub offset: u64,
    /// Whether nothing will follow.
    pub is_end: bool,
}

/// A byte of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
pub struct LogOffsets {
    /// Of stdout.
    pub stdout: u64,
    /// Of stderr.
    pub stderr: u64,
    /// Of the worker's.
    pub worker: u64,
}

impl LogOffsets {
    /// That of a stream.
    pub fn of(&mut self, stream: LogStream) -> &mut u64 {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
            LogStream::Worker => &mut self.worker,
        }
    }
}

/// Bytes of a stream that arrived together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogChunk {
    /// Of which stream.
    pub stream: LogStream,
    /// The byte that it begins with.
    pub offset: u64,
    /// When they arrived, at the latest.
    pub at: Timestamp,
    /// Whole lines, except where one is longer than a chunk or has no end yet. Bytes that are not UTF-8 are shown as U+FFFD.
    pub content: String,
}

/// What follows of all streams, in the order in which it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogChunks {
    /// The oldest first.
    pub chunks: Vec<LogChunk>,
    /// Where to go on.
    pub offsets: LogOffsets,
    /// Whether nothing will follow.
    pub is_end: bool,
    /// Whether its worker lost what would have followed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub is_cut: bool,
}
