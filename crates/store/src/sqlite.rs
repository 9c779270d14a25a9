//! The read tables in one SQLite file: one writer, any number of readers.
//!
//! `synchronous=NORMAL` is enough: the tables are a cache that carries its own position in the same
//! transaction. After a loss of power the last commits may be missing, rows and position together, and are
//! folded again. Losing the position alone, or half a transaction, cannot happen in WAL mode.

mod generations;
mod sinks;
mod statements;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::sql::{self, Dialect};
use crate::{
    Error, Generation, Position, RowBatch, Select, SinkNote, Snapshot, Table, Tables, Value, Written,
};

/// How long a writer of another process is waited for.
const BUSY: Duration = Duration::from_secs(10);
/// Connections kept for readers; more are opened when needed, and closed after.
const IDLE_READERS: usize = 8;

/// Read tables in a file.
pub struct SqliteTables {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A connection whose user panicked has rolled back; a list of idle ones is never half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(what: &str) -> impl FnOnce(rusqlite::Error) -> Error + '_ {
    move |source| Error::database(what, source)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}

impl SqliteTables {
    /// Opens the file, and makes it where there is none.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let place = || path.display().to_string();
        let failed = |source: rusqlite::Error| Error::Open { place: place(), source: source.into() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let writer = open(&path, flags).map_err(failed)?;
        writer
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; \
                 PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY;",
            )
            .map_err(failed)?;
        writer.execute_batch(generations::META).map_err(failed)?;
        Ok(Self { path, writer: Mutex::new(writer), readers: Mutex::default() })
    }

    fn reader(&self) -> Result<Connection, Error> {
        if let Some(connection) = lock(&self.readers).pop() {
            return Ok(connection);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = open(&self.path, flags).and_then(|connection| {
            connection.execute_batch("PRAGMA cache_size = -8192; PRAGMA query_only = 1;")?;
            Ok(connection)
        });
        connection
            .map_err(|source| Error::Open { place: self.path.display().to_string(), source: source.into() })
    }

    fn give_back(&self, connection: Connection) {
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
    }

    /// Runs `read` inside one read transaction.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let mut connection = self.reader()?;
        let answer = {
            let transaction = connection.transaction().map_err(failed("begin to read"))?;
            read(&transaction)
        };
        self.give_back(connection);
        answer
    }

    /// Runs `write` inside one write transaction, and commits where it succeeds.
    fn change<T>(&self, what: &str, write: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let mut connection = lock(&self.writer);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed(what))?;
        let answer = write(&transaction)?;
        transaction.commit().map_err(failed(what))?;
        Ok(answer)
    }
}

impl Tables for SqliteTables {
    fn generations(&self) -> Result<Vec<Generation>, Error> {
        // Where somebody dropped the list itself by hand, there are no tables: an empty list says so.
        self.read(generations::list).or_else(|_| {
            self.change("list the tables", |transaction| {
                transaction.execute_batch(generations::META).map_err(failed("list the tables"))?;
                generations::list(transaction)
            })
        })
    }

    fn create_generation(&self) -> Result<u32, Error> {
        self.change("make tables", generations::create)
    }

    fn activate(&self, generation: u32) -> Result<(), Error> {
        self.change("activate tables", |transaction| generations::activate(transaction, generation))
    }

    fn drop_generation(&self, generation: u32) -> Result<(), Error> {
        self.change("drop tables", |transaction| generations::drop(transaction, generation))
    }

    fn positions(&self, generation: u32) -> Result<BTreeMap<u32, Position>, Error> {
        self.read(|connection| generations::positions(connection, generation))
    }

    fn write(&self, generation: u32, batch: &RowBatch) -> Result<Written, Error> {
        self.change("write rows", |transaction| {
            if generations::advance(transaction, generation, batch)? {
                planted!(PositionOutsideTransaction => transaction.execute_batch("COMMIT; BEGIN IMMEDIATE").map_err(failed("write rows"))?);
                for changes in &batch.changes {
                    statements::write(transaction, generation, changes)?;
                }
            }
            Ok(Written { active: generations::active(transaction)? })
        })
    }

    fn load(
        &self,
        generation: u32,
        table: &'static Table,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>, Error> {
        self.read(|connection| {
            let mut rows = Vec::with_capacity(keys.len());
            for piece in sql::pieces(keys, sql::MAX_ROWS) {
                let sql = sql::load(generation, table, piece.len());
                rows.extend(statements::query(connection, table, &sql, piece.iter().flatten())?);
            }
            Ok(rows)
        })
    }

    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, Error> {
        self.read(|connection| {
            let generation = generations::active(connection)?.ok_or(Error::NoGeneration)?;
            let (sql, values) = sql::select(generation, select);
            statements::query(connection, select.table, &sql, values.iter())
        })
    }

    fn horizon(&self) -> Result<Option<i64>, Error> {
        self.read(generations::horizon)
    }

    fn raise_horizon(&self, before_ms: i64) -> Result<i64, Error> {
        self.change("raise the horizon", |transaction| generations::raise_horizon(transaction, before_ms))
    }

    fn left_grants(&self) -> Result<BTreeMap<i64, i64>, Error> {
        self.read(generations::left_grants)
    }

    fn raise_left_grant(&self, shard: i64, grant: i64) -> Result<(), Error> {
        const WHAT: &str = "note which grants may have left the tables";
        self.change(WHAT, |transaction| generations::raise_left_grant(transaction, shard, grant))
    }

    fn purge(&self, select: &Select) -> Result<usize, Error> {
        self.change("delete old rows", |transaction| {
            let generation = generations::active(transaction)?.ok_or(Error::NoGeneration)?;
            let (sql, values) = sql::select(generation, select);
            let rows = statements::query(transaction, select.table, &sql, values.iter())?;
            let keys: Vec<_> = rows.iter().map(|row| select.table.key_of(row).to_vec()).collect();
            statements::delete(transaction, generation, select.table, &keys)?;
            Ok(keys.len())
        })
    }

    fn note_sinks(&self, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error> {
        self.change("note how far sinks are", |transaction| sinks::note(transaction, notes, forget_before_ms))
    }

    fn sinks(&self) -> Result<Vec<SinkNote>, Error> {
        self.read(sinks::read)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        let connection = self.reader()?;
        connection.execute_batch("BEGIN").map_err(failed("begin to read"))?;
        // The first read is what fixes the moment.
        match generations::active(&connection).and_then(|active| active.ok_or(Error::NoGeneration)) {
            Ok(generation) => Ok(Box::new(SqliteSnapshot { connection, generation })),
            Err(error) => Err(error),
        }
    }
}

/// A read transaction; its connection is closed with it.
struct SqliteSnapshot {
    connection: Connection,
    generation: u32,
}

impl Snapshot for SqliteSnapshot {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn positions(&mut self) -> Result<BTreeMap<u32, Position>, Error> {
        generations::positions(&self.connection, self.generation)
    }

    fn horizon(&mut self) -> Result<Option<i64>, Error> {
        generations::horizon(&self.connection)
    }

    fn rows(
        &mut self,
        table: &'static Table,
        after: Option<&[Value]>,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let (sql, values) = sql::rows(self.generation, table, after, limit);
        statements::query(&self.connection, table, &sql, values.iter())
    }
}

const DIALECT: Dialect = Dialect::Sqlite;
