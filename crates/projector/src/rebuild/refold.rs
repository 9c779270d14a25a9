//! Folding what is not copied: rows of history that facts since the cut need, and all of the other tables.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tidemill_journal::{Entry, Journal, Shutdown, Start};
use tidemill_log::{Head, Log};
use tidemill_store::rows::{AttemptRow, BatchRow, TABLES};
use tidemill_store::{Position, RebuildRight, Row as _, Table, TableChanges, Tables, Value};

use super::Since;
use super::cut::{PATIENCE, TRIES, each};
use super::since::{Keys, ROWS, is_history};
use crate::Error;
use crate::fold::Fold;
use crate::verify::{Scratch, ends};

/// Records folded in one transaction.
const RECORDS: usize = 128;

/// Folds what is not copied.
pub(crate) struct Refold<'a> {
    pub(crate) since: &'a Since,
    pub(crate) log: &'a dyn Log,
    pub(crate) shutdown: &'a Shutdown,
    /// Where the tables in use stand, to be found in the journal; empty: that does not matter.
    pub(crate) stood: &'a BTreeMap<u32, Position>,
    pub(crate) cached_rows: usize,
}

/// Rows that were folded, and where that ended.
pub(crate) struct Refolded {
    scratch: Scratch,
    /// Rows of history that are folded; those that are not in scratch are not there.
    pub(crate) keys: Keys,
    ends: BTreeMap<u32, Head>,
}

impl Refold<'_> {
    /// Every partition to its present end.
    pub(crate) fn fold(
        &self,
        cuts: &[u64],
        on_progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Refolded, Error> {
        let scratch = Scratch::new(&self.since.scratch)?;
        let mut refolded = Refolded { scratch, keys: Keys::default(), ends: BTreeMap::new() };
        let ends = ends(self.log)?;
        let total = ends.iter().sum();
        let mut before = 0;
        for ((partition, cut), end) in (0..).zip(cuts).zip(ends) {
            self.needs(partition, *cut..end, &mut refolded.keys)?;
            let mut told = |next| on_progress(before + next, total);
            self.partition(partition, (*cut, end), &mut refolded, &mut told)?;
            before += end;
        }
        Ok(refolded)
    }

    /// Which rows of history the facts of a range need that were there before, those of void records among them: to fold a
    /// row without need is right, too.
    fn needs(&self, partition: u32, range: Range<u64>, keys: &mut Keys) -> Result<(), Error> {
        #[cfg(feature = "planted")]
        if planted!(PastOfChangedRowsForgotten) {
            return Ok(());
        }
        let mut fold = Fold::new(partition, 0);
        each(self.log, partition, range, RECORDS, &mut |_, envelope| {
            if self.shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            fold.need(envelope);
            for (table, needed) in fold.take_missing() {
                if is_history(table) {
                    needed.iter().try_for_each(|key| keys.add(table, key, self.since))?;
                }
            }
            // What one says to be new, the others need all the same: it may be void.
            fold.take_changes();
            Ok(true)
        })
    }

    fn partition(
        &self,
        partition: u32,
        (cut, end): (u64, u64),
        refolded: &mut Refolded,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let stood = self.stood.get(&partition);
        let mut journal = Journal::open(self.log, partition, "the tables", Start::Beginning)?;
        let (mut fold, mut written) = (Fold::new(partition, self.cached_rows), None);
        let (mut next, mut tries) = (0, 0);
        // Then the loop does not come to it.
        if let Some(stood) = stood.filter(|stood| stood.offset >= end) {
            return Err(mismatch(partition, stood, format!("the journal ends before record {end}")));
        }
        while next < end {
            if self.shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            // Not over the cut, nor over where the tables in use stand.
            let stops = [Some(cut), stood.map(|stood| stood.offset + 1), Some(end)];
            let stop = stops.into_iter().flatten().filter(|stop| *stop > next).min().unwrap_or(end);
            let most = usize::try_from(stop - next).unwrap_or(usize::MAX);
            let read = journal.poll(most.min(RECORDS), PATIENCE)?;
            tries = if read.last.is_none() { tries + 1 } else { 0 };
            if tries == TRIES {
                return Err(Error::NoRecords { partition, offset: next });
            }
            let Some(last) = read.last else { continue };
            let changes = refolded.step(&mut fold, &read.entries, next < cut, self.since)?;
            next = last + 1;
            if !changes.is_empty() {
                let to = Position { offset: last, head: format!("{last}").into() };
                refolded.scratch.write(partition, written.replace(to.clone()), to, changes)?;
            }
            if let Some(stood) = stood.filter(|stood| stood.offset == last) {
                check(partition, stood, journal.head())?;
            }
            on_progress(next);
        }
        refolded.ends.extend(journal.head().map(|head| (partition, head.clone())));
        Ok(())
    }
}

