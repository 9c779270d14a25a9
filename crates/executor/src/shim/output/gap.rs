//! A piece of an output that its log does not hold, and the line that stands in its place.

use std::fmt;
use std::sync::Arc;

/// What its line begins with.
pub(in crate::shim) const MARK: &str = "[tidemill] output gap: ";

/// Bytes of a stream that follow each other and are not in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// How many bytes of the stream came before them.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Why the first of them was dropped.
    pub(super) cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The stream is longer than it may be, bytes.
    Limit(u64),
    /// The log could not be written.
    Write(Arc<str>),
    /// A write went on for longer than this, milliseconds.
    SlowWrite(u64),
    /// Nothing could copy the stream.
    NoThread,
}

/// The line without its end, as docs/operations.md gives it to programs.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, cause } = self;
        write!(f, "{MARK}offset={offset} dropped={bytes} reason={cause}")
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(bytes) => write!(f, "longer than {bytes} bytes"),
            Self::Write(error) => write!(f, "cannot write: {error}"),
            Self::SlowWrite(ms) => write!(f, "a write took longer than {ms} ms"),
            Self::NoThread => f.write_str("no thread could be started"),
        }
    }
}
