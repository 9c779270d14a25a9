//! Old rows of what clients pull (PUL-14) and of the audit list (API-9) leave the tables, some at a time, beside the projection.
//!
//! ```text
//!  now − pull_retention_days, audit_keep_days ─► a horizon of each, noted once for all sets of tables ─► rows below it, 500 in a transaction
//! ```
//! Only rows that no later fact can change go: rows of the audit list, grants that have ended, ledgers of occurrences that their shard gives
//! to nobody any more, tasks for once that their shard has forgotten or let go, and versions of tasks that no row of
//! those names any more. What of the journal is below the horizon may be in the tables or not; [`crate::verify`] leaves
//! it out on both sides. The journal keeps all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use tidemill_journal::{Shutdown, causes, now};
use tidemill_model::Timestamp;
use tidemill_store::rows::{
    AuditRow, PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow, ShardRow,
};
use tidemill_store::{Aged, Filter, Row, Select, Table, Tables, Value};

use crate::{Config, Error};

/// Rows of one transaction.
const CHUNK: usize = 500;
/// Between two transactions; so much is left to those who project.
const PAUSE: Duration = Duration::from_millis(20);
/// Before the first round.
const FIRST: Duration = Duration::from_secs(30);
/// From one round to the next.
const EVERY: Duration = Duration::from_secs(60 * 60);
const WHAT: &str = "delete old rows";

/// For how many days each is kept, of what is not kept for ever.
pub(crate) fn kept_days(config: &Config) -> Vec<(Aged, u32)> {
    let all = [(Aged::Pull, config.pull_retention_days), (Aged::Audit, config.audit_keep_days)];
    all.into_iter().filter(|(_, days)| *days > 0).collect()
}

/// Deletes what is older than so many days, every hour until shutdown. What is in the way of one round is told, and
/// fixed by the next.
pub(crate) fn keep_purging(tables: &dyn Tables, kept: &[(Aged, u32)], shutdown: &Shutdown) {
    let mut pause = FIRST;
    while !shutdown.wait(pause) {
        pause = EVERY;
        for (of, days) in kept {
            let Ok(before) = now().checked_sub(SignedDuration::from_hours(24 * i64::from(*days))) else {
                continue;
            };
            match purge_aged(tables, *of, before, shutdown) {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "{rows} rows from before {before} have left the tables"),
                Err(error) => {
                    let reason = causes(&error);
                    tracing::warn!(reason, "old rows stay in the tables for another hour: {reason}");
                }
            }
        }
    }
}

/// Deletes what is older of this. Gives how many rows went.
pub(crate) fn purge_aged(
    tables: &dyn Tables,
    of: Aged,
    before: Timestamp,
    shutdown: &Shutdown,
) -> Result<u64, Error> {
    match of {
        Aged::Pull => purge(tables, before, shutdown),
        Aged::Audit => purge_audit(tables, before, shutdown),
    }
}

/// Deletes rows of the audit list that are older, and notes that they may be missing. Gives how many went.
///
/// # Errors
/// The database.
pub fn purge_audit(tables: &dyn Tables, before: Timestamp, shutdown: &Shutdown) -> Result<u64, Error> {
    let before_ms =
        tables.raise_horizon(Aged::Audit, before.as_millisecond()).map_err(Error::tables(WHAT))?;
    let old = Select::new(AuditRow::TABLE, AuditRow::TABLE.key).with(Filter::Below("at", before_ms.into()));
    delete(tables, &old.limit(CHUNK), shutdown)
}

/// Deletes what a question gives, a chunk at a time.
fn delete(tables: &dyn Tables, select: &Select, shutdown: &Shutdown) -> Result<u64, Error> {
    let mut rows = 0;
    while !shutdown.is_requested() {
        let deleted = tables.purge(select).map_err(Error::tables(WHAT))?;
        rows += deleted as u64;
        if deleted < CHUNK || shutdown.wait(PAUSE) {
            break;
        }
    }
    Ok(rows)
}

/// Deletes what is older of what clients pull, and notes that it may be missing. Gives how many rows went.
///
/// # Errors
/// The database.
pub fn purge(tables: &dyn Tables, before: Timestamp, shutdown: &Shutdown) -> Result<u64, Error> {
    // First: whoever compares the tables with the journal knows of it before a row is gone.
    let before_ms = tables.raise_horizon(Aged::Pull, before.as_millisecond()).map_err(Error::tables(WHAT))?;
    let shards = tables.select(&Select::new(ShardRow::TABLE, &["id"])).map_err(Error::tables(WHAT))?;
    let old = Old::new(Horizons { pull: Some(before_ms), audit: None }, shards.iter().cloned());
    for shard in shards.into_iter().filter_map(|row| ShardRow::from_values(row).ok()) {
        note_left_grants(tables, before_ms, shard.id).map_err(Error::tables(WHAT))?;
    }
    let mut rows = 0;
    for select in old.selects() {
        rows += delete(tables, &select, shutdown)?;
    }
    Ok(rows)
}

/// The ids of a shard's grants grow with time, so the newest that is old enough to go tells of all that may be gone: a
/// sink that misses one knows whether it has left by age.
fn note_left_grants(tables: &dyn Tables, before_ms: i64, shard: i64) -> Result<(), tidemill_store::Error> {
    let newest = Select::new(PullGrantRow::TABLE, &["granted_at", "id"])
        .equal("shard", shard)
        .with(Filter::Below("granted_at", Value::Int(before_ms)))
        .descending();
    match tables.select(&newest.limit(1))?.pop() {
        Some(row) => tables.raise_left_grant(shard, PullGrantRow::from_values(row)?.id),
        None => Ok(()),
    }
}

