//! A rebuild from a time: what of the tables is copied, and what is folded.
//!
//! ```text
//!  journal of a partition   0 ─────────── cut ─────────────── end
//!                             before it     since
//!  1. copy      rows of history, from the tables in use, as long as that takes
//!  2. needs     since the cut: which rows of history do its facts need?            ─► keys
//!  3. fold      before the cut: those rows, and all of the other tables            ─► scratch
//!               since the cut: everything                                          ─► scratch
//!  4. seed      scratch over the copies; a row of the keys that is not in scratch is deleted; then the position
//! ```
//! *Why that is what a fold from the beginning gives.* A row of history that no fact since the cut needs or changes is the
//! same at every position from the cut on. The tables in use stood behind the cut when it was copied, so the copy is
//! right if the row was. Every other row is folded from the beginning; what a fold of history reads beside the row itself
//! is in the other tables, which are all folded, or in a row that the same fact needs, which is among the keys.
//!
//! Each cut is right, so it need not be found exactly: it is the first record of that time or later, as long as nobody
//! has set the clock of the partition back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_journal::{Entry, Journal, Shutdown, Start, now};
use tidemill_log::{From, Head, Kind, Log, Topic};
use tidemill_model::{Envelope, Timestamp};
use tidemill_store::rows::{
    AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchExternalDependencyRow, BatchOutputRow,
    BatchQualityRow, BatchRow, BulkItemRow, OverrideRow, PullGrantRow, PullLedgerRow, PullTaskVersionRow,
    RerunBatchRow, RerunSkipRow, SkippedRunsRow, TABLES, UserCodeRow,
};
use tidemill_store::{Origin, Position, Row as _, Table, TableChanges, Tables, Value};

use super::{RebuildProgress, Since};
use crate::fold::Fold;
use crate::verify::{Scratch, ends};
use crate::{Config, Error};

/// Tables of history: they grow with every batch, and what a fold of them reads of another row of history, the same fact
/// needs.
const HISTORY: [&Table; 16] = [
    BatchRow::TABLE,
    BatchDependencyRow::TABLE,
    BatchOutputRow::TABLE,
    BatchExternalDependencyRow::TABLE,
    BatchQualityRow::TABLE,
    OverrideRow::TABLE,
    AttemptRow::TABLE,
    UserCodeRow::TABLE,
    AssignmentReturnRow::TABLE,
    RerunBatchRow::TABLE,
    RerunSkipRow::TABLE,
    BulkItemRow::TABLE,
    SkippedRunsRow::TABLE,
    PullTaskVersionRow::TABLE,
    PullLedgerRow::TABLE,
    PullGrantRow::TABLE,
];
/// Records folded in one transaction.
const RECORDS: usize = 128;
/// Rows copied, or written, in one transaction.
const ROWS: usize = 2_000;
const PATIENCE: Duration = Duration::from_millis(500);
/// A read that gives nothing so often though there is more does not go on.
const TRIES: u32 = 60;

pub(crate) fn is_history(table: &Table) -> bool {
    HISTORY.contains(&table)
}

/// The keys of rows of history, by the name of their table.
#[derive(Default)]
pub(crate) struct Keys {
    by_table: BTreeMap<&'static str, BTreeSet<Vec<Value>>>,
    count: usize,
}

impl Keys {
    pub(crate) fn has(&self, table: &Table, key: &[Value]) -> bool {
        self.by_table.get(table.name).is_some_and(|keys| keys.contains(key))
    }

    /// The same, of a key as it is told to people.
    pub(crate) fn names(&self, table: &Table, told: &str) -> bool {
        self.of(table).any(|key| crate::verify::told(key) == told)
    }

    fn of(&self, table: &Table) -> impl Iterator<Item = &Vec<Value>> {
        self.by_table.get(table.name).into_iter().flatten()
    }

