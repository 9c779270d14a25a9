//! What can fail.

use std::net::SocketAddr;

use thiserror::Error;

/// What something else has failed with.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// An operation of this crate that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is outside its ranges.
    #[error("the configuration of the store of logs is refused: {0}")]
    Config(#[source] tidemill_model::FieldError),
    /// A place cannot be used as it is named.
    #[error("cannot keep logs in {place}")]
    Open {
        /// Which.
        place: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The place does not do what it is asked at the moment.
    #[error("cannot {what} in {place}")]
    Place {
        /// What it was asked.
        what: &'static str,
        /// Which.
        place: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// An object is not as it was written.
    #[error("{object} is no segment of a log: {what}")]
    Damaged {
        /// Which.
        object: String,
        /// What is wrong with it.
        what: String,
    },
    /// An object was removed meanwhile: another one has what it had.
    #[error("{object} is not there any more")]
    Gone {
        /// Which.
        object: String,
    },
    /// The address of readers cannot be used.
    #[error("cannot listen on {address} for readers of logs")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The client for workers cannot be made, or the work not be divided.
    #[error("cannot take part in the cluster")]
    Cluster(#[source] tidemill_cluster::Error),
    /// The client for workers cannot be made.
    #[error("cannot make the HTTP client")]
    Client(#[source] reqwest::Error),
    /// It ended by a bug.
    #[error("the thread of the store of logs panicked")]
    Panicked,
}
