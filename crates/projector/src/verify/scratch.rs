//! What the journal says, as rows on disk: beside the tables that are compared, for as long as the comparison takes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_store::{Position, RowBatch, Snapshot, SqliteTables, Table, TableChanges, Tables, Value};

use crate::Error;

const WHAT: &str = "fold the journal beside the tables";

/// A set of tables of its own, in a directory that goes with it.
pub(crate) struct Scratch {
    tables: SqliteTables,
    generation: u32,
    // After the tables: they are closed before it is removed.
    _directory: Directory,
}

impl Scratch {
    /// Empty tables below this directory.
    pub(crate) fn new(below: &Path) -> Result<Self, Error> {
        let directory = Directory::new(below)?;
        let tables = SqliteTables::open(directory.0.join("rows.sqlite")).map_err(Error::tables(WHAT))?;
        let generation = tables.create_generation().map_err(Error::tables(WHAT))?;
        tables.activate(generation, &[]).map_err(Error::tables(WHAT))?;
        Ok(Self { tables, generation, _directory: directory })
    }

    pub(crate) fn load(&self, table: &'static Table, keys: &[Vec<Value>]) -> Result<Vec<Vec<Value>>, Error> {
        self.tables.load(self.generation, table, keys).map_err(Error::tables(WHAT))
    }

    /// Writes what a partition changes between two of its positions.
    pub(crate) fn write(
        &self,
        partition: u32,
        from: Option<Position>,
        to: Position,
        changes: Vec<TableChanges>,
    ) -> Result<(), Error> {
        let batch = RowBatch { partition, from, to, changes };
        self.tables.write(self.generation, &batch).map(drop).map_err(Error::tables(WHAT))
    }

    pub(crate) fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        self.tables.snapshot().map_err(Error::tables(WHAT))
    }
}

/// Removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(below: &Path) -> Result<Self, Error> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = below.join(format!("tidemill-verify-{}-{number}", std::process::id()));
        let failed = |source| Error::Scratch { path: path.clone(), source };
        // One of an earlier process of this number, which was killed.
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            let path = self.0.display();
            tracing::warn!(%error, "the directory {path} of a comparison stays; it can be removed");
        }
    }
}