    fn add(&mut self, table: &Table, key: &[Value], since: &Since) -> Result<(), Error> {
        let keys = self.by_table.entry(table.name).or_default();
        if !keys.contains(key) {
            keys.insert(key.to_vec());
            self.count += 1;
        }
        if self.count > since.max_rows {
            return Err(Error::Since {
                at: since.at,
                rule: format!("at most {} rows may have changed since then, and more have", since.max_rows),
                remedy: "name a later time, or rebuild from the beginning",
            });
        }
        Ok(())
    }
}

/// What a rebuild from a time begins with.
pub(crate) struct Begin {
    /// The set in use.
    from: u32,
    since: Timestamp,
    /// The first record since then of each partition.
    pub(crate) cuts: Vec<u64>,
}

impl Begin {
    /// Looks whether it can be right.
    pub(crate) fn find(since: &Since, log: &dyn Log, tables: &dyn Tables) -> Result<Self, Error> {
        let refuse = |rule: String, remedy| Error::Since { at: since.at, rule, remedy };
        let now = now();
        if since.at > now {
            return Err(refuse(
                format!("it must not be in the future, and it is {now}"),
                "name an earlier time",
            ));
        }
        let Some(active) = tables.active().map_err(Error::tables("find the tables in use"))? else {
            return Err(refuse(
                "there must be tables in use of this version's form, to copy from".to_owned(),
                "rebuild from the beginning",
            ));
        };
        let partitions = 0..log.partitions(Topic::Journal);
        let cuts =
            partitions.map(|partition| cut(log, partition, since.at)).collect::<Result<Vec<_>, _>>()?;
        if cuts.iter().all(|cut| *cut == 0) {
            return Err(refuse(
                "it must be after the first record of a journal, and all of them are since then".to_owned(),
                "rebuild from the beginning",
            ));
        }
        let positions = tables.positions(active.number).map_err(Error::tables("read the positions"))?;
        for (partition, cut) in (0..).zip(&cuts) {
            let next = positions.get(&partition).map_or(0, |position| position.offset + 1);
            if next < *cut {
                let rule = format!(
                    "the tables must show all from before it, and of partition {partition} they show {next} records of {cut}"
                );
                return Err(refuse(
                    rule,
                    "wait until the projector has caught up, or rebuild from the beginning",
                ));
            }
        }
        Ok(Self { from: active.number, since: since.at, cuts })
    }

    /// An empty set that is noted to be one from this time.
    pub(super) fn make(&self, tables: &dyn Tables) -> Result<u32, Error> {
        let generation = tables.create_generation().map_err(Error::tables("make tables"))?;
        let origin = Origin { since_ms: self.since.as_millisecond(), copied: 0 };
        tables.note_origin(generation, origin).map_err(Error::tables("make tables"))?;
        Ok(generation)
    }

    /// Fills the set, where that is not done yet. Gives how many rows of it are copies.
    pub(super) fn fill(
        &self,
        (config, since, log, tables): (&Config, &Since, &dyn Log, &dyn Tables),
        shutdown: &Shutdown,
        generation: u32,
        on_progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<u64, Error> {
        self.copy(tables, shutdown, generation)?;
        let count = || {
            let counts = HISTORY.iter().map(|table| tables.count(generation, table));
            counts.sum::<Result<u64, _>>().map_err(Error::tables("count rows"))
        };
        let filled = tables.positions(generation).map_err(Error::tables("read the positions"))?;
        if !filled.is_empty() {
            return count();
        }
        // As far as the copies may go, or further.
        let stood = tables.positions(self.from).map_err(Error::tables("read the positions"))?;
        let work = Refold { since, log, shutdown, stood: &stood, cached_rows: config.cached_rows };
        let refolded = work.fold(&self.cuts, &mut |folded, total| {
            on_progress(RebuildProgress { generation, folded, total });
        })?;
        let ours = refolded.seed(tables, shutdown, generation)?;
        Ok(count()?.saturating_sub(ours))
    }

    fn copy(&self, tables: &dyn Tables, shutdown: &Shutdown, generation: u32) -> Result<(), Error> {
        const WHAT: &str = "copy rows";
        let since_ms = self.since.as_millisecond();
        let origin = tables.origin(generation).map_err(Error::tables(WHAT))?;
        let done = origin.map_or(0, |origin| origin.copied);
        for (number, table) in (1..).zip(HISTORY).skip(done as usize) {
            while tables.copy(self.from, generation, table, ROWS).map_err(Error::tables(WHAT))? {
                if shutdown.is_requested() {
                    return Err(Error::Interrupted);
                }
            }
            let origin = Origin { since_ms, copied: number };
            tables.note_origin(generation, origin).map_err(Error::tables(WHAT))?;
        }
        Ok(())
    }
}

/// The first record of a journal of this time or later; its end where there is none.
fn cut(log: &dyn Log, partition: u32, at: Timestamp) -> Result<u64, Error> {
    let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match envelope_from(log, partition, middle, high)? {
            // Between them no record has a time.
            None => high = middle,
            Some((_, now)) if now >= at => high = middle,
            Some((offset, _)) => low = offset + 1,
        }
    }
    Ok(low)
}

