//! Comparing the tables with the journal, row by row.
//!
//! What is old may have left the tables (see [`crate::purge`]); it is left out on both sides.
//!
//! Tables may stand behind the journal. From there to the end that it had when this began the journal is only read, so that
//! a record which the tables cannot go past is found ([`Stand`]).
//!
//! The journal is folded again, from its first record to where the tables stand, into rows on disk beside them
//! ([`Scratch`]); then both are read in the order of their keys, a page at a time. So what this takes is disk for the
//! rows of all tables once more, and of memory, whatever the size of the history (about 1 KB a row):
//!
//! ```text
//!  cached_rows           rows of the fold between two transactions, and what 128 records change
//!  2 · page_rows         rows of either side
//!  range_rows            keys of versions of pull tasks that something names; more take further passes over the grants
//! ```

mod comparison;
mod hints;
mod scratch;
mod stand;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tidemill_journal::{Journal, Shutdown, Start};
use tidemill_log::{Log, Topic};
use tidemill_store::{Aged, Position, Tables};

use crate::Error;
use crate::fold::Fold;
use crate::purge::Horizons;
use comparison::Comparison;
pub(crate) use comparison::told;
pub use hints::verify_hints;
pub(crate) use scratch::Scratch;
pub(crate) use stand::ends;
pub use stand::{Stand, Unreadable};

/// Records folded in one transaction.
const RECORDS: usize = 128;
/// Differences told in full.
const MOST_DIFFERENCES: usize = 1_000;

/// What a comparison may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyConfig {
    /// Where rows are put aside meanwhile: as much disk as the tables take.
    pub scratch: PathBuf,
    /// Rows of the fold in memory. Default 32,768; at least 0.
    pub cached_rows: usize,
    /// Rows of either side that are compared at once. Default 1,000; at least 1.
    pub page_rows: usize,
    /// Keys in memory that decide whether a row may be missing. Default 100,000; at least 1.
    pub range_rows: usize,
}

impl Default for VerifyConfig {
    fn default() -> Self {
        Self { scratch: std::env::temp_dir(), cached_rows: 32_768, page_rows: 1_000, range_rows: 100_000 }
    }
}

/// A row, or a column of one, that is not what the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which table, or `hints`.
    pub table: &'static str,
    /// The row's key, column by column.
    pub key: String,
    /// Which column; absent: the whole row is missing, or there is one too many.
    pub column: Option<&'static str>,
    /// What the journal says; absent: there should be no row.
    pub expected: Option<String>,
    /// What the table has; absent: there is no row.
    pub found: Option<String>,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The set of tables that was compared.
    pub generation: u32,
    /// Where the tables stand in each journal, by partition.
    #[serde(rename = "partitions")]
    pub stands: Vec<Stand>,
    /// Journal records folded; the chain holds over all of them.
    pub records: u64,
    /// Records among them that do not count.
    pub void_records: u64,
    /// Rows compared.
    pub rows: u64,
    /// Passes over the tables whose rows decide whether others may be missing.
    #[serde(skip)]
    pub passes: u64,
    /// The most rows, and keys that decide whether a row may be missing, that were in memory at once.
    #[serde(skip)]
    pub peak_rows: usize,
    /// Hints that were judged by what the journal says.
    pub hints: u64,
    /// Hints that were not: they do not count now, or are newer than the journal was when it was read.
    pub other_hints: u64,
    /// What differs, the first thousand.
    pub differences: Vec<Difference>,
    /// How many differ in all.
    pub difference_count: u64,
}

impl Report {
    /// Whether the tables are what the journal says, as far as they go, and can go on to its end.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.difference_count == 0 && self.stands.iter().all(|stand| stand.unreadable.is_none())
    }

    fn holds(&mut self, rows: usize) {
        self.peak_rows = self.peak_rows.max(rows);
    }

    fn add(&mut self, difference: Difference) {
        self.difference_count += 1;
        if self.differences.len() < MOST_DIFFERENCES {
            self.differences.push(difference);
        }
    }
}

