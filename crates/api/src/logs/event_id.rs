//! How far a reader of a tail has come.

use std::fmt;
use std::str::FromStr;

use tidemill_model::LogOffsets;

use crate::parameter::read;

/// The id of an event: all that came up to there has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) attempt: u64,
    pub(crate) offsets: LogOffsets,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogOffsets { stdout, stderr, worker } = self.offsets;
        write!(f, "{}.{stdout}.{stderr}.{worker}", self.attempt)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Option<Vec<u64>> = text.split('.').map(read).collect();
        // No file is longer than the largest offset of a file system.
        match numbers.as_deref() {
            Some(&[attempt, stdout, stderr, worker])
                if attempt > 0
                    && [stdout, stderr, worker].iter().all(|offset| i64::try_from(*offset).is_ok()) =>
            {
                Ok(Self { attempt, offsets: LogOffsets { stdout, stderr, worker } })
            }
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: an id is read back as it was written, and nothing else is one.
    #[test]
    fn ids_of_events_are_four_numbers() {
        let offsets = LogOffsets { stdout: 7, stderr: 0, worker: 1 << 40 };
        let id = EventId { attempt: 3, offsets };
        assert_eq!(id.to_string(), "3.7.0.1099511627776");
        assert_eq!(id.to_string().parse(), Ok(id));
        let bad = [
            "",
            "1",
            "1.2.3",
            "1.2.3.4.5",
            "0.1.2.3",
            "1.-2.3.4",
            "1.+2.3.4",
            "1.2.3.x",
            "1.2.3.9223372036854775808",
        ];
        for text in bad {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }
}
