//! What of a journal is in the archive.

/// A part of a journal that is read from the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedPart {
    /// What it is called there.
    pub segment: String,
    /// The first offset that is read of it.
    pub first: u64,
    /// The offset after its last one.
    pub next: u64,
    /// How many bytes it has there.
    pub bytes: u64,
}
