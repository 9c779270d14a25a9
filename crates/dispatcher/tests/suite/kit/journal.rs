//! Reads a journal, judges its chain anew, and folds what counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_engine::Partition;
use tidemill_log::{Chain, From, Head, Kind, Log, Record, Topic, Verdict};
use tidemill_model::{Envelope, Event};

use super::PATIENCE;

/// What a reader makes of a journal.
#[derive(Debug)]
pub struct History {
    pub chain: Chain,
    pub records: Vec<Record>,
    pub kinds: Vec<Kind>,
    pub envelopes: Vec<(u64, Envelope)>,
    pub state: Partition,
    partition: u32,
}

impl History {
    pub fn new(partition: u32, count: u32) -> Self {
        Self {
            chain: Chain::new(),
            records: Vec::new(),
            kinds: Vec::new(),
            envelopes: Vec::new(),
            state: Partition::new(partition, count),
            partition,
        }
    }

    pub fn take(&mut self, records: Vec<Record>) {
        for record in records {
            if let Verdict::Accepted(header) = self.chain.accept(record.offset, &record.value) {
                self.kinds.push(header.kind);
                if header.kind == Kind::Envelope {
                    let envelope: Envelope = serde_json::from_slice(&record.value.body()).unwrap();
                    self.state.apply(&envelope);
                    self.envelopes.push((record.offset, envelope));
                }
            }
            self.records.push(record);
        }
    }

    /// Reads from the first record on until the history is as wanted.
    pub fn until(
        log: &Arc<dyn Log>,
        partition: u32,
        what: &str,
        wanted: impl Fn(&History) -> bool,
    ) -> History {
        let mut history = History::new(partition, log.partitions(Topic::Journal));
        let mut reader = log.reader(Topic::Journal, partition, From::Start).unwrap();
        let end = Instant::now() + PATIENCE;
        while !wanted(&history) {
            let kinds = &history.kinds;
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}; {} accepted", kinds.len());
            history.take(reader.poll(1_000, Duration::from_millis(200)).unwrap());
        }
        history
    }

    /// All that is there now.
    pub fn now(log: &Arc<dyn Log>, partition: u32) -> History {
        let end = log.range(Topic::Journal, partition).unwrap().end;
        History::until(log, partition, "read to the end", |history| {
            history.records.last().map_or(0, |record| record.offset + 1) >= end
        })
    }

    pub fn head(&self) -> &Head {
        self.chain.head().unwrap()
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.envelopes.iter().flat_map(|(_, envelope)| envelope.events.iter().map(|recorded| &recorded.event))
    }

    /// How many events of this kind there are.
    pub fn count(&self, kind: &str) -> usize {
        self.events().filter(|event| event.kind() == kind).count()
    }

    pub fn finished(&self) -> usize {
        self.count("batch.finished")
    }

    /// Each batch was generated once, granted once, and finished once; every token was granted once.
    pub fn assert_nothing_twice(&self) {
        for kind in ["batch.generated", "start.granted", "attempt.finished", "batch.finished"] {
            let mut batches: Vec<String> =
                self.events().filter(|event| event.kind() == kind).map(Event::subject).collect();
            let all = batches.len();
            batches.sort();
            batches.dedup();
            assert_eq!(batches.len(), all, "some batch has {kind} twice in partition {}", self.partition);
        }
    }
}

/// The event's kind.
pub fn kind_of(event: &Event) -> String {
    event.kind().to_owned()
}
