//! The frozen binary header in front of every journal record.
//!
//! ```text
//! 0     4 5 6 7 8        16       24                56       60    64
//! ├TDML─┼v┼k┼c┼0┼─epoch──┼──seq───┼──prev (32)──────┼─length─┼─crc─┼─body …
//! ```
//! All numbers are big-endian. The checksum (CRC-32, IEEE) is over everything but itself.
//! The format never changes: whatever comes later hides behind a `Level` record in the body, which stops
//! a reader that is too old *before* it meets a kind or codec it does not know. So every reader of every
//! version may treat what it cannot decode as void.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Hash;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// The most that one encoded record may take, header included: 512 KB.
pub const MAX_FRAME_BYTES: usize = 512 * 1024;

const MAGIC: [u8; 4] = *b"TDML";
const VERSION: u8 = 1;
const CODEC_JSON: u8 = 0;

/// What a journal record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The first record of a journal.
    Genesis,
    /// A new owner takes the partition.
    Claim,
    /// One decision of the owner.
    Envelope,
    /// The owner leaves; anyone may claim at once.
    Resigned,
    /// The owner cannot go on; others leave the partition alone.
    Stopped,
}

impl Kind {
    /// In the order of their codes, which never change.
    const ALL: [Self; 5] = [Self::Genesis, Self::Claim, Self::Envelope, Self::Resigned, Self::Stopped];

    const fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// What stands before the body of a journal record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record is.
    pub kind: Kind,
    /// The ownership that wrote it.
    pub epoch: u64,
    /// Its place in the chain, as its writer saw it.
    pub seq: u64,
    /// Hash of the record before it, as its writer saw it.
    pub prev: Hash,
}

/// One journal record, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// The ownership that wrote it.
    pub epoch: u64,
    /// Its place in the chain, as its writer saw it.
    pub seq: u64,
    /// Hash of the record before it, as its writer saw it.
    pub prev: Hash,
    /// JSON.
    pub body: Vec<u8>,
}

/// Why bytes are not a frame, or a frame cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Larger than [`MAX_FRAME_BYTES`]. When writing, that is a bug of the writer.
    #[error("a journal record of {bytes} bytes is over the cap of {MAX_FRAME_BYTES}")]
    FrameTooLarge {
        /// Size of the encoded record.
        bytes: usize,
    },
    /// Shorter than its header.
    #[error("{bytes} bytes are too few for a journal record's header of {HEADER_BYTES}")]
    TooShort {
        /// Size of the bytes given.
        bytes: usize,
    },
    /// It does not begin with the magic.
    #[error("the record does not begin with TDML")]
    BadMagic,
    /// The length in the header is not the length of the body.
    #[error("the header promises a body of {promised} bytes, the record has {found}")]
    BadLength {
        /// From the header.
        promised: u32,
        /// In the record.
        found: usize,
    },
    /// The record was damaged.
    #[error("the checksum is {found:08x}, the header says {promised:08x}")]
    BadChecksum {
        /// From the header.
        promised: u32,
        /// Of the record.
        found: u32,
    },
    /// Not version 1.
    #[error("unknown frame version {0}")]
    UnknownVersion(u8),
    /// No known kind.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// Not JSON.
    #[error("unknown body codec {0}")]
    UnknownCodec(u8),
    /// The reserved byte is in use.
    #[error("the reserved byte is {0}, not 0")]
    ReservedInUse(u8),
}

impl Header {
    /// Reads the header of a record, and checks the record against it; never panics, whatever the bytes.
    ///
    /// # Errors
    /// The first rule of the format that the bytes break.
    pub fn decode(record: &[u8]) -> Result<Self, FrameError> {
        if record.len() > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLarge { bytes: record.len() });
        }
        let Some((header, body)) = record.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::TooShort { bytes: record.len() });
        };
        if header[..4] != MAGIC {
            return Err(FrameError::BadMagic);
        }
        let promised = u32::from_be_bytes(field(header, 56));
        if usize::try_from(promised) != Ok(body.len()) {
            return Err(FrameError::BadLength { promised, found: body.len() });
        }
        let promised = u32::from_be_bytes(field(header, 60));
        let found = checksum(&header[..60], body);
        if promised != found {
            return Err(FrameError::BadChecksum { promised, found });
        }
        if header[4] != VERSION {
            return Err(FrameError::UnknownVersion(header[4]));
        }
        let kind = Kind::from_code(header[5]).ok_or(FrameError::UnknownKind(header[5]))?;
        if header[6] != CODEC_JSON {
            return Err(FrameError::UnknownCodec(header[6]));
        }
        if header[7] != 0 {
            return Err(FrameError::ReservedInUse(header[7]));
        }
        Ok(Self {
            kind,
            epoch: u64::from_be_bytes(field(header, 8)),
            seq: u64::from_be_bytes(field(header, 16)),
            prev: Hash::from_bytes(field(header, 24)),
        })
    }
}

