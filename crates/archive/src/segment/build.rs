//! Makes a segment, record by record; the same records give the same bytes.

use sha2::{Digest as _, Sha256};
use tidemill_log::{Chain, Hash, Head, LogId, Record, Verdict};

use super::{BLOCK_BYTES, Block, END, Footer, MAGIC, block};

/// A segment that is being made, in memory: its blocks are compressed already.
pub(crate) struct Build {
    footer: Footer,
    chain: Chain,
    bytes: Vec<u8>,
    raw: Vec<u8>,
    /// First offset, and records, of the block that is not compressed yet.
    open: (u64, u64),
}

impl Build {
    /// Of this journal, from this offset on, where the chain stands at `before`.
    pub(crate) fn new(log_id: LogId, partition: u32, first: u64, before: Option<Head>) -> Self {
        let chain = before.clone().map_or_else(Chain::new, Chain::resume);
        let footer = Footer {
            log_id,
            partition,
            first,
            next: first,
            records: 0,
            voids: 0,
            first_at_ms: 0,
            last_at_ms: 0,
            record_bytes: 0,
            before,
            after: chain.head().cloned(),
            blocks: Vec::new(),
        };
        Self { footer, chain, bytes: MAGIC.to_vec(), raw: Vec::new(), open: (first, 0) }
    }

    /// What of it is known so far.
    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Adds the next record of the journal.
    pub(crate) fn push(&mut self, record: &Record) {
        let size = record.key.len() + record.value.len();
        if !self.raw.is_empty() && self.raw.len() + size > BLOCK_BYTES {
            self.close_block();
        }
        if self.footer.records == 0 {
            self.footer.first_at_ms = record.timestamp_ms;
        }
        if self.raw.is_empty() {
            self.open = (record.offset, 0);
        }
        block::push(&mut self.raw, record);
        self.open.1 += 1;
        if let Verdict::Void(_) = self.chain.accept(record.offset, &record.value) {
            self.footer.voids += 1;
        }
        self.footer.next = record.offset + 1;
        self.footer.records += 1;
        self.footer.last_at_ms = record.timestamp_ms;
        self.footer.record_bytes += size as u64;
        self.footer.after = self.chain.head().cloned();
    }

    fn close_block(&mut self) {
        let block = block::compress(&std::mem::take(&mut self.raw));
        let (first, records) = self.open;
        self.footer.blocks.push(Block {
            first,
            records,
            at: self.bytes.len() as u64,
            bytes: block.len() as u64,
            sha256: Hash::of(&block),
        });
        self.bytes.extend(block);
    }

    /// The whole object.
    pub(crate) fn finish(mut self) -> (Footer, Vec<u8>) {
        if !self.raw.is_empty() {
            self.close_block();
        }
        let footer = serde_json::to_vec(&self.footer).expect("a footer is plain data");
        let length = u32::try_from(footer.len()).expect("a footer is far below 4 GiB");
        self.bytes.extend(&footer);
        self.bytes.extend(Sha256::digest(&footer));
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(END);
        (self.footer, self.bytes)
    }
}
