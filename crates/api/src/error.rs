//! What can fail in serving.

use std::net::SocketAddr;

use thiserror::Error;

/// An operation of this crate that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is outside its ranges.
    #[error("the configuration of the interface is refused: {0}")]
    Config(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Connections cannot be accepted any more.
    #[error("cannot serve")]
    Serve(#[source] std::io::Error),
    /// The client for workers cannot be made.
    #[error("cannot make the HTTP client")]
    Client(#[source] reqwest::Error),
}