/// Folds the journal again and compares the tables in use with it, at the position where they stand; whatever is
/// written meanwhile does not matter. The rest of the journal, up to the end that it has now, is read and no more.
/// `on_progress` hears how many records are read, of how many.
///
/// # Errors
/// A record below the position that cannot be read; [`tidemill_journal::Error::PositionMismatch`] where the tables stand
/// at a record that the journal does not have; [`Error::Interrupted`] on shutdown; [`Error::Scratch`]; the log; the
/// database.
pub fn verify(
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    verify_within(&VerifyConfig::default(), log, tables, shutdown, on_progress)
}

/// [`verify`], within other bounds.
///
/// # Errors
/// As [`verify`].
pub fn verify_within(
    config: &VerifyConfig,
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    let ends: Vec<_> = (0..).zip(ends(log)?).collect();
    let mut snapshot = tables.snapshot().map_err(Error::tables("read the tables"))?;
    let positions = snapshot.positions().map_err(Error::tables("read the positions"))?;
    let mut report = Report { generation: snapshot.generation(), ..Report::default() };
    let scratch = Scratch::new(&config.scratch)?;
    let stood = |partition: &u32| positions.get(partition).map_or(0, |position| position.offset + 1);
    let total = ends.iter().map(|(partition, end)| stood(partition).max(*end)).sum();
    let mut before = 0;
    for (partition, end) in ends {
        let mut told = |next| on_progress(before + next, total);
        let mut journal = Journal::open(log, partition, "the tables", Start::Beginning)?;
        let position = positions.get(&partition);
        if let Some(position) = position {
            let fold = (Fold::new(partition, config.cached_rows), &scratch);
            refold((log, partition), &mut journal, position, shutdown, fold, &mut report, &mut told)?;
        }
        let offset = position.map(|position| position.offset);
        report.stands.push(Stand::read(&mut journal, (partition, offset, end), shutdown, &mut told)?);
        before += stood(&partition).max(end);
    }
    let mut horizon = |of| snapshot.horizon(of).map_err(Error::tables("read the horizon"));
    let horizons = Horizons { pull: horizon(Aged::Pull)?, audit: horizon(Aged::Audit)? };
    Comparison { config, expected: scratch.snapshot()?, found: snapshot, shutdown, report }.finish(horizons)
}

fn refold(
    (log, partition): (&dyn Log, u32),
    journal: &mut Journal,
    position: &Position,
    shutdown: &Shutdown,
    (mut fold, scratch): (Fold, &Scratch),
    report: &mut Report,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mismatch = |found: &str| {
        let (holder, offset, found) = ("the tables", position.offset, found.to_owned());
        Error::Journal(tidemill_journal::Error::PositionMismatch { holder, partition, offset, found })
    };
    let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
    if !range.contains(&position.offset) {
        return Err(mismatch("the journal does not reach that far"));
    }
    let mut written: Option<Position> = None;
    let mut next = range.start;
    while next <= position.offset {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        let most = usize::try_from(position.offset - next + 1).unwrap_or(usize::MAX);
        let read = journal.poll(most.min(RECORDS), Duration::from_millis(500))?;
        let Some(last) = read.last else { continue };
        report.records += last + 1 - next;
        report.void_records += read.voids;
        next = last + 1;
        read.entries.iter().for_each(|entry| fold.need(&entry.envelope));
        for (table, keys) in fold.take_missing() {
            let rows = scratch.load(table, &keys)?;
            fold.provide(table, rows).map_err(Error::tables("fold the journal"))?;
        }
        read.entries.iter().for_each(|entry| fold.apply(entry.offset, &entry.envelope));
        report.holds(fold.len());
        let changes = fold.take_changes();
        if !changes.is_empty() {
            let to = Position { offset: last, head: format!("{last}").into() };
            scratch.write(partition, written.replace(to.clone()), to, changes)?;
        }
        on_progress(next);
    }
    let head = journal.head().map(|head| serde_json::to_string(head).expect("a head is plain data"));
    if head.as_deref() != Some(&position.head) {
        return Err(mismatch("the journal's chain is another one there"));
    }
    Ok(())
}