/// Offset and time of the first envelope from one offset to before another, whether it counts or not.
fn envelope_from(
    log: &dyn Log,
    partition: u32,
    from: u64,
    to: u64,
) -> Result<Option<(u64, Timestamp)>, Error> {
    let mut found = None;
    each(log, partition, from..to, 8, &mut |offset, envelope| {
        found = Some((offset, envelope.now));
        Ok(false)
    })?;
    Ok(found)
}

/// Every envelope of a range, whether it counts or not, until `on_envelope` says that it is enough.
fn each(
    log: &dyn Log,
    partition: u32,
    range: std::ops::Range<u64>,
    at_once: usize,
    on_envelope: &mut dyn FnMut(u64, &Envelope) -> Result<bool, Error>,
) -> Result<(), Error> {
    let failed = |source| Error::journal(partition)(source);
    let mut reader = log.reader(Topic::Journal, partition, From::Offset(range.start)).map_err(failed)?;
    let (mut next, mut tries) = (range.start, 0);
    while next < range.end {
        let most = usize::try_from(range.end - next).unwrap_or(usize::MAX).min(at_once);
        let records = reader.poll(most, PATIENCE).map_err(failed)?;
        tries = if records.is_empty() { tries + 1 } else { 0 };
        if tries == TRIES {
            return Err(Error::NoRecords { partition, offset: next });
        }
        for record in records {
            next = record.offset + 1;
            if !record.value.header().is_ok_and(|header| header.kind == Kind::Envelope) {
                continue;
            }
            let read = |body: &[u8]| Envelope::read(body, tidemill_journal::reads());
            let envelope = record.value.decoded(read);
            let envelope = envelope.map_err(tidemill_journal::Error::envelope(partition, record.offset))?;
            if !on_envelope(record.offset, &envelope)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

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

    /// Which rows of history the facts of a range need that were there before.
    fn needs(&self, partition: u32, range: std::ops::Range<u64>, keys: &mut Keys) -> Result<(), Error> {
        let mut fold = Fold::new(partition, usize::MAX);
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
            if fold.len() > 4 * self.since.max_rows {
                fold = Fold::new(partition, usize::MAX);
            }
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
    let (offset, found) = (stood.offset, "the journal's chain is another one there".to_owned());
    let holder = "the tables";
    Err(Error::Journal(tidemill_journal::Error::PositionMismatch { holder, partition, offset, found }))
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

    /// Writes the rows over those that are there, and the positions last. Gives how many rows of history it wrote.
    fn seed(&self, tables: &dyn Tables, shutdown: &Shutdown, generation: u32) -> Result<u64, Error> {
        const WHAT: &str = "write rows";
        let mut history = 0;
        let mut write = |table: &'static Table, upserts: Vec<Vec<Value>>, deletes: Vec<Vec<Value>>| {
            if shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            history += if is_history(table) { upserts.len() as u64 } else { 0 };
            let changes = [TableChanges { table, upserts, deletes }];
            tables.seed(generation, &changes, &BTreeMap::new()).map_err(Error::tables(WHAT))
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
        tables.seed(generation, &[], &positions).map_err(Error::tables(WHAT))?;
        Ok(history)
    }
}
