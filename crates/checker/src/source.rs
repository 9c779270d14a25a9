//! Whole histories: a live log of any back end, or an exported file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tidemill_model::{Envelope, Json as _};

use tidemill_log::{Frame, From, Kind, Log, Reader, Record, Topic};

use crate::commands::Loss;
use crate::export::read_export;
use crate::{Checker, Error, Options, Report};

const BATCH: usize = 512;
const PATIENCE: Duration = Duration::from_secs(10);
/// Commands are given until they are this much younger than the journal records that follow, so that a
/// timer's neighbours are seen.
const AHEAD_MS: i64 = 10_000;

/// Up to where the topics of a log are read.
pub type Ends = BTreeMap<(Topic, u32), u64>;

/// One record of a history.
pub(crate) struct Entry<'a> {
    pub(crate) topic: Topic,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) taken_ms: i64,
    pub(crate) bytes: &'a [u8],
}

/// Checks the journals of a log as they stand now, with their commands unless the options say no.
///
/// # Errors
/// The log cannot be read.
pub fn check_log(log: &dyn Log, options: Options) -> Result<Report, Error> {
    let mut checker = Checker::new(options);
    each_entry(log, options.commands, None, &mut |entry| {
        push(&mut checker, &entry);
        Ok(())
    })?;
    Ok(checker.finish())
}

/// Checks an exported file, see [`crate::export_journal`].
///
/// # Errors
/// The file cannot be read, or is not a whole export.
pub fn check_file(path: &Path, options: Options) -> Result<Report, Error> {
    let mut checker = Checker::new(options);
    read_export(path, &mut |entry| {
        if options.commands || entry.topic == Topic::Journal {
            push(&mut checker, &entry);
        }
    })?;
    Ok(checker.finish())
}

fn push(checker: &mut Checker, entry: &Entry<'_>) {
    if entry.topic == Topic::Commands {
        checker.push_command(entry.partition, entry.offset, Some(entry.taken_ms), entry.bytes);
    } else {
        checker.push_timed(entry.partition, entry.offset, entry.taken_ms, entry.bytes);
    }
}

/// Gives every record of the journals of a log, and of their commands, in an order that a check can use.
pub(crate) fn each_entry(
    log: &dyn Log,
    commands: bool,
    ends: Option<&Ends>,
    to: &mut dyn FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for partition in 0..log.partitions(Topic::Journal) {
        let mut journal = Tail::open(log, Topic::Journal, partition, ends)?;
        // Its end is asked for after the journal's, so a decided command is always below it.
        let mut specs =
            if commands { Some(Tail::open(log, Topic::Commands, partition, ends)?) } else { None };
        let loss = if commands { last_loss(log, partition)? } else { None };
        while let Some(mut batch) = journal.next()? {
            let later = batch.split_off(batch.partition_point(|record| loss >= Some(record.offset)));
            for record in &batch {
                to(journal.entry(record))?;
            }
            let newest = later.iter().map(|record| record.timestamp_ms).max();
            if let (Some(specs), Some(newest)) = (&mut specs, newest) {
                specs.give_until(newest.saturating_add(AHEAD_MS), to)?;
            }
            for record in &later {
                to(journal.entry(record))?;
            }
        }
        if let Some(specs) = &mut specs {
            specs.give_until(i64::MAX, to)?;
        }
    }
    Ok(())
}

/// Offset of the last journal record by which an operator accepted a loss: what the journal says before it is
/// of another topic than the one that is there now.
fn last_loss(log: &dyn Log, partition: u32) -> Result<Option<u64>, Error> {
    let mut journal = Tail::open(log, Topic::Journal, partition, None)?;
    let mut last = None;
    while let Some(batch) = journal.next()? {
        let accepts = |record: &&Record| {
            // Most records are told apart without reading them.
            record.value.windows(LOSS.len()).any(|window| window == LOSS) && holds_loss(&record.value)
        };
        last = batch.iter().rev().find(accepts).map(|record| record.offset).or(last);
    }
    Ok(last)
}

/// The event as it is written.
const LOSS: &[u8] = b"\"command_loss_accepted\"";

fn holds_loss(record: &[u8]) -> bool {
    let frame = Frame::decode(record).ok().filter(|frame| frame.kind == Kind::Envelope);
    let envelope = frame.and_then(|frame| Envelope::from_json(&frame.body).ok());
    envelope.is_some_and(|envelope| Loss::of(&envelope).is_some())
}

/// One partition of a topic, from its first record to the end that it has when opened.
struct Tail {
    topic: Topic,
    partition: u32,
    reader: Box<dyn Reader>,
    next: u64,
    end: u64,
    kept: std::collections::VecDeque<Record>,
}

impl Tail {
    fn open(log: &dyn Log, topic: Topic, partition: u32, ends: Option<&Ends>) -> Result<Self, Error> {
        let failed = |source| Error::ReadLog { topic, partition, source };
        let range = log.range(topic, partition).map_err(failed)?;
        let reader = log.reader(topic, partition, From::Start).map_err(failed)?;
        let kept = std::collections::VecDeque::new();
        let end = ends.and_then(|ends| ends.get(&(topic, partition)).copied()).unwrap_or(range.end);
        Ok(Self { topic, partition, reader, next: range.start, end: end.min(range.end), kept })
    }

    /// The next records; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Record>>, Error> {
        if self.next >= self.end {
            return Ok(None);
        }
        let (topic, partition) = (self.topic, self.partition);
        let polled = self.reader.poll(BATCH, PATIENCE);
        let mut batch = polled.map_err(|source| Error::ReadLog { topic, partition, source })?;
        batch.retain(|record| record.offset < self.end);
        let Some(last) = batch.last() else {
            return Err(Error::Stalled { topic, partition, offset: self.next, end: self.end });
        };
        self.next = last.offset.saturating_add(1);
        Ok(Some(batch))
    }

    fn give_until(
        &mut self,
        taken_ms: i64,
        to: &mut dyn FnMut(Entry<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            while self.kept.front().is_some_and(|record| record.timestamp_ms <= taken_ms) {
                if let Some(record) = self.kept.pop_front() {
                    to(self.entry(&record))?;
                }
            }
            if !self.kept.is_empty() {
                return Ok(());
            }
            match self.next()? {
                Some(batch) => self.kept.extend(batch),
                None => return Ok(()),
            }
        }
    }

    fn entry<'a>(&self, record: &'a Record) -> Entry<'a> {
        let (topic, partition) = (self.topic, self.partition);
        Entry { topic, partition, offset: record.offset, taken_ms: record.timestamp_ms, bytes: &record.value }
    }
}
