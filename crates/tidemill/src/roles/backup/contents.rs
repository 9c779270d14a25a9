//! What the records of a backup or an export add up to, read before anything is done with them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tidemill_cli::{Done, Exit, Failure};
use tidemill_log::{Chain, Kind, LogId, Payload, Record, Topic, Verdict};
use tidemill_model::{Envelope, Level, ReadError};

/// Where a journal and its commands stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    pub(super) partition: u32,
    /// The last record that counts: its offset, ownership, number and hash.
    pub(super) offset: u64,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) hash: String,
    /// The first command that is there, and the one that would be next; absent: there is none.
    pub(super) commands: Option<(u64, u64)>,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) log_id: LogId,
    pub(super) level: Level,
    pub(super) partitions: Vec<Place>,
}

impl Contents {
    /// How many partitions the log has.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    /// Reads an exported file: every record is there, and leads to the next one.
    pub(super) fn of(file: &Path) -> Done<Self> {
        let bad = |why: String| Failure::bad_input(format!("{}: {why}", file.display()));
        let mut journals: BTreeMap<u32, Journal> = BTreeMap::new();
        let mut broken = None;
        let read = tidemill_checker::each_exported(file, &mut |topic, partition, record| {
            if broken.is_none() {
                broken = journals.entry(partition).or_default().take(topic, &record).err();
            }
        });
        read.map_err(|error| {
            Failure::caused(format!("{} cannot be restored", file.display()), &error)
                .with_exit(Exit::BadInput)
                .hint("name a directory of `tidemill backup`, or a file of `tidemill journal export`")
        })?;
        if let Some(why) = broken {
            return Err(bad(why));
        }
        let mut contents: Option<Self> = None;
        for (expected, (partition, journal)) in (0..).zip(&journals) {
            let (place, log_id, count) = journal
                .place(*partition)
                .ok_or_else(|| bad(format!("the journal of partition {partition} has no genesis")))?;
            let level = journal.level().map_err(|error| level_failure(file, *partition, &error))?;
            let whole = contents.get_or_insert_with(|| Self {
                log_id: log_id.clone(),
                level,
                partitions: Vec::new(),
            });
            if *partition != expected
                || whole.log_id != log_id
                || usize::try_from(count) != Ok(journals.len())
            {
                return Err(bad(format!(
                    "the journal of partition {partition} is of log {log_id} with {count} partitions; there are {} journals, \
                     the first one of log {}",
                    journals.len(),
                    whole.log_id
                )));
            }
            whole.level = whole.level.max(level);
            whole.partitions.push(place);
        }
        contents.ok_or_else(|| bad("it has no journal".to_owned()))
    }
}

fn level_failure(file: &Path, partition: u32, error: &ReadError) -> Failure {
    let what = format!("{}: the journal of partition {partition} is not understood", file.display());
    let exit = if matches!(error, ReadError::TooNew { .. }) { Exit::TooOld } else { Exit::BadInput };
    Failure::caused(what, error).with_exit(exit)
}

/// A journal as far as it was read, and its commands.
#[derive(Default)]
struct Journal {
    chain: Chain,
    next: u64,
    commands: Option<(u64, u64)>,
    /// The last envelope that counts.
    last: Option<Payload>,
}

impl Journal {
    fn take(&mut self, topic: Topic, record: &Record) -> Result<(), String> {
        let offset = record.offset;
        if topic != Topic::Journal {
            let (first, next) = self.commands.unwrap_or((offset, offset));
            self.commands = Some((first, offset + 1));
            return if offset == next { Ok(()) } else { Err(format!("command {next} is missing")) };
        }
        if offset != self.next {
            return Err(format!("record {} of a journal is missing", self.next));
        }
        self.next = offset + 1;
        if let Verdict::Accepted(header) = self.chain.accept(offset, &record.value)
            && header.kind == Kind::Envelope
        {
            self.last = Some(record.value.clone());
        }
        Ok(())
    }

    fn place(&self, partition: u32) -> Option<(Place, LogId, u32)> {
        let head = self.chain.head()?;
        let (offset, epoch, seq, hash) = (head.offset, head.epoch, head.seq, head.hash.to_string());
        let place = Place { partition, offset, epoch, seq, hash, commands: self.commands };
        Some((place, head.log_id.clone(), head.count))
    }

    /// The level that stands after the last envelope.
    fn level(&self) -> Result<Level, ReadError> {
        let Some(last) = &self.last else { return Ok(Level::FIRST) };
        let envelope = last.decoded(|body| Envelope::read(body, tidemill_journal::reads()))?;
        let raised = envelope.events.iter().filter_map(|recorded| recorded.event.raises()).max();
        Ok(raised.unwrap_or(envelope.level).max(envelope.level))
    }
}