/// The tables in use have to be of this journal.
fn check(partition: u32, stood: &Position, head: Option<&Head>) -> Result<(), Error> {
    let head = head.map(|head| serde_json::to_string(head).expect("a head is plain data"));
    if head.as_deref() == Some(&stood.head) {
        return Ok(());
    }
    Err(mismatch(partition, stood, "the journal's chain is another one there".to_owned()))
}

fn mismatch(partition: u32, stood: &Position, found: String) -> Error {
    let (holder, offset) = ("the tables", stood.offset);
    Error::Journal(tidemill_journal::Error::PositionMismatch { holder, partition, offset, found })
}

impl Refolded {
    /// Folds entries; before the cut, of history only what is needed after it.
    fn step(
        &mut self,
        fold: &mut Fold,
        entries: &[Entry],
        is_before: bool,
        since: &Since,
    ) -> Result<Vec<TableChanges>, Error> {
        entries.iter().for_each(|entry| fold.need(&entry.envelope));
        for (table, mut keys) in fold.take_missing() {
            if is_before && is_history(table) {
                keys.retain(|key| self.keys.has(table, key));
            }
            let rows = self.scratch.load(table, &keys)?;
            fold.provide(table, rows).map_err(Error::tables("fold the journal"))?;
        }
        entries.iter().for_each(|entry| fold.apply(entry.offset, &entry.envelope));
        let mut changes = fold.take_changes();
        for change in changes.iter_mut().filter(|change| is_history(change.table)) {
            let table = change.table;
            if is_before {
                self.add_attempts(change, since)?;
                change.upserts.retain(|row| self.keys.has(table, table.key_of(row)));
                change.deletes.retain(|key| self.keys.has(table, key));
                continue;
            }
            for row in &change.upserts {
                self.keys.add(table, table.key_of(row), since)?;
            }
            for key in &change.deletes {
                self.keys.add(table, key, since)?;
            }
        }
        changes.retain(|change| !change.upserts.is_empty() || !change.deletes.is_empty());
        Ok(changes)
    }

    /// A batch counts its attempts, and whether one that is given back had begun its row says: those of a batch that is
    /// folded are folded, too.
    fn add_attempts(&mut self, change: &TableChanges, since: &Since) -> Result<(), Error> {
        let table = change.table;
        if *table != *AttemptRow::TABLE {
            return Ok(());
        }
        let at = table.columns.iter().position(|column| column.name == "batch_id");
        let at = at.expect("the row of an attempt names its batch");
        let of_folded = |row: &&Vec<Value>| self.keys.has(BatchRow::TABLE, &row[at..=at]);
        let added: Vec<_> = change.upserts.iter().filter(of_folded).map(|row| table.key_of(row)).collect();
        added.into_iter().try_for_each(|key| self.keys.add(table, key, since))
    }

    /// Writes the rows over those that are there, and the positions last. Gives how many rows of history it wrote.
    pub(super) fn seed(
        &self,
        tables: &dyn Tables,
        (right, generation): (RebuildRight, u32),
        shutdown: &Shutdown,
    ) -> Result<u64, Error> {
        const WHAT: &str = "write rows";
        let mut history = 0;
        let mut write = |table: &'static Table, upserts: Vec<Vec<Value>>, deletes: Vec<Vec<Value>>| {
            if shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            history += if is_history(table) { upserts.len() as u64 } else { 0 };
            let changes = [TableChanges { table, upserts, deletes }];
            tables.seed(right, generation, &changes, &BTreeMap::new()).map_err(Error::tables(WHAT))
        };
        let mut folded = self.scratch.snapshot()?;
        for table in TABLES {
            let mut after: Option<Vec<Value>> = None;
            loop {
                let rows = folded.rows(table, after.as_deref(), ROWS).map_err(Error::tables(WHAT))?;
                let Some(last) = rows.last() else { break };
                after = Some(table.key_of(last).to_vec());
                write(table, rows, Vec::new())?;
            }
            let keys: Vec<_> = self.keys.of(table).cloned().collect();
            for keys in keys.chunks(ROWS) {
                let there: BTreeSet<Vec<Value>> =
                    self.scratch.load(table, keys)?.iter().map(|row| table.key_of(row).to_vec()).collect();
                let gone: Vec<_> = keys.iter().filter(|key| !there.contains(*key)).cloned().collect();
                if !gone.is_empty() {
                    write(table, Vec::new(), gone)?;
                }
            }
        }
        let position = |head: &Head| {
            let text = serde_json::to_string(head).expect("a head is plain strings and numbers");
            Position { offset: head.offset, head: text.into() }
        };
        // All at once: with some of them it would look done.
        let positions = self.ends.iter().map(|(partition, head)| (*partition, position(head))).collect();
        tables.seed(right, generation, &[], &positions).map_err(Error::tables(WHAT))?;
        Ok(history)
    }
}
