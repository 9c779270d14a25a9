//! What can fail.

use thiserror::Error;

/// An operation of this crate that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is outside its ranges.
    #[error("the submitter's configuration is refused: {0}")]
    Config(String),
    /// The log could not be opened for this purpose.
    #[error("cannot use the log")]
    Open(#[source] tidemill_log::Error),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The client for other roles cannot be made.
    #[error("cannot make the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Why there is no reply to a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// Nothing was done, and nothing will be: too much waits already.
    #[error("overloaded: {reason}; try again in {retry_after_s} s")]
    Overloaded {
        /// Which bound was reached.
        reason: String,
        /// When to try again, seconds.
        retry_after_s: u64,
    },
    /// Nothing was done, and nothing will be: the log does not take the command.
    #[error("the log does not take commands at the moment ({reason}); nothing was done, try again later")]
    Unavailable {
        /// As the log says it.
        reason: String,
    },
    /// Nothing was done, and nothing will be: the command is larger than the log takes.
    #[error("the command has {bytes} bytes, more than the log takes; make it smaller")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It may or may not have been done, now or later.
    #[error(
        "no outcome within {waited_ms} ms: it may or may not have been done; send it again with the same \
         Idempotency-Key to learn which"
    )]
    Unknown {
        /// How long was waited.
        waited_ms: u64,
    },
    /// The program ends; it may or may not have been done.
    #[error(
        "this instance is stopping: it may or may not have been done; send it again with the same \
         Idempotency-Key to learn which"
    )]
    Stopped,
}
