//! Reading a journal: only what counts, from a position that has to fit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidemill_log::{
    Chain, Claim, From, Head, Header, Kind, LogId, Payload, Reader, Readers, Record, Restore, Topic, Verdict,
    Waker,
};
use tidemill_model::{Envelope, Level};

use crate::Error;

/// An accepted envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it stands.
    pub offset: u64,
    /// Which log took it: of a restored one, the life that it is of.
    pub log_id: LogId,
    /// What was decided.
    pub envelope: Arc<Envelope>,
}

/// What one poll gave.
#[derive(Debug, Default)]
pub struct Read {
    /// The envelopes among the records that count.
    pub entries: Vec<Entry>,
    /// Offset of the last record, void or not; absent: there was none.
    pub last: Option<u64>,
    /// How many records were void.
    pub voids: u64,
}

/// Where to begin.
#[derive(Debug, Clone)]
pub enum Start {
    /// At the genesis.
    Beginning,
    /// After this head, whose record the journal has to have.
    After(Head),
    /// At the record of this offset, which is known to count, and which is given once more.
    At(u64),
}

enum Anchor {
    None,
    /// The next record has to be the one of this head.
    Head(Head),
    /// The next record is the first of the chain that is looked at.
    Record(u64),
}

/// Records that [`Journal::next`] asks for at once.
const AHEAD: usize = 64;

/// A position of an earlier life of the log is one of this log only up to where it was restored.
///
/// # Errors
/// [`Error::AheadOfRestore`]; [`Error::PositionMismatch`] where it is of another log.
pub(crate) fn check_life(
    log: &dyn Readers,
    (partition, offset): (u32, u64),
    of: &LogId,
    holder: &'static str,
) -> Result<(), Error> {
    if of == log.log_id() {
        return Ok(());
    }
    let Some(Restore { from, log_id, .. }) = end_of_life(log, partition, of) else {
        let found = format!("the position is of log {of}, this is log {}", log.log_id());
        return Err(Error::PositionMismatch { holder, partition, offset, found });
    };
    if offset < *from {
        return Ok(());
    }
    let (of, log_id) = (of.clone(), log_id.clone());
    Err(Error::AheadOfRestore { holder, partition, offset, of, from: *from, log_id })
}

/// The restore that ended this life of the log. Another restore of the same log is no life of this one, though its id looks
/// like one: what it recorded since is not here.
pub(crate) fn end_of_life<'a>(log: &'a dyn Readers, partition: u32, of: &LogId) -> Option<&'a Restore> {
    log.restores(partition).iter().find(|restore| restore.before == *of)
}

/// A journal, as far as it counts.
pub struct Journal {
    partition: u32,
    holder: &'static str,
    reader: Box<dyn Reader>,
    chain: Chain,
    anchor: Anchor,
    template: Template,
    reads: Level,
    /// Read, and not looked at yet.
    ahead: VecDeque<Record>,
}

/// What a head says beyond its record.
struct Template {
    /// At the record that is read first.
    log_id: LogId,
    count: u32,
}

impl Journal {
    /// Opens the journal; `holder` is whose position it is, for people.
    ///
    /// # Errors
    /// [`Error::PositionMismatch`] where the journal does not have the record of the position; the log.
    pub fn open(
        log: &dyn Readers,
        partition: u32,
        holder: &'static str,
        start: Start,
    ) -> Result<Self, Error> {
        let mismatch = |offset, found: String| Error::PositionMismatch { holder, partition, offset, found };
        let (from, anchor) = match start {
            Start::Beginning => (From::Start, Anchor::None),
            Start::After(head) => {
                check_life(log, (partition, head.offset), &head.log_id, holder)?;
                (From::Offset(head.offset), Anchor::Head(head))
            }
            Start::At(offset) => (From::Offset(offset), Anchor::Record(offset)),
        };
        if let From::Offset(offset) = from {
            let range = log.range(Topic::Journal, partition).map_err(Error::read(partition))?;
            if !range.contains(&offset) {
                let found = format!("the journal has records {} to {}", range.start, range.end);
                return Err(mismatch(offset, found));
            }
        }
        let reader = log.reader(Topic::Journal, partition, from).map_err(Error::read(partition))?;
        let first = if let From::Offset(offset) = from { offset } else { 0 };
        let log_id = log.log_id_at(partition, first).clone();
        let template = Template { log_id, count: log.partitions(Topic::Journal) };
        let (chain, reads, ahead) = (Chain::new(), crate::reads(), VecDeque::new());
        Ok(Self { partition, holder, reader, chain, anchor, template, reads, ahead })
    }

    /// The same, read up to another level than the process reads.
    #[must_use]
    pub fn up_to(self, reads: Level) -> Self {
        Self { reads, ..self }
    }

