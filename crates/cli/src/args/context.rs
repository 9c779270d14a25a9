//! `tidemill context …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with contexts: servers with their keys, under names.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ContextCommand {
    /// List contexts; what is secret of a key is not shown
    Ls,
    /// Show one; what is secret of its key is not shown
    Show {
        /// Its name [default: the current one]
        name: Option<String>,
    },
    /// Make one the current: commands without --server, --context and --data speak to its server
    Use {
        /// Its name
        name: String,
    },
    /// Keep a server under a name, or change what is kept there
    Set(ContextSetArgs),
    /// Forget one, with its key
    Rm {
        /// Its name
        name: String,
    },
}

/// What to keep. The server is that of --server, the authorities are those of --ca-file.
#[derive(Debug, Clone, Args)]
pub(crate) struct ContextSetArgs {
    /// Its name: 1 to 64 letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// Read a key from the terminal, or from standard input, and keep it; it is not tried
    #[arg(long, conflicts_with = "key_file")]
    pub(crate) read_key: bool,
    /// Keep the key that stands in this file; it is not tried
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}
