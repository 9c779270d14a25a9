//! The name of a segment says what of the log it holds, so that a listing shows what is there.
//!
//! ```text
//! 0-4096.0-0.0-120.5f3a09c1d2e4b687.end
//! └─────┴───┴─────┴────────────────┴─── nothing will follow (`cut`: nothing will, though there was more)
//!    │    │    │          └ drawn, so that two stores never write to one object
//!    │    │    └ the worker's, likewise
//!    │    └ stderr, likewise
//!    └ stdout: from this byte to before that one
//! ```

use std::fmt;
use std::ops::Range;

use uuid::Uuid;

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Close {
    /// More may follow.
    #[default]
    Open,
    /// Its worker lost the rest.
    Cut,
    /// It is whole.
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// Of each stream.
    pub(crate) ranges: [Range<u64>; 3],
    pub(crate) drawn: u64,
    pub(crate) close: Close,
}

impl Name {
    pub(crate) fn new(ranges: [Range<u64>; 3], close: Close) -> Self {
        Self { ranges, drawn: Uuid::new_v4().as_u64_pair().1, close }
    }

    /// Bytes of the log that it holds.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Nothing for what is no name of a segment: what a killed process has left, or somebody else has put there.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut range = || {
            let (begin, end) = parts.next()?.split_once('-')?;
            let (begin, end) = (number(begin)?, number(end)?);
            (begin <= end).then_some(begin..end)
        };
        let ranges = [range()?, range()?, range()?];
        let drawn = parts.next().filter(|drawn| drawn.len() == 16)?;
        let drawn = u64::from_str_radix(drawn, 16).ok()?;
        let close = match (parts.next(), parts.next()) {
            (None, _) => Close::Open,
            (Some("end"), None) => Close::Ended,
            (Some("cut"), None) => Close::Cut,
            _ => return None,
        };
        Some(Self { ranges, drawn, close })
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for range in &self.ranges {
            write!(f, "{}-{}.", range.start, range.end)?;
        }
        write!(f, "{:016x}", self.drawn)?;
        match self.close {
            Close::Open => Ok(()),
            Close::Ended => f.write_str(".end"),
            Close::Cut => f.write_str(".cut"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-4: a name is read back; what else may lie in a directory is none.
    #[test]
    fn names_are_read_back_and_others_are_none() {
        for close in [Close::Open, Close::Ended, Close::Cut] {
            let name = Name::new([0..7, 3..3, 5..9], close);
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        let drawn = "00000000000000ff";
        for text in [
            "",
            "0-1.0-0.0-0",
            "index.json",
            &format!("2-1.0-0.0-0.{drawn}"),
            &format!("0-+1.0-0.0-0.{drawn}"),
            &format!("0-1.0-0.0-0.{drawn}.tmp"),
            &format!("0-1.0-0.0-0.{drawn}#1"),
            &format!("0-1.0-0.0-0.{drawn}.end.tmp"),
            &format!(".0-1.0-0.0-0.{drawn}.tmp"),
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
