//! What can fail.

use thiserror::Error;

/// An operation of this crate that failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The log could not be opened for this purpose.
    #[error("cannot use the log")]
    Open(#[source] tidemill_log::Error),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The prober's configuration is outside its ranges.
    #[error("the prober's configuration is refused: {0}")]
    Prober(String),
    /// The configuration of the quality service is outside its ranges.
    #[error("the configuration of the quality service is refused: {0}")]
    Quality(String),
    /// The configuration of the third parties' topic is outside its ranges.
    #[error("the configuration of third parties is refused: {0}")]
    ThirdParty(String),
    /// Which part of the work is whose cannot be learned.
    #[error("cannot divide the work")]
    Division(#[source] tidemill_cluster::Error),
    /// A role ended by a bug.
    #[error("the thread of the {0} panicked")]
    Panicked(&'static str),
}
