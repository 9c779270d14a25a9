//! `tidemill key …`.

use clap::{Subcommand, ValueEnum};

/// What an application key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum KeyRole {
    /// Reads
    Viewer,
    /// Reads, submits and acts on the groups it is bound to
    User,
    /// Everything but keys and groups
    Administrator,
    /// Everything
    SuperAdministrator,
}

/// What to do with application keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create or replace a key; its secret is shown once
    Apply {
        /// Name of the application
        app: String,
        /// What it allows
        #[arg(long, value_enum, default_value = "user")]
        role: KeyRole,
        /// Bind it to this group (repeatable) [default: all groups]
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// Jobs that it applies may run as this account of their worker's host (repeatable) [default: none]
        #[arg(long, value_name = "ACCOUNT")]
        run_as: Vec<String>,
        /// With the operator's secret (operator.key, or the setting operator_key) in place of a key: where every
        /// super-administrator's key is lost
        #[arg(long)]
        operator: bool,
    },
    /// Delete a key; from then on it opens nothing
    Delete {
        /// Name of the application
        app: String,
    },
    /// List keys, without their secrets
    Ls,
}
