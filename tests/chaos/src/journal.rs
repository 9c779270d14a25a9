//! The journal, read as every reader has to: through the chain.

use std::time::Duration;

use anyhow::{Result, bail};
use tidemill_log::{Chain, Claim, From, Head, KafkaLog, Kind, Reader, Readers, Topic};
use tidemill_model::Envelope;

/// A reader that has nothing for so long, although there is more, is rebuilt; and that it stalled is told.
const PATIENCE: Duration = Duration::from_secs(10);
const STALLS: usize = 20;

/// What a record that counts says.
#[derive(Debug)]
pub(crate) enum What {
    /// Somebody takes the partition.
    Claim(Claim),
    /// What was decided.
    Envelope(Box<Envelope>),
    /// The owner has left, or cannot go on.
    Left,
    /// The first record.
    Genesis,
}

/// A record that counts.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// The log's time of its append, milliseconds since 1970.
    pub at_ms: i64,
    /// What it says.
    pub what: What,
}

struct Tail {
    partition: u32,
    reader: Box<dyn Reader>,
    chain: Chain,
    next: u64,
}

/// All partitions, from the first record on.
pub(crate) struct Journal {
    log: KafkaLog,
    tails: Vec<Tail>,
    entries: Vec<Entry>,
    stalls: Vec<String>,
}

impl Journal {
    /// Begins to read.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn open(log: KafkaLog) -> Result<Self> {
        let tails = (0..log.partitions(Topic::Journal)).map(|partition| {
            let reader = log.reader(Topic::Journal, partition, From::Start)?;
            Ok(Tail { partition, reader, chain: Chain::new(), next: 0 })
        });
        let tails = tails.collect::<Result<_>>()?;
        Ok(Self { log, tails, entries: Vec::new(), stalls: Vec::new() })
    }

    /// The log that it is on.
    #[must_use]
    pub(crate) const fn log(&self) -> &KafkaLog {
        &self.log
    }

    /// Reads up to where the journal ends now; gives what is new.
    ///
    /// # Errors
    /// The log cannot be read, or a record that counts not understood.
    pub(crate) fn catch_up(&mut self) -> Result<&[Entry]> {
        let known = self.entries.len();
        for tail in &mut self.tails {
            let end = self.log.range(Topic::Journal, tail.partition)?.end;
            while tail.next < end {
                let records = tail.reader.poll(1_000, PATIENCE)?;
                if records.is_empty() {
                    let (partition, next) = (tail.partition, tail.next);
                    let what = format!("journal {partition} gave no record at {next}, and ended at {end}");
                    if self.stalls.len() > STALLS {
                        bail!("{what}");
                    }
                    self.stalls.push(what);
                    tail.reader = self.log.reader(Topic::Journal, partition, From::Offset(next))?;
                }
                for record in records {
                    tail.next = record.offset + 1;
                    let Some(header) = tail.chain.accept(record.offset, &record.value).accepted() else {
                        continue;
                    };
                    let what = match header.kind {
                        Kind::Claim => What::Claim(serde_json::from_slice(&record.value.body())?),
                        Kind::Envelope => {
                            What::Envelope(Box::new(serde_json::from_slice(&record.value.body())?))
                        }
                        Kind::Resigned | Kind::Stopped => What::Left,
                        Kind::Genesis => What::Genesis,
                    };
                    let (partition, offset, at_ms) = (tail.partition, record.offset, record.timestamp_ms);
                    self.entries.push(Entry { partition, offset, at_ms, what });
                }
            }
        }
        Ok(&self.entries[known..])
    }

    /// All that was read so far, partition by partition in order.
    #[must_use]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Readers of the log that gave nothing although there was more.
    pub(crate) fn stalls(&self) -> &[String] {
        &self.stalls
    }

    /// Where each owner answers, partition by partition; none where nobody owns it.
    #[must_use]
    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        let owner = |head: &Head| head.owner.clone().filter(|_| !head.resigned && !head.stopped);
        self.tails.iter().map(|tail| tail.chain.head().and_then(owner).map(|claim| claim.address)).collect()
    }

    /// Whether every command that the log has is decided.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn has_decided_all(&self) -> Result<bool> {
        for tail in &self.tails {
            let end = self.log.range(Topic::Commands, tail.partition)?.end;
            let mine = self.entries.iter().rev().filter(|entry| entry.partition == tail.partition);
            let mut resumes = mine.filter_map(|entry| match &entry.what {
                What::Envelope(envelope) => envelope.resume.as_ref(),
                What::Claim(_) | What::Left | What::Genesis => None,
            });
            if resumes.next().map_or(0, |resume| resume.offset + 1) < end {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
