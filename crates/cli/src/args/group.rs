//! `tidemill group …`.

use clap::Subcommand;

/// What to do with worker groups.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List groups
    Ls,
    /// Create a group, or change its key and settings
    Apply {
        /// Its name
        name: String,
        /// Ed25519 public key of its workers, 64 hexadecimal digits
        /// [default: that of <data>/group-NAME.key, drawn where there is none]
        #[arg(long, value_name = "HEX")]
        worker_key: Option<String>,
        /// Its settings, as `{"lease_ms": 60000, "accounts": {"*": ["etl"]}}`; those that are absent get their
        /// defaults [default: as they are]
        #[arg(long, value_name = "JSON")]
        settings: Option<String>,
    },
}
