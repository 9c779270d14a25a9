//! One partition into one generation of tables: what `run` and `rebuild` have in common.

use std::time::{Duration, Instant};

use tidemill_journal::{Entry, Journal, Start};
use tidemill_log::{Head, Log, Waker};
use tidemill_store::{Position, RowBatch, Tables};

use crate::Error;
use crate::fold::{Fold, Keys};

/// Facts of one transaction; with less, more records are read as far as there are any.
const MAX_EVENTS: usize = 20_000;
/// Records of one poll.
const MAX_RECORDS: usize = 128;
/// Reading for one transaction takes no longer than this, however fast records come in.
const MAX_READING: Duration = Duration::from_millis(100);

/// What is read and not yet written. Kept over an outage, for the cache is ahead of the tables by it.
enum Pending {
    Nothing,
    /// Read; these rows have to be loaded first.
    Read(Vec<Entry>, Keys),
    Folded(RowBatch),
}

/// A partition on its way into a generation.
pub(crate) struct Projection {
    partition: u32,
    pub(crate) generation: u32,
    journal: Journal,
    fold: Fold,
    position: Option<Position>,
    pending: Pending,
    /// Offset of the last record read, void or not.
    last: Option<u64>,
    pub(crate) voids: u64,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The generation in use, where something was written.
    pub(crate) active: Option<Option<u32>>,
    /// How many facts it took in.
    pub(crate) events: usize,
    /// When it had the first of them.
    pub(crate) begun_at: Option<Instant>,
}

impl Projection {
    /// Goes on where the generation stands.
    pub(crate) fn open(
        log: &dyn Log,
        tables: &dyn Tables,
        generation: u32,
        partition: u32,
        max_rows: usize,
    ) -> Result<Self, Error> {
        let positions = tables.positions(generation).map_err(Error::tables("read the positions"))?;
        let position = positions.get(&partition).cloned();
        let start = match &position {
            None => Start::Beginning,
            Some(position) => {
                let head: Head = serde_json::from_str(&position.head)
                    .map_err(|source| Error::StoredPosition { partition, source })?;
                Start::After(head)
            }
        };
        let journal = Journal::open(log, partition, "the tables", start)?;
        let last = position.as_ref().map(|position| position.offset);
        let fold = Fold::new(partition, max_rows);
        Ok(Self { partition, generation, journal, fold, position, pending: Pending::Nothing, last, voids: 0 })
    }

    /// Whether the tables stand where this projection left them: not so where somebody replaced them.
    pub(crate) fn fits(&self, tables: &dyn Tables) -> Result<bool, Error> {
        let positions = tables.positions(self.generation).map_err(Error::tables("read the positions"))?;
        Ok(positions.get(&self.partition) == self.position.as_ref())
    }

    pub(crate) fn waker(&self) -> Waker {
        self.journal.waker()
    }

    /// Offset of the last record that the tables show; void records show nothing and count as shown.
    pub(crate) fn projected(&self) -> Option<u64> {
        match self.pending {
            Pending::Nothing => self.last,
            Pending::Read(..) | Pending::Folded(_) => self.position.as_ref().map(|position| position.offset),
        }
    }

    /// Reads what there is, waiting up to `timeout` for it, folds it and writes it. After an error the next
    /// call goes on with the same.
    pub(crate) fn step(&mut self, tables: &dyn Tables, timeout: Duration) -> Result<Step, Error> {
        let mut step = Step { active: None, events: 0, begun_at: None };
        if matches!(self.pending, Pending::Nothing) {
            (step.events, step.begun_at) = self.read(timeout)?;
        }
        if let Pending::Read(_, keys) = &mut self.pending {
            while let Some((table, keys_of_it)) = keys.last() {
                let rows =
                    tables.load(self.generation, table, keys_of_it).map_err(Error::tables("load rows"))?;
                self.fold.provide(table, rows).map_err(Error::tables("load rows"))?;
                keys.pop();
            }
            self.fold();
        }
        if let Pending::Folded(batch) = &self.pending {
            let written = tables.write(self.generation, batch).map_err(Error::tables("write rows"))?;
            self.position = Some(batch.to.clone());
            self.pending = Pending::Nothing;
            step.active = Some(written.active);
        }
        Ok(step)
    }

    /// How many facts it read, and when it had the first of them.
    fn read(&mut self, timeout: Duration) -> Result<(usize, Option<Instant>), Error> {
        let (mut entries, mut events, mut wait) = (Vec::new(), 0, timeout);
        let mut begun_at = None::<Instant>;
        while events < MAX_EVENTS && begun_at.is_none_or(|at| at.elapsed() < MAX_READING) {
            let read = self.journal.poll(MAX_RECORDS, wait)?;
            wait = Duration::ZERO;
            begun_at = begun_at.or(Some(Instant::now()));
            self.voids += read.voids;
            self.last = read.last.or(self.last);
            events += read.entries.iter().map(|entry| entry.envelope.events.len()).sum::<usize>();
            entries.extend(read.entries);
            if read.last.is_none() {
                break;
            }
        }
        let moved = self.journal.head().map(|head| head.offset) > self.position.as_ref().map(|it| it.offset);
        if moved {
            entries.iter().for_each(|entry| self.fold.need(&entry.envelope));
            self.pending = Pending::Read(entries, self.fold.take_missing());
        }
        Ok((events, begun_at))
    }

    /// Where reading stopped, void or not, for a bug that stores this.
    #[cfg(feature = "planted")]
    fn where_it_stopped(&self, head: &Head) -> Head {
        let stopped = self.last.filter(|_| planted!(ResumeOnVoidSuffix));
        Head { offset: stopped.unwrap_or(head.offset), ..head.clone() }
    }

    fn fold(&mut self) {
        let Pending::Read(entries, _) = &self.pending else { return };
        for entry in entries {
            self.fold.apply(entry.offset, &entry.envelope);
        }
        let head = self.journal.head().expect("something was read, so the chain has a head");
        #[cfg(feature = "planted")]
        let head = &self.where_it_stopped(head);
        let text = serde_json::to_string(head).expect("a head is plain strings and numbers");
        let to = Position { offset: head.offset, head: text.into() };
        let changes = self.fold.take_changes();
        self.pending =
            Pending::Folded(RowBatch { partition: self.partition, from: self.position.clone(), to, changes });
    }
}
