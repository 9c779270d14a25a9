//! The name of a snapshot: which log, which partition, which record, of what time, in which form.

use std::fmt;

use tidemill_log::LogId;

/// `<log id>/snapshot-<partition>/<offset>-<milliseconds>-<form>.snapshot`; names of one partition sort by offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// Of which log.
    pub log_id: LogId,
    /// Of which partition.
    pub partition: u32,
    /// The last record that it holds.
    pub offset: u64,
    /// The latest time of any record that it holds, milliseconds since 1970.
    pub latest_ms: u64,
    /// The form of the state.
    pub form: String,
}

const SUFFIX: &str = ".snapshot";

impl SnapshotName {
    /// Where the snapshots of a partition are.
    #[must_use]
    pub fn directory(log_id: &LogId, partition: u32) -> String {
        format!("{log_id}/snapshot-{partition:05}")
    }

    /// Whether this version of the program reads its form.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.form == tidemill_engine::form()
    }

    /// The last part of the name.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{:020}-{:015}-{}{SUFFIX}", self.offset, self.latest_ms, self.form)
    }

    /// Reads the last part of a name; `None` where it is no snapshot's, as of one that was not written to its end.
    #[must_use]
    pub fn parse(log_id: &LogId, partition: u32, file: &str) -> Option<Self> {
        let mut parts = file.strip_suffix(SUFFIX)?.splitn(3, '-');
        let mut number = |digits: usize| {
            let text = parts.next()?;
            let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            fits.then(|| text.parse().ok()).flatten()
        };
        let (offset, latest_ms) = (number(20)?, number(15)?);
        let form = parts.next()?.to_owned();
        let fits = form.len() == 16 && form.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| Self { log_id: log_id.clone(), partition, offset, latest_ms, form })
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Self::directory(&self.log_id, self.partition), self.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_reads_back_and_other_names_are_none() {
        let log_id = LogId::try_from("abc".to_owned()).unwrap();
        let form = "0123456789abcdef".to_owned();
        let name = SnapshotName { log_id: log_id.clone(), partition: 3, offset: 9, latest_ms: 12, form };
        let file = name.file();
        assert_eq!(file, "00000000000000000009-000000000000012-0123456789abcdef.snapshot");
        assert_eq!(SnapshotName::parse(&log_id, 3, &file), Some(name));
        for file in ["", "9-12-0123456789abcdef.snapshot", &format!(".{file}.partial"), &file[1..]] {
            assert_eq!(SnapshotName::parse(&log_id, 3, file), None, "{file}");
        }
    }
}