    /// Ends a wait for records.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.reader.waker()
    }

    /// Where the chain stands.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.chain.head()
    }

    /// Reads on: at most this many records; waits up to `timeout` for the first.
    ///
    /// # Errors
    /// [`Error::PositionMismatch`], [`Error::Body`]; the log.
    pub fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Read, Error> {
        let records = self.reader.poll(max_records, timeout).map_err(Error::read(self.partition))?;
        let mut read = Read::default();
        for record in records {
            let (header, is_void) = self.take(&record)?;
            read.voids += u64::from(is_void);
            read.last = Some(record.offset);
            read.entries.extend(header.map(|header| self.entry(&record, header)).transpose()?.flatten());
        }
        Ok(read)
    }

    /// The next accepted envelope; waits up to `timeout` for it. [`Journal::head`] is then the head of its record.
    /// Not to be mixed with other ways of reading.
    ///
    /// # Errors
    /// [`Error::PositionMismatch`], [`Error::Body`]; the log.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Entry>, Error> {
        if self.ahead.is_empty() {
            self.ahead = self.reader.poll(AHEAD, timeout).map_err(Error::read(self.partition))?.into();
        }
        while let Some(record) = self.ahead.pop_front() {
            let (header, _) = self.take(&record)?;
            if let Some(entry) = header.map(|header| self.entry(&record, header)).transpose()?.flatten() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Looks at a record: its header where it counts, and whether it is void.
    fn take(&mut self, record: &Record) -> Result<(Option<Header>, bool), Error> {
        match std::mem::replace(&mut self.anchor, Anchor::None) {
            Anchor::None => match self.chain.accept(record.offset, &record.value) {
                Verdict::Accepted(header) => Ok((Some(header), false)),
                Verdict::Void(reason) => {
                    let (partition, offset) = (self.partition, record.offset);
                    tracing::debug!(partition, offset, %reason, "journal record {offset} does not count");
                    Ok((None, true))
                }
            },
            Anchor::Head(head) => {
                let found = record.value.hash();
                let head = if planted!(ResumeOnVoidSuffix) { Head { hash: found, ..head } } else { head };
                if record.offset != head.offset || found != head.hash {
                    return Err(self.mismatch(head.offset, "the journal has another record there"));
                }
                self.chain = Chain::resume(head);
                Ok((None, false))
            }
            Anchor::Record(offset) => Ok((Some(self.begin_at(offset, record.offset, &record.value)?), false)),
        }
    }

    fn mismatch(&self, offset: u64, found: &str) -> Error {
        let (holder, partition) = (self.holder, self.partition);
        Error::PositionMismatch { holder, partition, offset, found: found.to_owned() }
    }

    fn entry(&self, record: &Record, header: Header) -> Result<Option<Entry>, Error> {
        match header.kind {
            Kind::Envelope => {
                let (partition, offset) = (self.partition, record.offset);
                let envelope = record.value.decoded(|body| Envelope::read(body, self.reads));
                // Somebody in this process may have read it who reads more.
                let envelope =
                    envelope.and_then(|envelope| envelope.check_level(self.reads).map(|()| envelope));
                let envelope = envelope.map_err(Error::envelope(partition, offset))?;
                let log_id = self.chain.head().map_or(&self.template.log_id, |head| &head.log_id).clone();
                Ok(Some(Entry { offset, log_id, envelope }))
            }
            Kind::Genesis | Kind::Claim | Kind::Resigned | Kind::Stopped => Ok(None),
        }
    }

    /// Takes the chain up at a record that is known to count: its own header says where the chain was.
    fn begin_at(&mut self, offset: u64, found: u64, record: &Payload) -> Result<Header, Error> {
        let unreadable = |this: &Self| this.mismatch(offset, "the journal has no readable record there");
        let header = *record.header().map_err(|_| unreadable(self))?;
        if found != offset {
            return Err(self.mismatch(offset, "the journal does not have that record"));
        }
        let claim = match header.kind {
            Kind::Genesis => None,
            Kind::Claim => Some(serde_json::from_slice(&record.body()).map_err(|_| unreadable(self))?),
            // Who owns it does not matter to a reader, only that somebody does.
            Kind::Envelope | Kind::Resigned | Kind::Stopped => {
                let (incarnation, address) = (String::new(), String::new());
                Some(Claim { epoch: header.epoch, incarnation, address, log_id: None })
            }
        };
        self.chain = Chain::resume(Head {
            log_id: self.template.log_id.clone(),
            partition: self.partition,
            count: self.template.count,
            offset,
            epoch: header.epoch,
            seq: header.seq,
            hash: record.hash(),
            owner: claim,
            resigned: header.kind == Kind::Resigned,
            stopped: header.kind == Kind::Stopped,
        });
        Ok(header)
    }
}
