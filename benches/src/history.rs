//! What happened, read from the journal afterwards: no clock of a measurement runs meanwhile.

use std::time::Duration;

use tidemill_log::{Chain, From, Kind, Log, Topic, Verdict};
use tidemill_model::{Envelope, Event, Timestamp};

/// One journal, as far as workloads ask.
pub(crate) struct History {
    pub(crate) facts: Vec<(Timestamp, Event)>,
}

pub(crate) fn read(log: &dyn Log, partition: u32) -> anyhow::Result<History> {
    let end = log.range(Topic::Journal, partition)?.end;
    let mut reader = log.reader(Topic::Journal, partition, From::Start)?;
    let mut chain = Chain::new();
    let mut history = History { facts: Vec::new() };
    let mut next = 0;
    while next < end {
        for record in reader.poll(1_000, Duration::from_secs(1))? {
            next = record.offset + 1;
            let Verdict::Accepted(frame) = chain.accept(record.offset, &record.value) else { continue };
            if frame.kind != Kind::Envelope {
                continue;
            }
            let envelope: Envelope = serde_json::from_slice(&frame.body)?;
            history.facts.extend(envelope.events.into_iter().map(|recorded| (envelope.now, recorded.event)));
        }
    }
    Ok(history)
}
