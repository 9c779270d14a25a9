//! What happened, read from the journal afterwards: no clock of a measurement runs meanwhile.

use std::time::Duration;

use jiff::Timestamp;
use tidemill_log::{Chain, From, Kind, Log, Topic, Verdict};
use tidemill_model::{Envelope, Event};

/// One journal, as far as workloads ask.
pub(crate) struct History {
    pub(crate) facts: Vec<(Timestamp, Event)>,
    pub(crate) events: u64,
    pub(crate) last_envelope: Option<u64>,
}

pub(crate) fn read(log: &dyn Log, partition: u32) -> anyhow::Result<History> {
    let end = log.range(Topic::Journal, partition)?.end;
    let mut reader = log.reader(Topic::Journal, partition, From::Start)?;
    let mut chain = Chain::new();
    let mut history = History { facts: Vec::new(), events: 0, last_envelope: None };
    let mut next = 0;
    while next < end {
        for record in reader.poll(1_000, Duration::from_secs(1))? {
            next = record.offset + 1;
            let Verdict::Accepted(frame) = chain.accept(record.offset, &record.value) else { continue };
            if frame.kind != Kind::Envelope {
                continue;
            }
            let envelope: Envelope = serde_json::from_slice(&frame.body)?;
            history.events += envelope.events.len() as u64;
            history.last_envelope = Some(record.offset);
            history.facts.extend(envelope.events.into_iter().map(|recorded| (envelope.now, recorded.event)));
        }
    }
    Ok(history)
}

/// Waits until `count` records' worth of `needle` stand in the envelopes behind `from`. Looks at bytes only, so
/// that watching costs little beside what is watched.
pub(crate) fn wait_for(
    log: &dyn Log,
    partition: u32,
    from: u64,
    needle: &str,
    count: usize,
    patience: Duration,
) -> anyhow::Result<()> {
    let deadline = std::time::Instant::now() + patience;
    let mut reader = log.reader(Topic::Journal, partition, From::Offset(from))?;
    let mut seen = 0;
    while seen < count {
        if std::time::Instant::now() > deadline {
            anyhow::bail!("only {seen} of {count} {needle} after {} s", patience.as_secs());
        }
        for record in reader.poll(1_000, Duration::from_millis(200))? {
            seen += count_in(&record.value, needle.as_bytes());
        }
    }
    Ok(())
}

fn count_in(text: &[u8], needle: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == needle[0]) {
        if rest[at..].starts_with(needle) {
            count += 1;
        }
        rest = &rest[at + 1..];
    }
    count
}
