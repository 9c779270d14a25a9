//! Stores of logs, as this interface asks them, and what of a log is passed on.

mod known;
mod stores;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{LogLines, LogStream};

pub(crate) use stores::{Kept, LogName, Search, Stores};

use crate::parameter::{Readable, Rule};

/// The code of an error: nothing is kept of a log.
pub(crate) const GONE: &str = "no_log";
/// How a parameter names a stream.
pub(crate) const STREAMS: Rule = Rule::Word(&["1", "2", "3", "stdout", "stderr", "worker"]);
/// How a parameter names what the attempt itself writes.
pub(crate) const OUTPUTS: Rule = Rule::Word(&["1", "2", "stdout", "stderr"]);

impl Readable for LogStream {
    fn read(rule: Rule, text: &str) -> Option<Self> {
        let text = String::read(rule, text)?;
        LogStream::ALL.into_iter().find(|it| it.name() == text || it.number().to_string() == text)
    }
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPart {
    /// The attempt that it is of, as `attempt` names it; absent where the batch has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Whole lines, except where one is longer than 1 MiB, which comes in parts, or the last one has no end yet. At most 1 MiB
    /// of the log. Bytes that are not UTF-8 are shown as U+FFFD.
    pub content: String,
    /// The byte that it begins with; absent where the worker itself has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<u64>,
    /// The number of its first line, from 1; absent where the worker itself has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The byte offset to go on from.
    pub offset: u64,
    /// Whether nothing will follow.
    pub is_end: bool,
}

impl LogPart {
    /// Of a batch that has no attempt.
    pub(crate) fn empty(offset: u64, is_end: bool) -> Self {
        Self { attempt: None, content: String::new(), begin: None, line: None, offset, is_end }
    }

    /// Without anything, where it ends before this offset: whoever has less of the log has nothing to add.
    pub(crate) fn not_before(self, offset: u64) -> Self {
        if self.offset >= offset {
            return self;
        }
        Self { content: String::new(), begin: self.begin.map(|_| offset), offset, ..self }
    }
}

impl From<LogLines> for LogPart {
    fn from(LogLines { content, begin, line, offset, is_end }: LogLines) -> Self {
        Self { attempt: None, content, begin: Some(begin), line: Some(line), offset, is_end }
    }
}
