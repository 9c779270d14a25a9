//! The frozen binary header in front of every journal record.
//!
//! ```text
//! 0     4 5 6 7 8        16       24                56       60    64
//! ├TDML─┼v┼k┼c┼0┼─epoch──┼──seq───┼──prev (32)──────┼─length─┼─crc─┼─body …
//! ```
//! All numbers are big-endian. The checksum (CRC-32, IEEE) is over everything but itself. Codec 0 is a body as it is, JSON;
//! codec 1 is its length as four bytes and then one block of LZ4, since level 2. No body is longer than an unpacked one may be.
//! The format never changes: whatever comes later hides behind a `Level` record in the body, which stops
//! a reader that is too old *before* it meets a kind or codec it does not know. So every reader of every
//! version may treat what it cannot decode as void.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Hash;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// The most that one encoded record may take, header included: 512 KB.
pub const MAX_FRAME_BYTES: usize = 512 * 1024;
const MAX_BODY_BYTES: usize = MAX_FRAME_BYTES - HEADER_BYTES;

const MAGIC: [u8; 4] = *b"TDML";
const VERSION: u8 = 1;

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

/// How the body of a journal record is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// As it is.
    #[default]
    Plain,
    /// Packed with LZ4, since level 2.
    Lz4,
}

impl Codec {
    /// In the order of their codes, which never change.
    const ALL: [Self; 2] = [Self::Plain, Self::Lz4];

    const fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    fn pack(self, body: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Plain => Cow::Borrowed(body),
            Self::Lz4 => {
                let length = u32::try_from(body.len()).expect("checked against the cap");
                let mut packed = vec![0; 4 + lz4_flex::block::get_maximum_output_size(body.len())];
                packed[..4].copy_from_slice(&length.to_be_bytes());
                let bytes = lz4_flex::block::compress_into(body, &mut packed[4..])
                    .expect("it has room for the worst");
                packed.truncate(4 + bytes);
                Cow::Owned(packed)
            }
        }
    }

    /// The body as it was, or `None`: it is not packed so.
    pub(crate) fn unpack(self, packed: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Plain => Some(Cow::Borrowed(packed)),
            Self::Lz4 => {
                let (length, block) = packed.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let length = Some(length).filter(|length| *length <= MAX_BODY_BYTES)?;
                let body = lz4_flex::block::decompress(block, length).ok()?;
                (body.len() == length).then_some(Cow::Owned(body))
            }
        }
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
    /// How its body is written.
    pub codec: Codec,
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
    /// How its body is written.
    pub codec: Codec,
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
    /// Neither plain nor packed as this version knows.
    #[error("unknown body codec {0}")]
    UnknownCodec(u8),
    /// The body is not packed as the header says.
    #[error("the body cannot be unpacked")]
    BadBody,
    /// The reserved byte is in use.
    #[error("the reserved byte is {0}, not 0")]
    ReservedInUse(u8),
}

/// Bytes of what looks like a record with a packed body, if that were unpacked.
pub(crate) fn unpacked_bytes(record: &[u8]) -> Option<usize> {
    let (header, body) = record.split_first_chunk::<HEADER_BYTES>()?;
    let is_packed = header[..4] == MAGIC && header[6] == Codec::Lz4.code();
    let length = u32::from_be_bytes(*body.first_chunk()?);
    is_packed.then_some(HEADER_BYTES + usize::try_from(length).ok()?.min(MAX_BODY_BYTES))
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
        let codec = Codec::from_code(header[6]).ok_or(FrameError::UnknownCodec(header[6]))?;
        if header[7] != 0 {
            return Err(FrameError::ReservedInUse(header[7]));
        }
        Ok(Self {
            kind,
            epoch: u64::from_be_bytes(field(header, 8)),
            seq: u64::from_be_bytes(field(header, 16)),
            prev: Hash::from_bytes(field(header, 24)),
            codec,
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
        let body = self.codec.pack(&self.body);
        let length = u32::try_from(body.len()).expect("checked against the cap just above");
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, self.kind.code(), self.codec.code(), 0]);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(self.prev.as_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        let checksum = checksum(&out, &body);
        out.extend_from_slice(&checksum.to_be_bytes());
        out.extend_from_slice(&body);
        Ok(out)
    }

    /// Reads a record; never panics, whatever the bytes.
    ///
    /// # Errors
    /// The first rule of the format that the bytes break.
    pub fn decode(record: &[u8]) -> Result<Self, FrameError> {
        let Header { kind, epoch, seq, prev, codec } = Header::decode(record)?;
        let body = codec.unpack(&record[HEADER_BYTES..]).ok_or(FrameError::BadBody)?.into_owned();
        Ok(Self { kind, epoch, seq, prev, codec, body })
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
        let (kind, codec, prev) = (Kind::Envelope, Codec::Plain, Hash::of(b"before"));
        Frame { kind, epoch: 3, seq: 9, prev, codec, body: b"{}".to_vec() }
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

    /// What a packed body means is frozen; others may pack it otherwise.
    #[test]
    fn packed_format_is_frozen() {
        let packed = b"\0\0\0\x19\x79{\"a\":1,\x06\0\x50a\":1}";
        assert_eq!(Codec::Lz4.unpack(packed).as_deref(), Some(&br#"{"a":1,"a":1,"a":1,"a":1}"#[..]));
        assert_eq!(Codec::Lz4.unpack(&packed[..packed.len() - 1]), None);
    }

    /// Whatever a header promises: nothing longer than a plain body may be is ever made.
    #[test]
    fn unpacked_body_is_bounded() {
        let body = vec![b' '; MAX_BODY_BYTES];
        let largest = Frame { body, codec: Codec::Lz4, ..frame() };
        let mut packed = Codec::Lz4.pack(&largest.body).into_owned();
        assert_eq!(Frame::decode(&largest.encode().unwrap()), Ok(largest));
        let longer = u32::try_from(MAX_BODY_BYTES + 1).unwrap().to_be_bytes();
        packed[..4].copy_from_slice(&longer);
        assert_eq!(Codec::Lz4.unpack(&packed), None);
        let bytes = MAX_FRAME_BYTES + 1;
        let larger = Frame { body: vec![b' '; MAX_BODY_BYTES + 1], codec: Codec::Lz4, ..frame() };
        assert_eq!(larger.encode(), Err(FrameError::FrameTooLarge { bytes }));
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
        assert_eq!(resealed(6, 1), FrameError::BadBody);
        assert_eq!(resealed(6, 2), FrameError::UnknownCodec(2));
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
        fn decode_is_the_inverse_of_encode(code in 0_u8..5, codec in 0_u8..2, epoch: u64, seq: u64, prev: [u8; 32], body in vec(any::<u8>(), 0..300)) {
            let (kind, codec) = (Kind::from_code(code).unwrap(), Codec::from_code(codec).unwrap());
            let frame = Frame { kind, epoch, seq, prev: Hash::from_bytes(prev), codec, body };
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
