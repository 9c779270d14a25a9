//! Comparing the tables with the journal, row by row.
//!
//! What is old may have left the tables (see [`crate::purge`]); it is left out on both sides.
//!
//! The journal is folded again from its first record to where the tables stand, in memory: about 1 KB per row
//! of all tables. That is the bound of this command; it is fine for millions of rows, not for hundreds.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_log::{Log, Topic};
use tidemill_store::{Position, Row, Snapshot, Table, TableChanges, Tables, Value, rows};

use crate::fold::Fold;
use crate::journal::{Journal, Start};
use crate::purge::Old;
use crate::{Error, Shutdown};

/// Rows of one read.
const PAGE: usize = 1_000;
/// Differences told in full.
const MOST_DIFFERENCES: usize = 1_000;

/// A row, or a column of one, that is not what the journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which table.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The set of tables that was compared.
    pub generation: u32,
    /// Journal records folded; the chain holds over all of them.
    pub records: u64,
    /// Records among them that do not count.
    pub void_records: u64,
    /// Rows compared.
    pub rows: u64,
    /// What differs, the first thousand.
    pub differences: Vec<Difference>,
    /// How many differ in all.
    pub difference_count: u64,
}

impl Report {
    /// Whether the tables are what the journal says.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.difference_count == 0
    }

    fn add(&mut self, difference: Difference) {
        self.difference_count += 1;
        if self.differences.len() < MOST_DIFFERENCES {
            self.differences.push(difference);
        }
    }
}

type Rows = BTreeMap<Vec<Value>, Vec<Value>>;

/// Tables in memory.
#[derive(Default)]
struct Memory(BTreeMap<&'static str, Rows>);

impl Memory {
    fn write(&mut self, changes: Vec<TableChanges>) {
        for TableChanges { table, upserts, deletes } in changes {
            let rows = self.0.entry(table.name).or_default();
            rows.extend(upserts.into_iter().map(|row| (table.key_of(&row).to_vec(), row)));
            for key in deletes {
                rows.remove(&key);
            }
        }
    }

    fn rows_of(&self, table: &Table) -> &Rows {
        const NONE: &Rows = &Rows::new();
        self.0.get(table.name).unwrap_or(NONE)
    }

    /// Leaves out what may be missing.
    fn forget(&mut self, old: &Old) {
        for table in rows::TABLES {
            if let Some(rows) = self.0.get_mut(table.name) {
                rows.retain(|_, row| !old.has(table, row));
            }
        }
    }

    fn load(&self, table: &str, keys: &[Vec<Value>]) -> Vec<Vec<Value>> {
        let rows = self.0.get(table);
        keys.iter().filter_map(|key| rows?.get(key).cloned()).collect()
    }
}

/// Folds the journal again and compares the tables in use with it, at the position where they stand;
/// whatever is written meanwhile does not matter. `on_progress` hears how many records are folded, of how many.
///
/// # Errors
/// [`Error::PositionMismatch`] where the tables stand at a record that the journal does not have;
/// [`Error::Interrupted`] on shutdown; the log; the database.
pub fn verify(
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    let mut snapshot = tables.snapshot().map_err(Error::tables("read the tables"))?;
    let positions = snapshot.positions().map_err(Error::tables("read the positions"))?;
    let mut report = Report { generation: snapshot.generation(), ..Report::default() };
    let mut memory = Memory::default();
    let total = positions.values().map(|position| position.offset + 1).sum();
    for partition in 0..log.partitions(Topic::Journal) {
        if let Some(position) = positions.get(&partition) {
            let mut told = |records| on_progress(records, total);
            refold(log, partition, position, shutdown, &mut memory, &mut report, &mut told)?;
        }
    }
    let horizon = snapshot.horizon().map_err(Error::tables("read the horizon"))?;
    let mut old = Old::new(horizon, memory.rows_of(rows::ShardRow::TABLE).values().cloned());
    let [grants, tasks] =
        [rows::PullGrantRow::TABLE, rows::PullTaskRow::TABLE].map(|table| memory.rows_of(table).values());
    old.learn(grants, tasks);
    memory.forget(&old);
    for table in rows::TABLES {
        compare(&mut *snapshot, table, &memory, &old, &mut report)?;
    }
    Ok(report)
}

fn refold(
    log: &dyn Log,
    partition: u32,
    position: &Position,
    shutdown: &Shutdown,
    memory: &mut Memory,
    report: &mut Report,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mismatch = |found: &str| Error::PositionMismatch {
        holder: "the tables",
        partition,
        offset: position.offset,
        found: found.to_owned(),
    };
    let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
    if !range.contains(&position.offset) {
        return Err(mismatch("the journal does not reach that far"));
    }
    let mut journal = Journal::open(log, partition, "the tables", Start::Beginning)?;
    let mut fold = Fold::new(partition, usize::MAX);
    let mut next = range.start;
    while next <= position.offset {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        let most = usize::try_from(position.offset - next + 1).unwrap_or(usize::MAX);
        let read = journal.poll(most.min(128), Duration::from_millis(500))?;
        let Some(last) = read.last else { continue };
        report.records += last + 1 - next;
        report.void_records += read.voids;
        next = last + 1;
        read.entries.iter().for_each(|entry| fold.need(&entry.envelope));
        for (table, keys) in fold.take_missing() {
            let rows = memory.load(table.name, &keys);
            fold.provide(table, rows).map_err(Error::tables("fold the journal"))?;
        }
        read.entries.iter().for_each(|entry| fold.apply(entry.offset, &entry.envelope));
        memory.write(fold.take_changes());
        on_progress(report.records);
    }
    let head = journal.head().map(|head| serde_json::to_string(head).expect("a head is plain data"));
    if head.as_deref() != Some(&position.head) {
        return Err(mismatch("the journal's chain is another one there"));
    }
    Ok(())
}

fn compare(
    snapshot: &mut (dyn Snapshot + '_),
    table: &'static Table,
    memory: &Memory,
    old: &Old,
    report: &mut Report,
) -> Result<(), Error> {
    let expected = memory.rows_of(table);
    let mut left: std::collections::BTreeSet<_> = expected.keys().collect();
    let mut after: Option<Vec<Value>> = None;
    loop {
        let page = snapshot.rows(table, after.as_deref(), PAGE).map_err(Error::tables("read the tables"))?;
        let Some(last) = page.last() else { break };
        after = Some(table.key_of(last).to_vec());
        for row in page.iter().filter(|row| !old.has(table, row)) {
            report.rows += 1;
            let key = table.key_of(row).to_vec();
            left.remove(&key);
            match expected.get(&key) {
                None => report.add(whole(table, &key, None, Some(row))),
                Some(expected) => compare_row(table, &key, expected, row, report),
            }
        }
    }
    for key in left {
        report.add(whole(table, key, expected.get(key), None));
    }
    Ok(())
}

fn compare_row(
    table: &'static Table,
    key: &[Value],
    expected: &[Value],
    found: &[Value],
    report: &mut Report,
) {
    for ((column, expected), found) in table.columns.iter().zip(expected).zip(found) {
        if expected != found {
            report.add(Difference {
                table: table.name,
                key: list(key),
                column: Some(column.name),
                expected: Some(expected.to_string()),
                found: Some(found.to_string()),
            });
        }
    }
}

fn whole(
    table: &'static Table,
    key: &[Value],
    expected: Option<&Vec<Value>>,
    found: Option<&Vec<Value>>,
) -> Difference {
    let list = |row: &Vec<Value>| list(row);
    Difference {
        table: table.name,
        key: self::list(key),
        column: None,
        expected: expected.map(list),
        found: found.map(list),
    }
}

fn list(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
