//! A block: records one after the other, compressed together with Snappy.
//!
//! A record is its offset (8 bytes), append time (8), length of its key (4) and of its value (4), all with the lowest
//! byte first, then key and value.

use tidemill_log::Record;

use super::MAX_BLOCK_BYTES;

const HEAD: usize = 24;

/// Adds a record to what is not compressed yet.
pub(super) fn push(raw: &mut Vec<u8>, record: &Record) {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("no record has 4 GiB").to_le_bytes();
    raw.extend(record.offset.to_le_bytes());
    raw.extend(record.timestamp_ms.to_le_bytes());
    raw.extend(length(&record.key));
    raw.extend(length(&record.value));
    raw.extend(&record.key);
    raw.extend(&*record.value);
}

/// Compresses.
pub(super) fn compress(raw: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(raw).expect("a block is far below 4 GiB")
}

/// The records of a block, or what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let length = snap::raw::decompress_len(bytes).map_err(|error| error.to_string())?;
    if length > MAX_BLOCK_BYTES {
        return Err(format!("a block says that it has {length} bytes, and none has over {MAX_BLOCK_BYTES}"));
    }
    let raw = snap::raw::Decoder::new().decompress_vec(bytes).map_err(|error| error.to_string())?;
    let (mut records, mut rest) = (Vec::new(), raw.as_slice());
    while !rest.is_empty() {
        let (record, after) = take(rest).ok_or("a block ends within a record")?;
        records.push(record);
        rest = after;
    }
    Ok(records)
}

fn take(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let wide = |at: usize| head[at..at + 8].try_into().expect("eight bytes");
    let length = |at: usize| {
        usize::try_from(u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"))).ok()
    };
    let (key, rest) = rest.split_at_checked(length(16)?)?;
    let (value, rest) = rest.split_at_checked(length(20)?)?;
    let (offset, timestamp_ms) = (u64::from_le_bytes(wide(0)), i64::from_le_bytes(wide(8)));
    Some((Record { offset, timestamp_ms, key: key.to_vec(), value: value.into() }, rest))
}