impl Frame {
    /// The bytes of this record.
    ///
    /// # Errors
    /// [`FrameError::FrameTooLarge`] where they would be over [`MAX_FRAME_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let bytes = HEADER_BYTES + self.body.len();
        if bytes > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLarge { bytes });
        }
        let length = u32::try_from(self.body.len()).expect("checked against the cap just above");
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, self.kind.code(), CODEC_JSON, 0]);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(self.prev.as_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        let checksum = checksum(&out, &self.body);
        out.extend_from_slice(&checksum.to_be_bytes());
        out.extend_from_slice(&self.body);
        Ok(out)
    }

    /// Reads a record; never panics, whatever the bytes.
    ///
    /// # Errors
    /// The first rule of the format that the bytes break.
    pub fn decode(record: &[u8]) -> Result<Self, FrameError> {
        let Header { kind, epoch, seq, prev } = Header::decode(record)?;
        Ok(Self { kind, epoch, seq, prev, body: record[HEADER_BYTES..].to_vec() })
    }
}

fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("every field lies inside the header")
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn frame() -> Frame {
        Frame { kind: Kind::Envelope, epoch: 3, seq: 9, prev: Hash::of(b"before"), body: b"{}".to_vec() }
    }

    /// The bytes are frozen: this test may never be changed to pass.
    #[test]
    fn format_is_frozen() {
        let bytes = Frame { prev: Hash::ZERO, ..frame() }.encode().unwrap();
        let mut expected = b"TDML\x01\x02\x00\x00\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x09".to_vec();
        expected.extend_from_slice(&[0; 32]);
        expected.extend_from_slice(&[0, 0, 0, 2]);
        expected.extend_from_slice(&[0xb5, 0x05, 0xbb, 0xc3]);
        expected.extend_from_slice(b"{}");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn over_the_cap_is_refused_both_ways() {
        let body = vec![b' '; MAX_FRAME_BYTES - HEADER_BYTES];
        let largest = Frame { body, ..frame() };
        assert_eq!(Frame::decode(&largest.encode().unwrap()), Ok(largest.clone()));
        let mut body = largest.body;
        body.push(b' ');
        let bytes = MAX_FRAME_BYTES + 1;
        assert_eq!(Frame { body, ..frame() }.encode(), Err(FrameError::FrameTooLarge { bytes }));
        assert_eq!(Frame::decode(&vec![0; bytes]), Err(FrameError::FrameTooLarge { bytes }));
    }

    #[test]
    fn each_header_rule_has_its_name() {
        let resealed = |at: usize, value: u8| {
            let mut bytes = frame().encode().unwrap();
            bytes[at] = value;
            let crc = checksum(&bytes[..60], &bytes[64..]);
            bytes[60..64].copy_from_slice(&crc.to_be_bytes());
            Frame::decode(&bytes).unwrap_err()
        };
        assert_eq!(resealed(0, b'X'), FrameError::BadMagic);
        assert_eq!(resealed(4, 2), FrameError::UnknownVersion(2));
        assert_eq!(resealed(5, 9), FrameError::UnknownKind(9));
        assert_eq!(resealed(6, 1), FrameError::UnknownCodec(1));
        assert_eq!(resealed(7, 1), FrameError::ReservedInUse(1));
        assert_eq!(resealed(59, 7), FrameError::BadLength { promised: 7, found: 2 });
        assert_eq!(Frame::decode(b"TDML"), Err(FrameError::TooShort { bytes: 4 }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(Frame::decode(&bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_after_the_magic_never_panic(tail in vec(any::<u8>(), 0..200)) {
            prop_assert!(Frame::decode(&[b"TDML\x01\x02\x00\x00", tail.as_slice()].concat()).is_err());
        }

        #[test]
        fn decode_is_the_inverse_of_encode(code in 0_u8..5, epoch: u64, seq: u64, prev: [u8; 32], body in vec(any::<u8>(), 0..300)) {
            let kind = Kind::from_code(code).unwrap();
            let frame = Frame { kind, epoch, seq, prev: Hash::from_bytes(prev), body };
            prop_assert_eq!(Frame::decode(&frame.encode().unwrap()), Ok(frame));
        }

        #[test]
        fn one_flipped_bit_is_noticed(at in 0_usize..66, bit in 0_u8..8) {
            let mut bytes = frame().encode().unwrap();
            bytes[at] ^= 1 << bit;
            prop_assert!(Frame::decode(&bytes).is_err());
        }

        #[test]
        fn a_cut_record_is_noticed(keep in 0_usize..66) {
            prop_assert!(Frame::decode(&frame().encode().unwrap()[..keep]).is_err());
        }
    }
}
