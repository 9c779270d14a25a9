//! What happened, read from the journal afterwards: no clock of a measurement runs meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tidemill_journal::{Journal, Start};
use tidemill_log::{Log, Topic};
use tidemill_model::{Event, Timestamp};

/// One journal, as far as workloads ask.
pub(crate) struct History {
    pub(crate) facts: Vec<(Timestamp, Event)>,
}

pub(crate) fn read(log: &dyn Log, partition: u32) -> anyhow::Result<History> {
    let end = log.range(Topic::Journal, partition)?.end;
    let mut journal = Journal::open(log, partition, "the benchmark", Start::Beginning)?;
    let mut history = History { facts: Vec::new() };
    let mut next = 0;
    while next < end {
        let read = journal.poll(1_000, Duration::from_secs(1))?;
        next = read.last.map_or(next, |last| last + 1);
        for envelope in read.entries.into_iter().map(|entry| Arc::unwrap_or_clone(entry.envelope)) {
            history.facts.extend(envelope.events.into_iter().map(|recorded| (envelope.now, recorded.event)));
        }
    }
    Ok(history)
}
