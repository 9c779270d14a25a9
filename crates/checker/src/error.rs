//! Why a history could not be checked at all.

use std::path::PathBuf;

/// Why a history could not be checked, or exported, to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log does not give its records.
    #[error("{topic} {partition} of the log cannot be read")]
    ReadLog {
        /// Which topic.
        topic: tidemill_log::Topic,
        /// Which partition.
        partition: u32,
        /// Why.
        source: tidemill_log::Error,
    },
    /// The log stopped giving records below the end that it had named.
    #[error("{topic} {partition} gives no record at {offset}, though it ends at {end}")]
    Stalled {
        /// Which topic.
        topic: tidemill_log::Topic,
        /// Which partition.
        partition: u32,
        /// The record that does not come.
        offset: u64,
        /// What the log says comes after its last record.
        end: u64,
    },
    /// The exported file cannot be opened.
    #[error("the exported journal {} cannot be opened", path.display())]
    OpenFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The exported file cannot be read to its end.
    #[error("the exported journal {} cannot be read after {entries} entries", path.display())]
    ReadFile {
        /// Which.
        path: PathBuf,
        /// What was read before.
        entries: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not an export, or was cut off.
    #[error("{} is no whole export: {rule}", path.display())]
    NotAnExport {
        /// Which.
        path: PathBuf,
        /// What is missing.
        rule: &'static str,
    },
    /// The export cannot be written.
    #[error("the export cannot be written after {entries} entries")]
    WriteExport {
        /// What was written before.
        entries: u64,
        /// Why.
        source: std::io::Error,
    },
}
