//! Records of a journal as a broker may hand them out: any bytes, and frames whose header is right for any body.

use tidemill_corpus::corpus;
use tidemill_log::{Chain, Frame, HEADER_BYTES, Verdict};

/// Where length and checksum stand in the header.
const LENGTH: std::ops::Range<usize> = 56..60;
const CHECKSUM: std::ops::Range<usize> = 60..64;

/// The bytes with length and checksum set right, so that what is behind them is reached.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut record = input.to_vec();
    record.resize(record.len().max(HEADER_BYTES), 0);
    let length = u32::try_from(record.len() - HEADER_BYTES).expect("inputs are bounded");
    record[LENGTH].copy_from_slice(&length.to_be_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..CHECKSUM.start]);
    hasher.update(&record[CHECKSUM.end..]);
    record[CHECKSUM].copy_from_slice(&hasher.finalize().to_be_bytes());
    record
}

/// Whatever is decoded is encoded to the same bytes, and a chain has a verdict on everything.
#[test]
fn frames_and_chains_take_any_bytes() {
    let frames = corpus!("frame");
    let mut whole = Chain::new();
    for (offset, record) in (0..).zip(frames.inputs()) {
        whole.accept(offset, &record.as_slice().into());
    }
    frames.fuzz(4_000, |input| {
        for record in [input.to_vec(), sealed(input)] {
            if let Ok(frame) = Frame::decode(&record) {
                assert_eq!(frame.encode().as_deref(), Ok(&*record));
            }
            for mut chain in [Chain::new(), whole.clone()] {
                let before = chain.head().cloned();
                let verdict = chain.accept(1_000, &record.as_slice().into());
                let moved = chain.head() != before.as_ref();
                assert_eq!(moved, matches!(verdict, Verdict::Accepted(_)));
            }
        }
    });
}
