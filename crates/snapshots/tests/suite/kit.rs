//! A journal that is written record by record, and a directory of snapshots.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidemill_log::{Chain, From, Head, Kind, Log, MemoryLog, Payload, Topic, append_wait};
use tidemill_model::{
    Cause, Envelope, Event, Json as _, Level, Outcome, PartitionEvent, Recorded, ShardId, Source, Timestamp,
};
use tidemill_snapshots::{
    Config, Error, Fold, Mark, Restored, Sight, Snapshots, Taken, Until, restore, take, verify,
};

const PATIENCE: Duration = Duration::from_secs(10);
/// Partition 1 of two.
pub(crate) const PARTITION: u32 = 1;

pub(crate) struct World {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) snapshots: Snapshots,
    pub(crate) place: TempDir,
    pub(crate) chain: Chain,
    next: u64,
    second: i64,
}

impl World {
    /// With a claim, and as many harmless envelopes.
    pub(crate) fn new(envelopes: u64) -> Self {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(2));
        let place = tempfile::tempdir().unwrap();
        let config = Config { place: Some(place.path().display().to_string()), ..Config::default() };
        let snapshots = Snapshots::open(&config, log.log_id().clone()).unwrap().unwrap();
        let mut reader = log.reader(Topic::Journal, PARTITION, From::Start).unwrap();
        let genesis = reader.poll(1, PATIENCE).unwrap().remove(0);
        let mut world = Self { log, snapshots, place, chain: Chain::new(), next: 0, second: 0 };
        world.judge(&genesis.value);
        world.claim();
        for _ in 0..envelopes {
            world.envelope(Vec::new());
        }
        world
    }

    fn judge(&mut self, record: &Payload) -> u64 {
        self.chain.accept(self.next, record);
        self.next += 1;
        self.next - 1
    }

    /// Any bytes as the next record; gives its offset.
    pub(crate) fn put(&mut self, record: Vec<u8>) -> u64 {
        let producer = self.log.producer().unwrap();
        append_wait(&*producer, Topic::Journal, PARTITION, b"", record.clone(), PATIENCE).unwrap();
        self.judge(&record.into())
    }

    pub(crate) fn head(&self) -> Head {
        self.chain.head().unwrap().clone()
    }

    pub(crate) fn claim(&mut self) {
        let claim = self.head().claim("somebody", "address").unwrap();
        self.put(claim);
    }

    pub(crate) fn body(&mut self, events: Vec<PartitionEvent>) -> Envelope {
        self.second += 1;
        let now = Timestamp::from_second(self.second).unwrap();
        let causes =
            vec![Cause { source: Source::Observed, outcome: Outcome::Done, events: events.len() as u32 }];
        let recorded = |event: PartitionEvent| Recorded { shard: ShardId(1), event: Event::from(event) };
        let events = events.into_iter().map(recorded).collect();
        Envelope { now, level: Level::FIRST, resume: None, causes, events }
    }

    /// One second later each.
    pub(crate) fn envelope(&mut self, events: Vec<PartitionEvent>) -> u64 {
        let body = self.body(events).to_json().into_bytes();
        let (record, _) = self.head().tip().next(Kind::Envelope, body).unwrap();
        self.put(record)
    }

    fn sight(&self) -> Sight<'_> {
        let (log, snapshots, reads) = (&*self.log, &self.snapshots, Level::READS);
        Sight { log, snapshots, partition: PARTITION, reads, is_stopped: &|| false }
    }

    pub(crate) fn try_take(&self, mark: Mark) -> Result<Taken, Error> {
        take(&self.sight(), mark, true)
    }

    /// Of the last record, and not named.
    pub(crate) fn take(&self) -> Taken {
        self.try_take(Mark::from(&self.head())).unwrap()
    }

    /// Of the last record, and named by the next one.
    pub(crate) fn take_and_name(&mut self) -> Taken {
        let taken = self.take();
        self.envelope(vec![taken.event()]);
        taken
    }

    pub(crate) fn verify(&self, taken: &Taken, older_than: u64) -> Result<(), Error> {
        verify(&self.sight(), &taken.name, older_than)
    }

    pub(crate) fn restore(&self, until: Until) -> Restored {
        restore(&*self.log, Some(&self.snapshots), PARTITION, Level::READS, until)
    }

    /// With which record a fold begins; none: with the first.
    pub(crate) fn begins_with(&self, until: Until) -> Option<u64> {
        self.restore(until).begun.map(|begun| begun.name.offset)
    }

    /// From the first record up to and without this one.
    pub(crate) fn folded(&self, end: u64) -> Fold {
        let mut reader = self.log.reader(Topic::Journal, PARTITION, From::Start).unwrap();
        let mut fold = Fold::beginning(PARTITION, 2);
        while fold.next < end {
            for record in reader.poll(1, PATIENCE).unwrap() {
                fold.take(&record, Level::READS).unwrap();
            }
        }
        fold
    }
}
