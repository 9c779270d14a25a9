//! Why a call gave no answer, or another one than was asked for.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;

use crate::problem::Problem;

/// The cause of an error, of whatever library.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What failed: one variant for each step of a call.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The address of the server is not one of HTTP.
    #[error("server {server:?} must begin with http:// or https://")]
    Address {
        /// As it was given.
        server: String,
    },
    /// The name of the person in whose name to call cannot be one.
    #[error("person {name:?} must have 1 to 200 letters, none of which steers, and no space at its ends")]
    User {
        /// As it was given.
        name: String,
    },
    /// The authorities that the client is to trust cannot be read.
    #[error("{}: {rule}", file.display())]
    Authorities {
        /// The file that was named; empty where it is what the machine trusts.
        file: PathBuf,
        /// What is wrong with it.
        rule: String,
    },
    /// The client cannot be made.
    #[error("cannot make an HTTP client")]
    Build {
        /// Why.
        source: Cause,
    },
    /// The body of a call cannot be written as JSON.
    #[error("cannot write the body as JSON")]
    Encode {
        /// Why.
        source: serde_json::Error,
    },
    /// An encrypted connection cannot be made. Nothing was sent on it.
    #[error("cannot speak encrypted with {server}: {what}")]
    Encrypt {
        /// The server.
        server: String,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// No connection to the server can be made. Nothing was sent.
    #[error("cannot reach {server}")]
    Connect {
        /// The server.
        server: String,
        /// Why.
        source: Cause,
    },
    /// The server was asked, and did not answer in time or at all.
    #[error("no answer from {server}")]
    Answer {
        /// The server.
        server: String,
        /// Of a write: the key with which it can be repeated.
        idempotency_key: Option<String>,
        /// Why.
        source: Cause,
    },
    /// The answer broke off.
    #[error("the answer broke off")]
    Read {
        /// Of a write: the key with which it can be repeated.
        idempotency_key: Option<String>,
        /// Why.
        source: io::Error,
    },
    /// The answer is longer than the client reads into memory.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The most that is read, bytes.
        limit: u64,
        /// Of a write: the key with which it can be repeated.
        idempotency_key: Option<String>,
    },
    /// The answer is not JSON.
    #[error("the answer is not JSON; is this a Tidemill server?")]
    NotJson {
        /// Why.
        source: serde_json::Error,
    },
    /// The answer is JSON of another form than the caller expects.
    #[error("the server's answer is of another form than this program's")]
    Decode {
        /// Which field, and why.
        source: serde_json::Error,
    },
    /// Something answers there that is no Tidemill server.
    #[error("{server} answers {title}, but not as Tidemill does")]
    Foreign {
        /// The server.
        server: String,
        /// Its status in words.
        title: String,
    },
    /// The server refuses it, and says why.
    #[error("{problem}")]
    Refused {
        /// What it says.
        problem: Box<Problem>,
        /// Of a write: the key with which it can be repeated.
        idempotency_key: Option<String>,
    },
}

impl Error {
    /// What the server says, where it refuses the call.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// Whether the server, or a part of it that the call needs, cannot be reached now; the same call may succeed later.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Encrypt { .. }
            | Self::Connect { .. }
            | Self::Answer { .. }
            | Self::TooLong { .. }
            | Self::Foreign { .. } => true,
            Self::Refused { problem, .. } => matches!(problem.status, 502 | 503),
            Self::Address { .. }
            | Self::User { .. }
            | Self::Authorities { .. }
            | Self::Build { .. }
            | Self::Encode { .. }
            | Self::Read { .. }
            | Self::NotJson { .. }
            | Self::Decode { .. } => false,
        }
    }

    /// Of a write that may or may not have been done: the key with which the same call can be repeated, and is done once.
    pub fn key_to_repeat(&self) -> Option<&str> {
        match self {
            Self::Answer { idempotency_key, .. }
            | Self::Read { idempotency_key, .. }
            | Self::TooLong { idempotency_key, .. } => idempotency_key.as_deref(),
            Self::Refused { problem, idempotency_key } if matches!(problem.status, 500 | 504) => {
                idempotency_key.as_deref()
            }
            _ => None,
        }
    }
}
