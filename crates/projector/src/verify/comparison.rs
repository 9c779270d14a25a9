//! Two sets of rows side by side: what the journal makes of the tables, and what they have.

use std::collections::VecDeque;

use tidemill_journal::Shutdown;
use tidemill_store::rows::{PullGrantRow, PullTaskRow, PullTaskVersionRow, ShardRow, TABLES};
use tidemill_store::{Row, Snapshot, Table, Value};

use super::{Difference, Report, VerifyConfig};
use crate::Error;
use crate::purge::{Horizons, Old};

/// Keys after the first and up to the second; absent: no bound.
#[derive(Debug, Clone, Default)]
struct Range {
    after: Option<Vec<Value>>,
    upto: Option<Vec<Value>>,
}

impl Range {
    fn has(&self, key: &[Value]) -> bool {
        self.after.as_deref().is_none_or(|after| key > after)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }
}

/// Rows of one table in the order of their keys, a page at a time.
struct Pages {
    table: &'static Table,
    range: Range,
    size: usize,
    ready: VecDeque<Vec<Value>>,
    is_over: bool,
}

impl Pages {
    fn new(table: &'static Table, range: Range, size: usize) -> Self {
        Self { table, range, size: size.max(1), ready: VecDeque::new(), is_over: false }
    }

    /// Reads on where no row is ready; none is ready after that: it is over.
    fn fill(&mut self, rows: &mut (dyn Snapshot + '_)) -> Result<(), Error> {
        if self.ready.is_empty() && !self.is_over {
            let after = self.range.after.as_deref();
            let page = rows.rows(self.table, after, self.size).map_err(Error::tables("read the tables"))?;
            self.is_over = page.len() < self.size;
            if let Some(last) = page.last() {
                self.range.after = Some(self.table.key_of(last).to_vec());
            }
            let upto = self.range.upto.as_deref();
            let within = |row: &Vec<Value>| upto.is_none_or(|upto| self.table.key_of(row) <= upto);
            let read = page.len();
            self.ready = page.into_iter().take_while(within).collect();
            self.is_over |= self.ready.len() < read;
        }
        Ok(())
    }
}

pub(super) struct Comparison<'a> {
    pub(super) config: &'a VerifyConfig,
    pub(super) expected: Box<dyn Snapshot + 'a>,
    pub(super) found: Box<dyn Snapshot + 'a>,
    pub(super) shutdown: &'a Shutdown,
    pub(super) report: Report,
}

impl Comparison<'_> {
    /// Compares every table, and gives what was found.
    pub(super) fn finish(mut self, horizons: Horizons) -> Result<Report, Error> {
        let mut shards = Vec::new();
        self.scan(ShardRow::TABLE, &mut |row| shards.push(row))?;
        let old = Old::new(horizons, shards);
        for table in TABLES {
            if **table == *PullTaskVersionRow::TABLE && horizons.pull.is_some() {
                self.versions(&old)?;
            } else {
                self.range(table, &old, Range::default())?;
            }
        }
        Ok(self.report)
    }

    /// Every row that the journal makes of a table.
    fn scan(&mut self, table: &'static Table, on_row: &mut dyn FnMut(Vec<Value>)) -> Result<(), Error> {
        let mut pages = Pages::new(table, Range::default(), self.config.page_rows);
        loop {
            pages.fill(&mut *self.expected)?;
            if pages.ready.is_empty() {
                return Ok(());
            }
            if self.shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            pages.ready.drain(..).for_each(&mut *on_row);
        }
    }

    /// Versions of pull tasks may be missing where no grant and no task names them: range after range, each with the
    /// names of its own.
    fn versions(&mut self, old: &Old) -> Result<(), Error> {
        let table = PullTaskVersionRow::TABLE;
        let mut after: Option<Vec<Value>> = None;
        loop {
            let upto = self.key_after(table, after.as_deref())?;
            let range = Range { after: after.take(), upto: upto.clone() };
            let mut named = old.without_names();
            for source in [PullGrantRow::TABLE, PullTaskRow::TABLE] {
                self.scan(source, &mut |row| named.learn(source, row, |key| range.has(key)))?;
            }
            self.range(table, &named, range)?;
            self.report.passes += 1;
            match upto {
                Some(upto) => after = Some(upto),
                None => return Ok(()),
            }
        }
    }

    /// The last key of the next range; absent: it is the last one.
    fn key_after(
        &mut self,
        table: &'static Table,
        after: Option<&[Value]>,
    ) -> Result<Option<Vec<Value>>, Error> {
        let range = Range { after: after.map(<[Value]>::to_vec), upto: None };
        let mut pages = Pages::new(table, range, self.config.page_rows);
        let mut left = self.config.range_rows.max(1);
        let mut last = None;
        loop {
            pages.fill(&mut *self.expected)?;
            let Some(row) = pages.ready.pop_front() else { return Ok(None) };
            if left == 0 {
                return Ok(last);
            }
            left -= 1;
            last = Some(table.key_of(&row).to_vec());
        }
    }

    /// Both sides side by side, in the order of the key.
    fn range(&mut self, table: &'static Table, old: &Old, range: Range) -> Result<(), Error> {
        let page = self.config.page_rows;
        let (mut expected, mut found) =
            (Pages::new(table, range.clone(), page), Pages::new(table, range, page));
        loop {
            if self.shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            expected.fill(&mut *self.expected)?;
            found.fill(&mut *self.found)?;
            self.report.holds(expected.ready.len() + found.ready.len() + old.names());
            let (ours, theirs) = (expected.ready.front(), found.ready.front());
            let order = match (ours, theirs) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(ours), Some(theirs)) => table.key_of(ours).cmp(table.key_of(theirs)),
            };
            let ours = if order.is_le() { expected.ready.pop_front() } else { None };
            let theirs = if order.is_ge() { found.ready.pop_front() } else { None };
            let [ours, theirs] = [ours, theirs].map(|row| row.filter(|row| !old.has(table, row)));
            self.row(table, ours.as_ref(), theirs.as_ref());
        }
    }

    fn row(&mut self, table: &'static Table, expected: Option<&Vec<Value>>, found: Option<&Vec<Value>>) {
        self.report.rows += u64::from(found.is_some());
        let Some(row) = expected.or(found) else { return };
        let difference = |column, expected, found| {
            let key = told(table.key_of(row));
            Difference { table: table.name, key, column, expected, found }
        };
        let (Some(expected), Some(found)) = (expected, found) else {
            let whole = |row: &Vec<Value>| told(row);
            self.report.add(difference(None, expected.map(whole), found.map(whole)));
            return;
        };
        for ((column, expected), found) in table.columns.iter().zip(expected).zip(found) {
            if expected != found {
                let (expected, found) = (expected.to_string(), found.to_string());
                self.report.add(difference(Some(column.name), Some(expected), Some(found)));
            }
        }
    }
}

pub(crate) fn told(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
