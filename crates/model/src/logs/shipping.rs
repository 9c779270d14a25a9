//! From the spool of a worker to the store of logs: `POST /output` of the worker, asked again and again by the store that has
//! the worker's partition.
//!
//! ```text
//!  store                                        worker
//!    ShipRequest {turn: 0}                  ──►   begins anew
//!                         ◄── frames: Begun, Piece, Piece, Ended, Known …
//!    ShipRequest {turn: 1, from, done}      ──►   goes on behind what it has sent, or from there
//!                         ◄── frames …
//! ```
//! A worker keeps what it has until it is told that it is done, so each piece may come again: it says where it begins. An answer that
//! was lost shows in the next turn, which is 0 then. A worker has a session with each of two stores at once, since two ask while a
//! partition moves. Each hears all of an attempt, also when the other has said that it is done.

use serde::{Deserialize, Serialize};

use super::LogStream;
use crate::{InstanceId, Token};

/// The most bytes of output in one answer, but for the last piece.
pub const MAX_SHIPPED_AT_ONCE: usize = 4 << 20;
/// The longest payload of a frame.
pub const MAX_FRAME_BYTES: usize = 256 << 10;
/// The longest head of a frame.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// What a store asks of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShipRequest {
    /// Which store, this life of it. What was agreed with another one, or with another life, does not count for it.
    pub store: InstanceId,
    /// How many answers of the worker it has heard, since it began with 0. A worker to which this is news begins anew.
    pub turn: u64,
    /// Where to begin, for attempts that the worker has named by [`Shipped::Known`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<ShipFrom>,
    /// Attempts whose logs are kept as a whole, durably, or as far as there was anything to be had: the worker need not ship them any
    /// more. It takes that of those that it has named by [`Shipped::Known`], [`Shipped::Ended`] or [`Shipped::Gone`] and that have
    /// ended on its record; while a piece of one is still to come, it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Token>,
    /// How long the worker may wait until there is something, milliseconds; at most 10,000.
    pub wait_ms: u64,
    /// How many bytes of output it has room for.
    pub room_bytes: u64,
}

/// Where to begin with the log of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShipFrom {
    /// Which attempt.
    pub token: Token,
    /// With which byte of each stream.
    pub offsets: [u64; 3],
}

