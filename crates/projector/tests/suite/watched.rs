//! Tables of which a test hears every call that changes something, and may let it fail, wait or never come back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_store::{
    Aged, Error, FormInUse, Generation, Position, RebuildInProgress, RebuildRight, RowBatch, Select,
    SinkNote, Snapshot, Table, TableChanges, Tables, Value, Written,
};

/// Hears the name of a call before it is done; `written` after a write, `activated` after a swap.
pub(crate) type Watch = Box<dyn Fn(&str) -> Result<(), Error> + Send + Sync>;

pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Tables>,
    pub(crate) watch: Watch,
}

/// What a database that is away answers.
pub(crate) fn lost() -> Error {
    Error::Database { what: "be there".to_owned(), source: "away".into() }
}

impl Tables for Watched {
    fn generations(&self) -> Result<Vec<Generation>, Error> {
        self.inner.generations()
    }
    fn create_generation(&self) -> Result<u32, Error> {
        self.inner.create_generation()
    }
    fn create_for_copies(&self, right: RebuildRight) -> Result<u32, Error> {
        self.inner.create_for_copies(right)
    }
    fn build_beside(&self) -> Result<u32, Error> {
        self.inner.build_beside()
    }
    fn begin_rebuild(&self, holder: &str, unseen_for: Duration) -> Result<RebuildRight, Error> {
        self.inner.begin_rebuild(holder, unseen_for)
    }
    fn keep_rebuild(&self, right: RebuildRight) -> Result<(), Error> {
        self.inner.keep_rebuild(right)
    }
    fn rebuild_in_progress(&self) -> Result<Option<RebuildInProgress>, Error> {
        self.inner.rebuild_in_progress()
    }
    fn end_rebuild(&self, right: RebuildRight) -> Result<(), Error> {
        self.inner.end_rebuild(right)
    }
    fn count(&self, generation: u32, table: &'static Table) -> Result<u64, Error> {
        self.inner.count(generation, table)
    }
    fn is_whole(&self, generation: u32) -> Result<bool, Error> {
        (self.watch)("is_whole")?;
        self.inner.is_whole(generation)
    }
    fn copy(
        &self,
        right: RebuildRight,
        from_to: (u32, u32),
        table: &'static Table,
        rows: usize,
    ) -> Result<bool, Error> {
        (self.watch)("copy")?;
        self.inner.copy(right, from_to, table, rows)
    }
    fn seed(
        &self,
        right: RebuildRight,
        generation: u32,
        changes: &[TableChanges],
        positions: &BTreeMap<u32, Position>,
    ) -> Result<(), Error> {
        (self.watch)("seed")?;
        self.inner.seed(right, generation, changes, positions)
    }
    fn form(&self) -> i64 {
        self.inner.form()
    }
    fn attend(&self) -> Result<(), Error> {
        self.inner.attend()
    }
    fn forms(&self) -> Result<Vec<FormInUse>, Error> {
        self.inner.forms()
    }
    fn repair_views(&self) -> Result<(), Error> {
        (self.watch)("repair_views")?;
        self.inner.repair_views()
    }
    fn retire(&self, other: &FormInUse) -> Result<Vec<u32>, Error> {
        self.inner.retire(other)
    }
    fn activate(&self, generation: u32, beyond: &[u32]) -> Result<(), Error> {
        (self.watch)("activate")?;
        self.inner.activate(generation, beyond)?;
        (self.watch)("activated")
    }
    fn drop_generation(&self, right: RebuildRight, generation: u32) -> Result<(), Error> {
        self.inner.drop_generation(right, generation)
    }
    fn sweep(&self) -> Result<bool, Error> {
        (self.watch)("sweep")?;
        self.inner.sweep()
    }
    fn positions(&self, generation: u32) -> Result<BTreeMap<u32, Position>, Error> {
        self.inner.positions(generation)
    }
    fn write(&self, generation: u32, batch: &RowBatch) -> Result<Written, Error> {
        (self.watch)("write")?;
        let written = self.inner.write(generation, batch)?;
        (self.watch)("written").map(|()| written)
    }
    fn load(
        &self,
        generation: u32,
        table: &'static Table,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>, Error> {
        (self.watch)("load")?;
        self.inner.load(generation, table, keys)
    }
    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, Error> {
        self.inner.select(select)
    }
    fn horizon(&self, of: Aged) -> Result<Option<i64>, Error> {
        self.inner.horizon(of)
    }
    fn raise_horizon(&self, of: Aged, before_ms: i64) -> Result<i64, Error> {
        self.inner.raise_horizon(of, before_ms)
    }
    fn left_grants(&self) -> Result<BTreeMap<i64, i64>, Error> {
        self.inner.left_grants()
    }
    fn raise_left_grant(&self, shard: i64, grant: i64) -> Result<(), Error> {
        self.inner.raise_left_grant(shard, grant)
    }
    fn note_sinks(&self, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error> {
        self.inner.note_sinks(notes, forget_before_ms)
    }
    fn sinks(&self) -> Result<Vec<SinkNote>, Error> {
        self.inner.sinks()
    }
    fn purge(&self, select: &Select) -> Result<usize, Error> {
        self.inner.purge(select)
    }
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        self.inner.snapshot()
    }
}
