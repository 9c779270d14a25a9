//! Follows one journal while it grows. Looks at bytes only, and at each record once, so that watching costs
//! little beside what is watched.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tidemill_log::{From, Log, Reader, Topic};
use tidemill_projector::schemas::beginnings;

/// Stands in a record once for each event. Its shard does not: lists of parents name shards, too.
const EVENT: &str = ",\"event\":{";
const RECORDS_AT_ONCE: usize = 1_000;
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Watch {
    partition: u32,
    reader: Box<dyn Reader>,
    next: u64,
    /// What stands behind [`EVENT`] where the feed has the event, too.
    public: HashSet<Vec<u8>>,
    events: u64,
    bytes: u64,
}

fn public_names() -> HashSet<Vec<u8>> {
    let public = beginnings().into_iter().filter(|(kind, _)| kind.sentence().is_some());
    public.filter_map(|(_, text)| name_of(text.as_bytes()).map(<[u8]>::to_vec)).collect()
}

/// The names of an event's aggregate and of its variant, as `{"batch":{"finished":…` has them.
fn name_of(json: &[u8]) -> Option<&[u8]> {
    let names = json.strip_prefix(b"{")?;
    let lengths = names.splitn(3, |byte| *byte == b':').map(<[u8]>::len);
    lengths.take(2).reduce(|one, two| one + 1 + two).map(|end| &names[..end])
}

impl Watch {
    /// From the journal's beginning.
    pub(crate) fn start(log: &dyn Log, partition: u32) -> anyhow::Result<Self> {
        let reader = log.reader(Topic::Journal, partition, From::Start)?;
        Ok(Self { partition, reader, next: 0, public: public_names(), events: 0, bytes: 0 })
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

    /// Reads to the present end. Gives how many public events the journal holds to there, and its last offset.
    pub(crate) fn read_to_end(&mut self, log: &dyn Log) -> anyhow::Result<(u64, u64)> {
        let end = log.range(Topic::Journal, self.partition)?.end;
        while self.next < end {
            self.read(EVENT)?;
        }
        Ok((self.events, self.next.saturating_sub(1)))
    }

    fn public_events(&self, record: &[u8]) -> u64 {
        let names = memchr::memmem::find_iter(record, EVENT)
            .filter_map(|at| name_of(&record[at + EVENT.len() - 1..]));
        names.filter(|name| self.public.contains(*name)).count() as u64
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
            let body = record.value.body();
            self.events += self.public_events(&body);
            seen += memchr::memmem::find_iter(&body, needle).count();
        }
        Ok(seen)
    }
}