/// A frame of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipFrame {
    /// Of which attempt.
    pub token: Token,
    /// What of it.
    pub shipped: Shipped,
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shipped {
    /// The attempt has begun in this life of the worker, which has told nobody of it: it is shipped from its first byte on.
    Begun,
    /// The worker may have more of it, and has to be told where to begin, or that it is done. It says so once more when an attempt
    /// ends of which it has been told neither.
    Known,
    /// The next bytes of a stream.
    Piece {
        /// Which stream.
        stream: LogStream,
        /// How many bytes came before, as its file has them.
        offset: u64,
        /// When bytes arrived: each pair is an offset and the time when the byte there did, milliseconds since 1970. What comes
        /// before the first arrived at its time, at the latest.
        times: Vec<(u64, i64)>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The streams have this many bytes, all of which were sent, and get no more.
    Ended {
        /// Of each stream.
        bytes: [u64; 3],
    },
    /// The worker has no more of it: it was removed, is shorter than what the store has, is longer than an output can be, or cannot
    /// be read. What the store has is all that there will be.
    Gone,
}

#[derive(Serialize, Deserialize)]
struct Head {
    token: Token,
    kind: Kind,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    stream: LogStream,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    offset: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    times: Vec<(u64, i64)>,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    bytes: [u64; 3],
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Begun,
    Known,
    Piece,
    Ended,
    Gone,
}

impl ShipFrame {
    /// Of an attempt.
    #[must_use]
    pub fn new(token: Token, shipped: Shipped) -> Self {
        Self { token, shipped }
    }

    /// Appends it: the length of a head, the length of a payload, both of four bytes, the greatest first; the head, which is
    /// JSON; the payload.
    pub fn write(&self, to: &mut Vec<u8>) {
        let head = |kind| Head {
            token: self.token,
            kind,
            stream: LogStream::Stdout,
            offset: 0,
            times: Vec::new(),
            bytes: [0; 3],
        };
        let (head, payload): (Head, &[u8]) = match &self.shipped {
            Shipped::Begun => (head(Kind::Begun), &[]),
            Shipped::Known => (head(Kind::Known), &[]),
            Shipped::Piece { stream, offset, times, bytes } => {
                let head =
                    Head { stream: *stream, offset: *offset, times: times.clone(), ..head(Kind::Piece) };
                (head, bytes)
            }
            Shipped::Ended { bytes } => (Head { bytes: *bytes, ..head(Kind::Ended) }, &[]),
            Shipped::Gone => (head(Kind::Gone), &[]),
        };
        let head = serde_json::to_vec(&head).expect("plain data");
        for length in [head.len(), payload.len()] {
            to.extend(u32::try_from(length).expect("frames are short").to_be_bytes());
        }
        to.extend(head);
        to.extend(payload);
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It says that it is longer than a frame may be.
    #[error("a frame says that it is longer than frames are: head {head}, payload {payload}")]
    TooLong {
        /// Bytes of its head.
        head: usize,
        /// Bytes of its payload.
        payload: usize,
    },
    /// Its head is no JSON of a head.
    #[error("the head of a frame cannot be read: {0}")]
    Head(String),
    /// The bytes end within a frame.
    #[error("an answer ends within a frame")]
    Cut,
}

/// Reads frames from bytes as they come.
#[derive(Debug, Default)]
pub struct ShipFrames {
    bytes: Vec<u8>,
    begin: usize,
}

impl ShipFrames {
    /// The next bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame that is there as a whole.
    ///
    /// # Errors
    /// What is there is no frame.
    pub fn next_frame(&mut self) -> Result<Option<ShipFrame>, FrameError> {
        let rest = &self.bytes[self.begin..];
        let Some((lengths, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let [a, b, c, d, e, f, g, h] = *lengths;
        let length = |bytes| usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
        let (head, payload) = (length([a, b, c, d]), length([e, f, g, h]));
        if head > MAX_HEAD_BYTES || payload > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong { head, payload });
        }
        if rest.len() < head + payload {
            return Ok(None);
        }
        self.begin += 8 + head + payload;
        let (head, rest) = rest.split_at(head);
        let head: Head = serde_json::from_slice(head).map_err(|error| FrameError::Head(error.to_string()))?;
        let Head { token, kind, stream, offset, times, bytes } = head;
        let shipped = match kind {
            Kind::Begun => Shipped::Begun,
            Kind::Known => Shipped::Known,
            Kind::Piece => Shipped::Piece { stream, offset, times, bytes: rest[..payload].to_vec() },
            Kind::Ended => Shipped::Ended { bytes },
            Kind::Gone => Shipped::Gone,
        };
        Ok(Some(ShipFrame { token, shipped }))
    }

    /// There is no more.
    ///
    /// # Errors
    /// The last frame is not whole.
    pub fn end(self) -> Result<(), FrameError> {
        if self.begin == self.bytes.len() { Ok(()) } else { Err(FrameError::Cut) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<ShipFrame> {
        let piece = |stream, bytes: &[u8]| Shipped::Piece {
            stream,
            offset: 7,
            times: vec![(7, 1_000), (9, 1_200)],
            bytes: bytes.to_vec(),
        };
        let all = [
            Shipped::Begun,
            Shipped::Known,
            piece(LogStream::Stdout, b"a\xff\n"),
            piece(LogStream::Worker, b""),
            Shipped::Ended { bytes: [1, 2, 3] },
            Shipped::Gone,
        ];
        all.into_iter().map(|shipped| ShipFrame::new(Token(8), shipped)).collect()
    }

    /// LOG-1: frames are read back as they were written, however their bytes come.
    #[test]
    fn frames_are_read_back_in_pieces_of_any_length() {
        let mut bytes = Vec::new();
        frames().iter().for_each(|frame| frame.write(&mut bytes));
        for step in [1, 2, 7, 64, bytes.len()] {
            let (mut read, mut found) = (ShipFrames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                read.extend(piece);
                while let Some(frame) = read.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, frames(), "{step}");
            read.end().unwrap();
        }
    }

    /// LOG-1: what is no frame is refused, before anything is kept of it.
    #[test]
    fn what_is_no_frame_is_refused() {
        let read = |bytes: &[u8]| {
            let mut read = ShipFrames::default();
            read.extend(bytes);
            read.next_frame()
        };
        assert!(matches!(read(&[0xff; 8]), Err(FrameError::TooLong { .. })));
        assert!(matches!(read(&[0, 0, 0, 2, 0, 0, 0, 0, b'{', b'x']), Err(FrameError::Head(_))));
        let mut cut = ShipFrames::default();
        cut.extend(&[0, 0, 0, 2]);
        assert_eq!(cut.next_frame(), Ok(None));
        assert_eq!(cut.end(), Err(FrameError::Cut));
    }
}
