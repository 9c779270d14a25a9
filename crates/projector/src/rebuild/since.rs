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

use tidemill_journal::Shutdown;
use tidemill_log::{Log, Topic};
use tidemill_store::rows::{
    AssignmentReturnRow, AttemptRow, AuditRow, BatchDependencyRow, BatchExternalDependencyRow,
    BatchOutputRow, BatchQualityRow, BatchRow, BulkItemRow, OverrideRow, PullGrantRow, PullLedgerRow,
    PullTaskVersionRow, RerunBatchRow, RerunSkipRow, SkippedRunsRow, UserCodeRow,
};
use tidemill_store::{RebuildRight, Row as _, Table, Tables, Value};

use super::cut::cut;
use super::refold::Refold;
use super::{RebuildProgress, Since};
use crate::verify::{ends, told};
use crate::{Config, Error};

/// Tables of history: they grow with every batch, and what a fold of them reads of another row of history, the same fact
/// needs.
const HISTORY: [&Table; 17] = [
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
    AuditRow::TABLE,
];
/// Rows copied, or written, in one transaction.
pub(super) const ROWS: usize = 2_000;

pub(crate) fn is_history(table: &Table) -> bool {
    HISTORY.contains(&table)
}

/// The name of a table, and a key of it as people are told.
pub(crate) type ToldKey = (&'static str, String);

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

    /// Those of them that are among these.
    pub(crate) fn named(&self, asked: &BTreeSet<ToldKey>) -> BTreeSet<ToldKey> {
        let all = self.by_table.iter().flat_map(|(table, keys)| keys.iter().map(|key| (*table, told(key))));
        all.filter(|it| asked.contains(it)).collect()
    }

    pub(super) fn of(&self, table: &Table) -> impl Iterator<Item = &Vec<Value>> {
        self.by_table.get(table.name).into_iter().flatten()
    }

    pub(super) fn add(&mut self, table: &Table, key: &[Value], since: &Since) -> Result<(), Error> {
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
    /// The first record since then of each partition.
    pub(crate) cuts: Vec<u64>,
}

impl Begin {
    /// Looks whether it can be right.
    pub(crate) fn find(since: &Since, log: &dyn Log, tables: &dyn Tables) -> Result<Self, Error> {
        let refuse = |rule: String, remedy| Error::Since { at: since.at, rule, remedy };
        let now = since.now;
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
        // Asked for after the positions: a journal that is whole is longer than what they show of it.
        for ((partition, cut), end) in (0..).zip(&cuts).zip(ends(log)?) {
            let next = positions.get(&partition).map_or(0, |position| position.offset + 1);
            if next > end {
                let rule = format!(
                    "the tables must be of this journal, and of partition {partition} they show {next} records of {end}"
                );
                return Err(refuse(rule, "rebuild from the beginning"));
            }
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
        Ok(Self { from: active.number, cuts })
    }

    /// Fills an empty set. Gives how many rows of it are copies.
    pub(super) fn fill(
        &self,
        (config, since, log, tables): (&Config, &Since, &dyn Log, &dyn Tables),
        set: (RebuildRight, u32),
        shutdown: &Shutdown,
        on_progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<u64, Error> {
        self.copy(tables, set, shutdown)?;
        let (_, generation) = set;
        // As far as the copies may go, or further.
        let stood = tables.positions(self.from).map_err(Error::tables("read the positions"))?;
        let work = Refold { since, log, shutdown, stood: &stood, cached_rows: config.cached_rows };
        let refolded = work.fold(&self.cuts, &mut |folded, total| {
            on_progress(RebuildProgress { generation, folded, total });
        })?;
        let ours = refolded.seed(tables, set, shutdown)?;
        let counts = HISTORY.iter().map(|table| tables.count(generation, table));
        let count = counts.sum::<Result<u64, _>>().map_err(Error::tables("count rows"))?;
        Ok(count.saturating_sub(ours))
    }

    fn copy(
        &self,
        tables: &dyn Tables,
        (right, generation): (RebuildRight, u32),
        shutdown: &Shutdown,
    ) -> Result<(), Error> {
        let some = |table| tables.copy(right, (self.from, generation), table, ROWS);
        for table in HISTORY {
            while some(table).map_err(Error::tables("copy rows"))? {
                if shutdown.is_requested() {
                    return Err(Error::Interrupted);
                }
            }
        }
        Ok(())
    }
}
