//! Reads a segment, block by block. Whatever is not as it was written is told with the segment's name.

use std::ops::Range;
use std::sync::Arc;

use tidemill_log::{Chain, Hash, Record};

use super::{END, Footer, MAGIC, MAX_BLOCK_BYTES, MAX_FOOTER_BYTES, SegmentName, TRAILER_BYTES, block};
use crate::{Error, Store};

/// Read at once from the end: most footers are in it.
const TAIL_BYTES: u64 = 64 << 10;

/// A segment whose footer is read and fits its name.
pub(crate) struct Segment {
    store: Arc<dyn Store>,
    name: SegmentName,
    footer: Footer,
}

impl Segment {
    /// Opens the segment, which has so many bytes.
    pub(crate) fn open(store: &Arc<dyn Store>, name: &SegmentName, bytes: u64) -> Result<Self, Error> {
        let object = whole(&**store, name);
        let damaged = |reason: &str| Error::Damaged { object: object.clone(), reason: reason.to_owned() };
        let read = |range| read(&**store, name, range);
        let tail = read(bytes.saturating_sub(TAIL_BYTES)..bytes)?;
        let Some((rest, trailer)) = tail.split_last_chunk::<TRAILER_BYTES>() else {
            return Err(damaged("it is too short for a segment"));
        };
        let (sha256, length) =
            trailer_of(trailer).ok_or_else(|| damaged("it does not end as a segment does"))?;
        let end = bytes - TRAILER_BYTES as u64;
        if length > MAX_FOOTER_BYTES || length as u64 > end.saturating_sub(MAGIC.len() as u64) {
            return Err(damaged("its footer would be longer than all of it"));
        }
        let begin = end - length as u64;
        let footer = match rest.len().checked_sub(length) {
            Some(at) => rest[at..].to_vec(),
            None => read(begin..end)?,
        };
        if Hash::of(&footer) != sha256 {
            return Err(damaged("its footer has another SHA-256 than it says"));
        }
        let footer: Footer = serde_json::from_slice(&footer)
            .map_err(|error| Error::Damaged { object: object.clone(), reason: error.to_string() })?;
        if footer.name() != *name {
            let reason = format!("its footer says that it is {}", footer.name());
            return Err(Error::Foreign { object, reason });
        }
        if read(0..MAGIC.len() as u64)? != MAGIC {
            return Err(damaged("it does not begin as a segment of this version does"));
        }
        if let Err(reason) = whole_blocks(&footer, begin) {
            return Err(damaged(&reason));
        }
        Ok(Self { store: Arc::clone(store), name: name.clone(), footer })
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(crate) fn object(&self) -> String {
        whole(&*self.store, &self.name)
    }

    /// The block that has the first record at this offset or after it.
    pub(crate) fn block_of(&self, offset: u64) -> usize {
        self.footer.blocks.partition_point(|block| block.first <= offset).saturating_sub(1)
    }

    /// The records of a block.
    pub(crate) fn block(&self, number: usize) -> Result<Vec<Record>, Error> {
        let told = &self.footer.blocks[number];
        let damaged = |reason: String| {
            let reason = format!("its block {number}, at byte {}: {reason}", told.at);
            Error::Damaged { object: self.object(), reason }
        };
        let bytes = read(&*self.store, &self.name, told.at..told.at + told.bytes)?;
        if Hash::of(&bytes) != told.sha256 {
            return Err(damaged("it has another SHA-256 than the footer says".to_owned()));
        }
        let records = block::decode(&bytes).map_err(&damaged)?;
        let next = self.footer.blocks.get(number + 1).map_or(self.footer.next, |next| next.first);
        let is_in_order = records.is_sorted_by(|one, other| one.offset < other.offset);
        let first = records.first().map(|record| record.offset);
        let is_within = records.last().is_some_and(|last| last.offset < next);
        if records.len() as u64 != told.records || first != Some(told.first) || !is_in_order || !is_within {
            return Err(damaged("it has other records than the footer says".to_owned()));
        }
        Ok(records)
    }

    /// Reads all of it, and that the chain leads from where the footer says to where it says; gives each record to `each`.
    pub(crate) fn verify(&self, mut each: impl FnMut(&Record) -> Result<(), Error>) -> Result<(), Error> {
        let mut chain = self.footer.before.clone().map_or_else(Chain::new, Chain::resume);
        let (mut records, mut bytes) = (0, 0);
        for number in 0..self.footer.blocks.len() {
            for record in self.block(number)? {
                chain.accept(record.offset, &record.value);
                records += 1;
                bytes += (record.key.len() + record.value.len()) as u64;
                each(&record)?;
            }
        }
        let told = (self.footer.records, self.footer.record_bytes, self.footer.voids);
        if chain.head() != self.footer.after.as_ref() || (records, bytes, chain.void_count()) != told {
            let reason = "its records do not lead to the end of the chain that its footer names".to_owned();
            return Err(Error::Damaged { object: self.object(), reason });
        }
        Ok(())
    }
}

fn trailer_of(trailer: &[u8; TRAILER_BYTES]) -> Option<(Hash, usize)> {
    let (sha256, rest) = trailer.split_first_chunk::<32>()?;
    let (length, end) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (end == END).then_some((Hash::from_bytes(*sha256), length))
}

/// The blocks lie one after the other from the first byte to the footer, and are as many as the records need.
fn whole_blocks(footer: &Footer, end: u64) -> Result<(), String> {
    let mut at = MAGIC.len() as u64;
    let (mut records, mut next) = (0_u64, footer.first);
    for (number, block) in footer.blocks.iter().enumerate() {
        let is_in_order = if number == 0 { block.first == next } else { block.first >= next };
        if block.at != at || !is_in_order || block.records == 0 || block.bytes > MAX_BLOCK_BYTES as u64 {
            return Err(format!("its footer says of block {number} what cannot be"));
        }
        at = at.saturating_add(block.bytes);
        next = block.first.saturating_add(block.records);
        records = records.saturating_add(block.records);
    }
    if at != end || records != footer.records || records == 0 || next > footer.next {
        return Err("its footer does not account for all of it".to_owned());
    }
    Ok(())
}

fn whole(store: &dyn Store, name: &SegmentName) -> String {
    format!("{}/{name}", store.place())
}

/// Exactly these bytes.
fn read(store: &dyn Store, name: &SegmentName, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let object = || whole(store, name);
    let wanted = range.end - range.start;
    let bytes = store.read(&name.to_string(), range).map_err(|source| Error::Store {
        what: "read",
        object: object(),
        source,
    })?;
    match bytes {
        Some(bytes) if bytes.len() as u64 == wanted => Ok(bytes),
        Some(_) => {
            Err(Error::Damaged { object: object(), reason: "it is shorter than it was listed".to_owned() })
        }
        None => Err(Error::Damaged { object: object(), reason: "it is gone".to_owned() }),
    }
}
