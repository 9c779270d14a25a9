//! `tidemill worker …`.

use clap::Subcommand;

/// What to do with workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers
    Ls,
    /// Show one worker
    Show {
        /// Its id
        worker: String,
    },
    /// Take no new work; what runs goes on
    Drain {
        /// Its id
        worker: String,
    },
    /// Take work again
    Resume {
        /// Its id
        worker: String,
    },
}
