//! `tidemill rebuild`.

use clap::{Args, ValueEnum};
use tidemill_api::ports::{RebuildRequest, RebuildScope};
use tidemill_cli::{Done, Failure};

/// What is rebuilt.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// The read tables
    Tables,
    /// The hints of pulls, in Redis or in the process that serves
    Hints,
    /// Both
    All,
}

/// How something is rebuilt.
#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// What to rebuild
    #[arg(value_enum, default_value = "tables", value_name = "WHAT")]
    what: What,
    /// Copy rows of history that nothing has changed since this time (RFC 3339) from the tables in use, as they are
    ///
    /// All other rows are folded from the journal. What was damaged before, in rows that are copied, stays: a dry run with
    /// --compare says what that would be, and `verify` names it afterwards.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Change nothing, and say what would be read, what is there and about how long it takes
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: compare with the journal, too, and say what would be mended; takes about as long as a rebuild
    #[arg(long, requires = "dry_run")]
    compare: bool,
}

impl RebuildArgs {
    /// The same as a request.
    pub(crate) fn request(&self) -> Done<RebuildRequest> {
        let bad = |value: &str, rule: &str| {
            Failure::bad_input(format!("--from: {value:?}: {rule}"))
                .hint("for example --from 2026-01-31T06:00:00Z; leave it out to rebuild from the beginning")
        };
        let parse = |from: &String| {
            from.parse().map_err(|_| bad(from, "must be a time as RFC 3339 has it, with its offset from UTC"))
        };
        let what = match self.what {
            What::Tables => RebuildScope::Tables,
            What::Hints => RebuildScope::Hints,
            What::All => RebuildScope::All,
        };
        let from = self.from.as_ref().map(parse).transpose()?;
        let request = RebuildRequest { what, from, dry_run: self.dry_run, compare: self.compare };
        match request.conflict() {
            None => Ok(request),
            Some(("from", value, rule)) => Err(bad(&value, rule)),
            Some((field, value, rule)) => Err(Failure::bad_input(format!("--{field}: {value}: {rule}"))),
        }
    }
}
