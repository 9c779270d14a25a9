//! How far sinks of task logs are, as their roles note it beside the tables, so that whoever serves the tables can tell.

/// One partition of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkNote {
    /// What people call the sink.
    pub sink: String,
    /// Which partition of the journal.
    pub partition: u32,
    /// Offset of the last journal record that its data hold; absent: none yet.
    pub stored: Option<u64>,
    /// Changes stored since its role started.
    pub changes: u64,
    /// Why it is held up, or does not go on any more.
    pub error: Option<String>,
    /// It does not go on by itself.
    pub stopped: bool,
    /// When this was noted, in milliseconds since 1970.
    pub noted_at: i64,
}

/// A number of ours in a column of the database, and back: neither ever reaches 2⁶³.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn found(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
