//! `tidemill events …`.

use clap::{Args, Subcommand};
use tidemill_client::Begin;

/// What to do with the public feed.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Write events as they come
    Tail(EventsArgs),
}

/// Reads where to begin in the feed.
fn begin(text: &str) -> Result<Begin, String> {
    match text {
        "start" => Ok(Begin::Start),
        "end" => Ok(Begin::End),
        time => time.parse().map(Begin::Time).map_err(|_| {
            "must be start, end or a time as RFC 3339 has it: 2026-01-01T00:00:00+01:00".to_owned()
        }),
    }
}

/// Which events to write.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Where to begin: start (the first event on record), end (the next one), or a time, RFC 3339: each partition then
    /// begins with its first event of that time or later
    #[arg(long, value_name = "PLACE", default_value = "end", value_parser = begin, conflicts_with = "cursor")]
    pub(crate) from: Begin,
    /// After the event with this cursor
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// Only types that begin so, as in batch or batch.finished (docs/reference/events.md has all)
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// Only subjects that begin so, as in batch/4097
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// End after so many
    #[arg(long)]
    pub(crate) limit: Option<u64>,
}