/// Task, version and shard.
type VersionKey = (i64, i64, i64);

/// Before when rows may be missing, as it is noted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Horizons {
    pub(crate) pull: Option<i64>,
    pub(crate) audit: Option<i64>,
}

/// What is old.
pub(crate) struct Old {
    before_ms: i64,
    audit_before_ms: i64,
    /// Versions that a row names which is not old; only whoever has all rows knows them.
    named: BTreeSet<VersionKey>,
    /// By shard, what of its occurrences is given to nobody any more, as far as the tables keep it no longer.
    given_before: BTreeMap<i64, i64>,
}

impl Old {
    /// Of the noted horizons, and the rows of the shards.
    pub(crate) fn new(horizons: Horizons, shards: impl IntoIterator<Item = Vec<Value>>) -> Self {
        let before_ms = horizons.pull.unwrap_or(i64::MIN);
        let audit_before_ms = horizons.audit.unwrap_or(i64::MIN);
        let rows = shards.into_iter().filter_map(|row| ShardRow::from_values(row).ok());
        let given_before = rows.filter_map(|row| Some((row.id, row.pull_horizon?.min(before_ms))));
        Self { before_ms, audit_before_ms, named: BTreeSet::new(), given_before: given_before.collect() }
    }

    /// The same, before anything is known of what names versions.
    pub(crate) fn without_names(&self) -> Self {
        Self { named: BTreeSet::new(), given_before: self.given_before.clone(), ..*self }
    }

    /// Hears of a grant or a task, before it is asked about the versions that `wanted` tells by their keys.
    pub(crate) fn learn(&mut self, table: &Table, row: Vec<Value>, wanted: impl Fn(&[Value]) -> bool) {
        if self.has(table, &row) {
            return;
        }
        let key = if *table == *PullGrantRow::TABLE {
            PullGrantRow::from_values(row).map(|row| (row.task_id, row.task_version, row.shard))
        } else {
            PullTaskRow::from_values(row).map(|row| (row.id, row.version, row.shard))
        };
        if let Ok(key) = key
            && wanted(&PullTaskVersionRow::key_values(&key))
        {
            self.named.insert(key);
        }
    }

    /// How many versions it knows to be named.
    pub(crate) fn names(&self) -> usize {
        self.named.len()
    }

    /// Whether such a row may be missing. No later fact changes one of which this holds.
    pub(crate) fn has(&self, table: &Table, row: &[Value]) -> bool {
        if *table == *AuditRow::TABLE {
            // The time begins its key.
            return row.first().is_some_and(|at| *at < Value::Int(self.audit_before_ms));
        }
        if let Some(row) = typed::<PullGrantRow>(table, row) {
            return &*row.state != "live" && row.granted_at < self.before_ms;
        }
        if let Some(row) = typed::<PullLedgerRow>(table, row) {
            return row.live == 0 && self.given_before.get(&row.shard).is_some_and(|it| row.start_at < *it);
        }
        if let Some(row) = typed::<PullTaskVersionRow>(table, row) {
            let is_named = self.named.contains(&(row.id, row.version, row.shard));
            return row.recorded_at < self.before_ms && !is_named;
        }
        typed::<PullTaskRow>(table, row).is_some_and(|row| {
            let is_forgotten = &*row.state == "released" || row.purged_before.is_some();
            !row.rotating && row.live == 0 && row.start_at < self.before_ms && is_forgotten
        })
    }

    /// The same as questions, a chunk each.
    fn selects(&self) -> Vec<Select> {
        let below = |column, ms| Filter::Below(column, Value::Int(ms));
        let grants = Select::new(PullGrantRow::TABLE, &["granted_at"])
            .with(below("granted_at", self.before_ms))
            .with(Filter::Unequal("state", "live".into()));
        let ledgers = self.given_before.iter().map(|(shard, before_ms)| {
            let ledgers =
                Select::new(PullLedgerRow::TABLE, &["start_at"]).with(below("start_at", *before_ms));
            ledgers.equal("shard", *shard).equal("live", 0_i64)
        });
        let tasks = || {
            let tasks =
                Select::new(PullTaskRow::TABLE, &["start_at"]).with(below("start_at", self.before_ms));
            tasks.equal("rotating", false).equal("live", 0_i64)
        };
        let forgotten = tasks().with(Filter::AtLeast("purged_before", Value::Int(i64::MIN)));
        let released = tasks().equal("state", "released");
        let by_grant = &[("task_id", "id"), ("task_version", "version"), ("shard", "shard")];
        let by_task = &[("id", "id"), ("version", "version"), ("shard", "shard")];
        let versions = Select::new(PullTaskVersionRow::TABLE, &["recorded_at"])
            .with(below("recorded_at", self.before_ms))
            .with(Filter::Unnamed(PullGrantRow::TABLE, by_grant))
            .with(Filter::Unnamed(PullTaskRow::TABLE, by_task));
        // Last: what names them goes before.
        let all = std::iter::once(grants).chain(ledgers).chain([forgotten, released, versions]);
        all.map(|select| select.limit(CHUNK)).collect()
    }
}

/// A row of this table as its type.
fn typed<R: Row>(table: &Table, row: &[Value]) -> Option<R> {
    (*table == *R::TABLE).then(|| R::from_values(row.to_vec()).ok()).flatten()
}
