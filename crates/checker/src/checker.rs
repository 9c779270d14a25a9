//! The checker: records in, a report out.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidemill_model::{Envelope, Reply, WorkMessage};

use crate::effects::Effects;
use crate::findings::{Findings, Report};
use crate::messages::Messages;
use crate::partition::{Partition, Pushed, Shared};
use crate::places::Places;
use crate::shard::Bounds;

/// What a journal alone cannot tell a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nothing is on its way any more: also check that every assignment has ended, every due time and child
    /// is generated, and every message has arrived. Default: no.
    pub at_rest: bool,
    /// How far clocks of owners and log may be apart, milliseconds. Default 5,000; the simulator's is 0.
    pub clock_tolerance_ms: u32,
    /// Most events of one batch. Default 10,000.
    pub max_events_per_batch: u32,
    /// Also read the commands, where [`crate::check_log`] or [`crate::check_file`] can. Default: yes.
    pub commands: bool,
    /// Replies or work messages will be given: keep what they are compared with. Default: no.
    pub effects: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            at_rest: false,
            clock_tolerance_ms: 5_000,
            max_events_per_batch: 10_000,
            commands: true,
            effects: false,
        }
    }
}

/// Checks a history, record by record. Partitions may be mixed in any way; within one, offsets ascend, and a
/// command comes before the envelope that decides it.
#[derive(Debug)]
pub struct Checker {
    options: Options,
    partitions: BTreeMap<u32, Partition>,
    messages: Messages,
    places: Places,
    effects: Effects,
    found: Findings,
}

impl Checker {
    /// A checker before the first record.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let effects = Effects::new(options.effects);
        Self {
            options,
            partitions: BTreeMap::new(),
            messages: Messages::default(),
            places: Places::default(),
            effects,
            found: Findings::default(),
        }
    }

    /// The next record of a journal; never panics, whatever the bytes.
    pub fn push(&mut self, partition: u32, offset: u64, bytes: &[u8]) {
        self.push_record(partition, Pushed { offset, taken_ms: None, bytes, decoded: None });
    }

    /// The next record of a journal, with the log's time of its append in milliseconds since 1970.
    pub fn push_timed(&mut self, partition: u32, offset: u64, taken_ms: i64, bytes: &[u8]) {
        self.push_record(partition, Pushed { offset, taken_ms: Some(taken_ms), bytes, decoded: None });
    }

    /// The same of a caller who has decoded these very bytes already, if they are an envelope: once is enough.
    pub fn push_decoded(
        &mut self,
        partition: u32,
        offset: u64,
        taken_ms: i64,
        bytes: &[u8],
        decoded: Option<&Envelope>,
    ) {
        self.push_record(partition, Pushed { offset, taken_ms: Some(taken_ms), bytes, decoded });
    }

    fn push_record(&mut self, partition: u32, record: Pushed<'_>) {
        let bounds = self.bounds();
        let (found, messages, effects) = (&self.found, &mut self.messages, &mut self.effects);
        let mut shared = Shared { found, messages, places: &mut self.places, effects };
        let partition = self.partitions.entry(partition).or_insert_with(|| Partition::new(partition, bounds));
        partition.push(record, &mut shared);
    }

    /// The next command of a partition, with the log's time of its append where that is known.
    pub fn push_command(&mut self, partition: u32, offset: u64, taken_ms: Option<i64>, value: &[u8]) {
        let bounds = self.bounds();
        self.found.report.get_mut().commands += 1;
        let partition = self.partitions.entry(partition).or_insert_with(|| Partition::new(partition, bounds));
        partition.commands.give(offset, taken_ms, value);
    }

    /// A reply that was sent. Needs [`Options::effects`] from the first record on.
    pub fn push_reply(&mut self, reply: &Reply) {
        self.effects.replies.push(reply.clone());
    }

    /// A work message that was sent. Needs [`Options::effects`] from the first record on.
    pub fn push_work(&mut self, message: &WorkMessage) {
        self.effects.work.push(message.clone());
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            tolerance: SignedDuration::from_millis(i64::from(self.options.clock_tolerance_ms)),
            events_per_batch: self.options.max_events_per_batch,
        }
    }

    /// Checks what only the whole history shows, and reports.
    #[must_use]
    pub fn finish(self) -> Report {
        let count = self.partitions.values().find_map(|partition| partition.link.count);
        let whole = count.is_some_and(|count| (0..count).all(|id| self.partitions.contains_key(&id)));
        if whole && !self.partitions.values().any(|partition| partition.broken) {
            self.messages.finish(self.options.at_rest, &self.found);
            self.places.finish(&self.found);
            self.effects.finish(&self.found);
        }
        if self.options.at_rest {
            for partition in self.partitions.values() {
                partition.at_rest(&self.found);
            }
        }
        let partitions = self.partitions.values().map(Partition::summary).collect();
        Report { partitions, ..self.found.report.into_inner() }
    }
}
