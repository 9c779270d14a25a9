//! `tidemill audit …`.

use clap::{Args, Subcommand};
use tidemill_model::Timestamp;

/// What to do with the audit list: who asked for which change and when, and refused calls.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AuditCommand {
    /// List rows, newest first
    Ls {
        #[command(flatten)]
        filter: AuditFilterArgs,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show one row, with what changed as it was and as it is
    Show {
        /// Its id
        id: String,
    },
    /// Write all rows, oldest first, a line of JSON each
    Export {
        #[command(flatten)]
        filter: AuditFilterArgs,
        /// After the row with this id: where an export broke off, it goes on
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
}

/// Which rows.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditFilterArgs {
    /// Only what was asked for with this application's key
    #[arg(long)]
    pub(crate) app: Option<String>,
    /// Only by this person
    #[arg(long)]
    pub(crate) person: Option<String>,
    /// Only of this kind of event, as job.defined or access.refused
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only about this, as job/4096 or key/etl
    #[arg(long)]
    pub(crate) object: Option<String>,
    /// Only of this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only from this time on, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Timestamp>,
    /// Only before this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
}
