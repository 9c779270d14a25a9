//! The name of a segment: which log, which journal, which offsets. Names of one journal sort by their offsets.

use std::fmt;

use tidemill_log::LogId;

/// `<log id>/journal-<partition>/<first>-<next>.segment`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Of which log.
    pub log_id: LogId,
    /// Of which journal.
    pub partition: u32,
    /// Its first offset.
    pub first: u64,
    /// The offset after its last record.
    pub next: u64,
}

const SUFFIX: &str = ".segment";

impl SegmentName {
    /// Where the segments of a journal are.
    #[must_use]
    pub fn directory(log_id: &LogId, partition: u32) -> String {
        format!("{log_id}/journal-{partition:05}")
    }

    /// The last part of the name.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{:020}-{:020}{SUFFIX}", self.first, self.next)
    }

    /// Reads the last part of a name; `None` where it is no segment's, as of a copy that did not come to its end.
    #[must_use]
    pub fn parse(log_id: &LogId, partition: u32, file: &str) -> Option<Self> {
        let (first, next) = file.strip_suffix(SUFFIX)?.split_once('-')?;
        let number = |text: &str| {
            let digits = text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let name = Self { log_id: log_id.clone(), partition, first: number(first)?, next: number(next)? };
        (name.first < name.next).then_some(name)
    }

    /// Reads a whole name.
    #[must_use]
    pub fn parse_whole(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (log_id, journal, file) = (parts.next()?, parts.next()?, parts.next()?);
        let log_id = LogId::try_from(log_id.to_owned()).ok()?;
        let partition = journal.strip_prefix("journal-")?.parse().ok()?;
        let name = Self::parse(&log_id, partition, file)?;
        (parts.next().is_none() && name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Self::directory(&self.log_id, self.partition), self.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_reads_back_and_sorts_by_offset() {
        let log_id = LogId::try_from("abc".to_owned()).unwrap();
        let name = SegmentName { log_id: log_id.clone(), partition: 3, first: 9, next: 10 };
        let text = name.to_string();
        assert_eq!(text, "abc/journal-00003/00000000000000000009-00000000000000000010.segment");
        assert_eq!(SegmentName::parse_whole(&text), Some(name.clone()));
        let later = SegmentName { first: 10, next: 2_000, ..name.clone() };
        assert!(later.to_string() > text);
    }

    #[test]
    fn other_names_are_no_segments() {
        let log_id = LogId::try_from("abc".to_owned()).unwrap();
        for file in [
            "",
            ".00000000000000000009-00000000000000000010.segment.partial",
            "9-10.segment",
            "00000000000000000010-00000000000000000010.segment",
            "0000000000000000000+-00000000000000000010.segment",
            "99999999999999999999-99999999999999999999.segment",
        ] {
            assert_eq!(SegmentName::parse(&log_id, 0, file), None, "{file}");
        }
        for text in ["abc/journal-3/x", "abc", "", "A/journal-00003/y", "../../etc/passwd"] {
            assert_eq!(SegmentName::parse_whole(text), None, "{text}");
        }
    }
}
