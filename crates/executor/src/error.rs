//! What can fail, one variant per operation.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidemill_model::FieldError;

/// An operation of the executor that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of the configuration has a value that cannot be used.
    #[error("executor configuration: {field} is {value}, but {rule}")]
    Config {
        /// Which field.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it has to be.
        rule: String,
    },
    /// A file or directory of the data directory could not be made, read or written.
    #[error("cannot {what} {}", path.display())]
    Data {
        /// What was to be done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another executor uses the data directory.
    #[error("{} is in use by another executor; stop it, or give this one another directory", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory was written by another version.
    #[error("{} has format {found}; this program reads format {wanted}", path.display())]
    Format {
        /// The file that says so.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this program.
        wanted: u32,
    },
    /// The address for the logs cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A thread, or what threads share, could not be made.
    #[error("cannot start {what}")]
    Start {
        /// What.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The log cannot be used.
    #[error("the executor cannot use the log")]
    Log(#[from] tidemill_log::Error),
    /// An owner says something that this version does not know.
    #[error(
        "record {offset} of the work cannot be read: {source}. Nobody else can do what it says; start a version of the \
         program that reads it (`tidemill level show` lists what the others read)"
    )]
    Message {
        /// Where.
        offset: u64,
        /// Why not.
        source: serde_json::Error,
    },
    /// A thread that the worker cannot do without ended.
    #[error("{thread} ended: {reason}")]
    Ended {
        /// Which.
        thread: &'static str,
        /// Why, as far as known.
        reason: String,
    },
}

impl Error {
    /// A field of the configuration of looks at paths.
    pub(crate) fn probe(error: FieldError) -> Self {
        let FieldError { field, value, rule } = error;
        Self::Config { field: "probe", value: format!("{field}: {value}"), rule }
    }
}
