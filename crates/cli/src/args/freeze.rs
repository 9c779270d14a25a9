//! `tidemill freeze …`.

use clap::Subcommand;

/// What to do with freezes.
#[derive(Debug, Subcommand)]
pub(crate) enum FreezeCommand {
    /// List what is frozen
    Ls,
    /// Let no batch beyond a logical time be assigned; batches are generated all the same
    Set {
        /// Of this group [default: every group]
        #[arg(long)]
        group: Option<String>,
        /// The latest logical time that may be assigned, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        latest: Option<tidemill_model::Timestamp>,
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// End a freeze: what waited for it may be assigned
    Lift {
        /// Of this group [default: that of every group]
        #[arg(long)]
        group: Option<String>,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
}
