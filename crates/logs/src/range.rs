//! The header `Range`, as far as it is understood: one range of bytes (RFC 9110, 14.1.2). Another one is as if there were none.

use std::ops::Range;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    All,
    Part(Range<u64>),
    /// No byte is in it.
    Nothing,
}

/// What is asked of `size` bytes.
pub(crate) fn asked(header: Option<&str>, size: u64) -> Asked {
    let range = header.and_then(|header| header.trim().strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.trim().split_once('-')) else { return Asked::All };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => return Asked::All,
        (Some(first), Some(last)) => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(length)) if first.is_empty() => size - length.min(size)..size,
        _ => return Asked::All,
    };
    if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-3: ranges within the log, up to its end, of its last bytes, and beyond it.
    #[test]
    fn ranges_are_cut_at_the_end_of_the_log() {
        for (header, expected) in [
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=2-4", Asked::Part(2..5)),
            ("bytes=2-", Asked::Part(2..10)),
            ("bytes=-3", Asked::Part(7..10)),
            ("bytes=-30", Asked::Part(0..10)),
            ("bytes=9-99999999999999999999999", Asked::Part(9..10)),
            ("bytes=10-", Asked::Nothing),
            ("bytes=10-12", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=4-2", Asked::All),
            ("bytes=0-1,3-4", Asked::All),
            ("bytes=a-b", Asked::All),
            ("bytes=+1-2", Asked::All),
            ("lines=0-1", Asked::All),
        ] {
            assert_eq!(asked(Some(header), 10), expected, "{header}");
        }
        assert_eq!(asked(None, 10), Asked::All);
        assert_eq!(asked(Some("bytes=0-"), 0), Asked::Nothing);
    }
}
