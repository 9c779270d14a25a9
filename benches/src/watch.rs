//! Follows one journal while it grows. Looks at bytes only, and at each record once, so that watching costs
//! little beside what is watched.

use std::time::{Duration, Instant};

use tidemill_log::{From, Log, Reader, Topic};

/// Stands in a record once for each event. Its shard does not: lists of parents name shards, too.
const EVENT: &str = ",\"event\":{";
const RECORDS_AT_ONCE: usize = 1_000;
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Watch {
    partition: u32,
    reader: Box<dyn Reader>,
    next: u64,
    events: u64,
    bytes: u64,
}

impl Watch {
    /// From the journal's beginning.
    pub(crate) fn start(log: &dyn Log, partition: u32) -> anyhow::Result<Self> {
        let reader = log.reader(Topic::Journal, partition, From::Start)?;
        Ok(Self { partition, reader, next: 0, events: 0, bytes: 0 })
    }

    /// Waits until `needle` has come `count` times behind where it has read to.
    pub(crate) fn until(&mut self, needle: &str, count: usize, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        let mut seen = 0;
        while seen < count {
            if Instant::now() > deadline {
                anyhow::bail!("only {seen} of {count} {needle} after {} s", patience.as_secs());
            }
            seen += self.read(needle)?;
        }
        Ok(())
    }

    /// Reads to the present end. Gives how many events the journal holds to there, and its last offset.
    pub(crate) fn read_to_end(&mut self, log: &dyn Log) -> anyhow::Result<(u64, u64)> {
        let end = log.range(Topic::Journal, self.partition)?.end;
        while self.next < end {
            self.read(EVENT)?;
        }
        Ok((self.events, self.next.saturating_sub(1)))
    }

    /// Bytes of the records read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often `needle` came in what could be read now.
    fn read(&mut self, needle: &str) -> anyhow::Result<usize> {
        let mut seen = 0;
        for record in self.reader.poll(RECORDS_AT_ONCE, POLL)? {
            self.next = record.offset + 1;
            self.bytes += record.value.len() as u64;
            self.events += memchr::memmem::find_iter(&record.value, EVENT).count() as u64;
            seen += memchr::memmem::find_iter(&record.value, needle).count();
        }
        Ok(seen)
    }
}
