//! What happened, read from the journal afterwards: no clock of a measurement runs meanwhile.

use std::time::Duration;

use jiff::Timestamp;
use tidemill_log::{Chain, From, Kind, Log, Topic, Verdict};
use tidemill_model::{Envelope, Event};

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

/// How many events a journal holds, and the offset of its last record. Looks at bytes only.
pub(crate) fn extent(log: &dyn Log, partition: u32) -> anyhow::Result<(u64, u64)> {
    let end = log.range(Topic::Journal, partition)?.end;
    let mut reader = log.reader(Topic::Journal, partition, From::Start)?;
    let (mut next, mut events) = (0, 0);
    while next < end {
        for record in reader.poll(1_000, Duration::from_secs(1))? {
            next = record.offset + 1;
            events += memchr::memmem::find_iter(&record.value, "{\"shard\":").count() as u64;
        }
    }
    Ok((events, end.saturating_sub(1)))
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
            seen += memchr::memmem::find_iter(&record.value, needle).count();
        }
    }
    Ok(())
}
