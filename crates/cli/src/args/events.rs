//! `tidemill events …`.

use clap::{Args, Subcommand};

/// What to do with the public feed.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Write events as they come
    Tail(EventsArgs),
}

/// Where to begin in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedFrom {
    /// With the first event on record.
    Start,
    /// With the next one.
    End,
    /// With the first event of this time or later, in each partition.
    Time(tidemill_model::Timestamp),
}

impl std::str::FromStr for FeedFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            time => time.parse().map(Self::Time).map_err(|_| {
                "must be start, end or a time as RFC 3339 has it: 2026-01-01T00:00:00+01:00".to_owned()
            }),
        }
    }
}

/// Which events to write.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Where to begin: start (the first event on record), end (the next one), or a time, RFC 3339: each partition then
    /// begins with its first event of that time or later
    #[arg(long, value_name = "PLACE", default_value = "end", conflicts_with = "cursor")]
    pub(crate) from: FeedFrom,
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
