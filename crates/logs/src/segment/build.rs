//! The bytes of a segment.
//!
//! ```text
//!  stdout │ stderr │ worker │ footer: JSON │ its length, 4 bytes │ its CRC-32, 4 bytes │ TMLOG001
//! ```
//! The footer has a sum and a count of lines for each block of 64 KiB of a stream, so that a reader takes blocks out of the middle,
//! knows that they are as they were written, and finds a line by its number.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemill_model::LogStream;

use super::errors;

/// The length of a block.
pub(crate) const BLOCK: u64 = 64 << 10;
/// What stands behind the footer.
pub(super) const TRAILER_BYTES: usize = 16;
pub(super) const MARK: &[u8; 8] = b"TMLOG001";
/// The most times that a segment has of a stream; of more, every other one goes.
const MAX_TIMES: usize = 20_000;

/// A piece of a stream that goes into a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The first byte's place in the stream.
    pub(crate) begin: u64,
    pub(crate) bytes: Bytes,
    /// Ends of lines before it.
    pub(crate) lines_before: u64,
    /// When bytes arrived: an offset of the stream and milliseconds since 1970, sorted.
    pub(crate) times: Vec<(u64, i64)>,
}

/// What is known of a segment beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub(crate) streams: [StreamFooter; 3],
}

/// The same of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamFooter {
    pub(crate) begin: u64,
    pub(crate) bytes: u64,
    /// Ends of lines in the stream before this segment.
    pub(crate) lines_before: u64,
    /// Ends of lines in it.
    pub(crate) lines: u64,
    /// Whether its last byte ends a line.
    pub(crate) ends_line: bool,
    /// Of each block: ends of lines before it in this segment, and its CRC-32.
    pub(crate) blocks: Vec<(u64, u32)>,
    pub(crate) times: Vec<(u64, i64)>,
    /// The first line that looks like an error: how many lines of the stream come before it, and its first byte.
    pub(crate) error: Option<(u64, u64)>,
}

impl Footer {
    pub(crate) fn of(&self, stream: LogStream) -> &StreamFooter {
        &self.streams[stream.index()]
    }
}

/// The segment of these parts, in pieces.
pub(crate) fn build(parts: [Part; 3]) -> (Vec<Bytes>, Footer) {
    let footer = Footer { streams: parts.each_ref().map(footer_of) };
    let mut end = serde_json::to_vec(&footer).expect("plain data");
    let length = u32::try_from(end.len()).expect("segments are short");
    let sum = crc32fast::hash(&end);
    end.extend(length.to_le_bytes());
    end.extend(sum.to_le_bytes());
    end.extend(MARK);
    let pieces = parts.map(|part| part.bytes).into_iter().chain([end.into()]);
    (pieces.collect(), footer)
}

fn footer_of(part: &Part) -> StreamFooter {
    let mut lines = 0;
    let block = usize::try_from(BLOCK).expect("blocks are short");
    let blocks = part.bytes.chunks(block).map(|block| {
        let before = lines;
        lines += count_lines(block);
        (before, crc32fast::hash(block))
    });
    let blocks = blocks.collect();
    let error = errors::first(&part.bytes)
        .map(|at| (part.lines_before + count_lines(&part.bytes[..at]), part.begin + at as u64));
    StreamFooter {
        begin: part.begin,
        bytes: part.bytes.len() as u64,
        lines_before: part.lines_before,
        lines,
        ends_line: part.bytes.last() == Some(&b'\n'),
        blocks,
        times: thinned(part.times.clone()),
        error,
    }
}

fn thinned(mut times: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
    while times.len() > MAX_TIMES {
        let mut keep = false;
        times.retain(|_| {
            keep = !keep;
            keep
        });
    }
    times
}

/// Ends of lines in bytes.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The footer of a segment whose last bytes these are; else how many there have to be, or what is wrong.
pub(super) fn read_footer(end: &[u8]) -> Result<Footer, FooterError> {
    let wrong = |what: &str| FooterError::Wrong(what.to_owned());
    let (rest, trailer) =
        end.split_last_chunk::<TRAILER_BYTES>().ok_or_else(|| wrong("it is shorter than its end"))?;
    let (length, rest_of) = trailer.split_first_chunk::<4>().ok_or_else(|| wrong("its end is cut"))?;
    let (sum, mark) = rest_of.split_first_chunk::<4>().ok_or_else(|| wrong("its end is cut"))?;
    if mark != MARK {
        return Err(wrong("it does not end as segments do"));
    }
    let length = u32::from_le_bytes(*length) as usize;
    let Some(json) = rest.len().checked_sub(length).map(|begin| &rest[begin..]) else {
        return Err(FooterError::Longer(length + TRAILER_BYTES));
    };
    if crc32fast::hash(json) != u32::from_le_bytes(*sum) {
        return Err(wrong("the sum of its footer is wrong"));
    }
    serde_json::from_slice(json).map_err(|error| FooterError::Wrong(error.to_string()))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FooterError {
    /// The last so many bytes are needed.
    Longer(usize),
    Wrong(String),
}
