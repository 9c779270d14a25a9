//! A reader of a journal that goes from segment to segment, and on in the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidemill_log::{Error as LogError, From, Log, Reader, Record, Relay, Topic, Waker};

use crate::Archive;
use crate::segment::Segment;

/// A log that lets go of records while a reader looks for its place does so a few times at most.
const TRIES: u32 = 8;

enum At {
    Nowhere,
    Log(Box<dyn Reader>),
    Archive(Box<Open>),
}

/// A segment, and what of its present block is not given yet.
struct Open {
    segment: Segment,
    block: usize,
    records: VecDeque<Record>,
}

/// Gives the records of a journal wherever they are.
pub(crate) struct JournalReader {
    log: Arc<dyn Log>,
    archive: Option<Arc<Archive>>,
    partition: u32,
    next: u64,
    at: At,
    relay: Relay,
}

impl JournalReader {
    /// From this offset on. Whether it is there shows here already.
    pub(crate) fn open(
        log: &Arc<dyn Log>,
        archive: Option<&Arc<Archive>>,
        partition: u32,
        next: u64,
    ) -> Result<Self, LogError> {
        let (log, archive) = (Arc::clone(log), archive.cloned());
        let mut reader = Self { log, archive, partition, next, at: At::Nowhere, relay: Relay::new() };
        reader.find_place()?;
        Ok(reader)
    }

    /// In the log, if it has the record, else in the archive.
    fn find_place(&mut self) -> Result<(), LogError> {
        for _ in 0..TRIES {
            let first = self.log.range(Topic::Journal, self.partition)?.start;
            if self.next < first {
                return self.open_segment(first);
            }
            match self.log.reader(Topic::Journal, self.partition, From::Offset(self.next)) {
                Ok(reader) => {
                    self.relay.pass_to(&reader.waker());
                    self.at = At::Log(reader);
                    return Ok(());
                }
                // It has let go of the record just now.
                Err(LogError::JournalBeginsLater { .. }) => {}
                Err(LogError::OffsetOutOfRange { low, .. }) if low > self.next => {}
                Err(error) => return Err(error),
            }
        }
        Err(LogError::JournalBeginsLater { partition: self.partition, first: self.next + 1 })
    }

    fn open_segment(&mut self, first: u64) -> Result<(), LogError> {
        let partition = self.partition;
        let Some(archive) = &self.archive else {
            return Err(LogError::JournalBeginsLater { partition, first });
        };
        let segment =
            archive.segment_with(partition, self.next).map_err(|error| error.of_reader(partition))?;
        let block = segment.block_of(self.next);
        self.relay.keep();
        self.at = At::Archive(Box::new(Open { segment, block, records: VecDeque::new() }));
        Ok(())
    }

    /// Records of the present segment; none where it is at its end.
    fn of_segment(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        let At::Archive(open) = &mut self.at else { return Ok(Vec::new()) };
        while open.records.is_empty() && open.block < open.segment.footer().blocks.len() {
            let block = open.segment.block(open.block);
            open.records = block.map_err(|error| error.of_reader(self.partition))?.into();
            open.records.retain(|record| record.offset >= self.next);
            open.block += 1;
        }
        let count = max_records.max(1).min(open.records.len());
        let records: Vec<Record> = open.records.drain(..count).collect();
        match records.last() {
            Some(last) => self.next = last.offset + 1,
            // Offsets that the log itself never had, if any.
            None => self.next = self.next.max(open.segment.footer().next),
        }
        Ok(records)
    }

    /// Records of the log; `None` where what comes next is not there any more.
    fn of_log(&mut self, max_records: usize, timeout: Duration) -> Result<Option<Vec<Record>>, LogError> {
        let At::Log(reader) = &mut self.at else { return Ok(None) };
        let records = match reader.poll(max_records, timeout) {
            Ok(records) => records,
            Err(LogError::OffsetOutOfRange { low, .. }) if low > self.next => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((first, last)) = records.first().zip(records.last()) else { return Ok(Some(records)) };
        // Of a file that is looked at while another process removes from it.
        if first.offset > self.next && self.log.range(Topic::Journal, self.partition)?.start > self.next {
            return Ok(None);
        }
        self.next = last.offset + 1;
        Ok(Some(records))
    }
}

impl Reader for JournalReader {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, LogError> {
        loop {
            match &self.at {
                At::Nowhere => self.find_place()?,
                At::Log(_) => match self.of_log(max_records, timeout)? {
                    Some(records) => return Ok(records),
                    None => self.at = At::Nowhere,
                },
                At::Archive(_) => {
                    if self.relay.take() {
                        return Ok(Vec::new());
                    }
                    let records = self.of_segment(max_records)?;
                    if !records.is_empty() {
                        return Ok(records);
                    }
                    self.at = At::Nowhere;
                }
            }
        }
    }

    fn waker(&self) -> Waker {
        self.relay.waker()
    }
}
