//! The read tables in one SQLite file: one writer, any number of readers.
//!
//! `synchronous=NORMAL` is enough: the tables are a cache that carries its own position in the same
//! transaction. After a loss of power the last commits may be missing, rows and position together, and are
//! folded again. Losing the position alone, or half a transaction, cannot happen in WAL mode.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql, Transaction, TransactionBehavior};

use crate::generations::Holds;
use crate::link::{self, Link, LinkedSnapshot, alike, dialect};
use crate::sql::Dialect;
use crate::{
    Error, FORMAT, FormInUse, Generation, Position, RebuildInProgress, RebuildRight, RowBatch, Select,
    SinkNote, Snapshot, Table, TableChanges, Tables, Value, Written, copies, forms, generations, leftovers,
    rebuilding,
};

/// How long a writer of another process is waited for.
const BUSY: Duration = Duration::from_secs(10);
/// Connections kept for readers; more are opened when needed, and closed after.
const IDLE_READERS: usize = 8;

/// Read tables in a file.
pub struct SqliteTables {
    path: PathBuf,
    form: i64,
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

/// Whether a table or a column is not there: of that SQLite has words only.
pub(crate) fn is_missing(error: &rusqlite::Error) -> bool {
    let words = match error {
        rusqlite::Error::SqliteFailure(_, Some(words)) => words,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        _ => return false,
    };
    words.starts_with("no such table") || words.starts_with("no such column")
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
        Self::open_as(path, *FORMAT)
    }

    /// The same, as a program whose tables have another form: for tests of several versions beside each other.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open_as(path: impl Into<PathBuf>, form: i64) -> Result<Self, Error> {
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
        generations::make_meta(&mut &writer, "")
            .map_err(|source| Error::Open { place: place(), source: source.into() })?;
        Ok(Self { path, form, writer: Mutex::new(writer), readers: Mutex::default() })
    }

    /// The tables of a file only to look at: nothing is made or changed in it, and whatever would do that fails. Where there
    /// is no file, there are no tables.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn look(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let path = if path.exists() { path } else { PathBuf::from(":memory:") };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let place = path.display().to_string();
        let writer = open(&path, flags).map_err(|source| Error::Open { place, source: source.into() })?;
        Ok(Self { path, form: *FORMAT, writer: Mutex::new(writer), readers: Mutex::default() })
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
    fn read<T>(&self, read: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut connection = self.reader()?;
        let answer = {
            let mut transaction = connection.transaction().map_err(failed("begin to read"))?;
            read(&mut transaction)
        };
        self.give_back(connection);
        answer
    }

    /// Runs `write` inside one write transaction, and commits where it succeeds.
    fn change<T>(&self, write: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut connection = lock(&self.writer);
        let mut transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed("begin to write"))?;
        let answer = write(&mut transaction)?;
        transaction.commit().map_err(failed("commit"))?;
        Ok(answer)
    }
}

impl Tables for SqliteTables {
    alike!();

    fn generations(&self) -> Result<Vec<Generation>, Error> {
        // None where somebody dropped everything by hand: then the first set is to be made again.
        match self.read(|link| generations::list(link)) {
            Err(Error::Database { source, .. }) if source.to_string().contains("no such table") => {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    fn create_generation(&self) -> Result<u32, Error> {
        self.change(|link| generations::create(link, Holds::Journal, self.form, ""))
    }

    fn create_for_copies(&self, right: RebuildRight) -> Result<u32, Error> {
        self.change(|link| {
            rebuilding::keep(link, right)?;
            generations::create(link, Holds::Copies, self.form, "")
        })
    }

    fn begin_rebuild(&self, holder: &str, unseen_for: Duration) -> Result<RebuildRight, Error> {
        self.change(|link| {
            generations::make_meta(link, "")?;
            rebuilding::follow_clock(link, self.form)
        })?;
        self.change(|link| rebuilding::begin(link, self.form, holder, unseen_for))
    }

    fn build_beside(&self) -> Result<u32, Error> {
        self.change(|link| match forms::begun(link, self.form)? {
            Some(generation) => Ok(generation),
            None => generations::create(link, Holds::Journal, self.form, ""),
        })
    }

    fn activate(&self, generation: u32, beyond: &[u32]) -> Result<(), Error> {
        self.change(|link| match forms::switch(link, generation, self.form, beyond)? {
            true => generations::point_views(link, generation),
            false => Ok(()),
        })
    }

    fn repair_views(&self) -> Result<(), Error> {
        self.change(|link| forms::repair_views(link, self.form))
    }

    fn retire(&self, other: &FormInUse) -> Result<Vec<u32>, Error> {
        self.change(|link| {
            let forgotten = forms::retire(link, self.form, other)?;
            if !forgotten.is_empty() {
                forms::repair_views(link, self.form)?;
            }
            Ok(forgotten)
        })
    }

    fn write(&self, generation: u32, batch: &RowBatch) -> Result<Written, Error> {
        self.change(|link| {
            if generations::advance(link, generation, batch)? {
                planted!(PositionOutsideTransaction => link.run("write rows", "COMMIT; BEGIN IMMEDIATE")?);
                for changes in &batch.changes {
                    link::write(link, generation, changes)?;
                }
            }
            Ok(Written { active: forms::in_use(link, self.form, "")? })
        })
    }

    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, Error> {
        self.read(|link| {
            let generation = forms::needed(link, self.form, "")?;
            link::select(link, generation, select)
        })
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        let connection = self.reader()?;
        connection.execute_batch("BEGIN").map_err(failed("begin to read"))?;
        // The first read is what fixes the moment.
        LinkedSnapshot::take(Box::new(connection), self.form)
    }
}

impl<C: Deref<Target = Connection>> Link for C {
    const DIALECT: Dialect = Dialect::Sqlite;
    // More bring nothing here: a statement is a function call away.
    const ROWS: usize = 8;

    fn run(&mut self, what: &str, sql: &str) -> Result<(), Error> {
        self.execute_batch(sql).map_err(failed(what))
    }

    fn execute<'a>(
        &mut self,
        what: &str,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), Error> {
        let execute = || {
            let mut statement = self.prepare_cached(sql)?;
            bind(&mut statement, values)?;
            statement.raw_execute().map(drop)
        };
        execute().map_err(failed(what))
    }

    fn rows<'a>(
        &mut self,
        what: &str,
        table: &'static Table,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let read = || -> rusqlite::Result<Vec<Vec<Value>>> {
            let mut statement = self.prepare_cached(sql)?;
            bind(&mut statement, values)?;
            let mut found = Vec::new();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let value = |index| row.get_ref(index).and_then(|value| owned(value, index));
                found.push((0..table.columns.len()).map(value).collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(found)
        };
        read().map_err(failed(what))
    }

    /// Who writes is alone.
    fn is_duplicate(_: &Error) -> bool {
        false
    }
}

struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn bind<'a>(
    statement: &mut CachedStatement<'_>,
    values: impl IntoIterator<Item = &'a Value>,
) -> rusqlite::Result<()> {
    values
        .into_iter()
        .zip(1..)
        .try_for_each(|(value, index)| statement.raw_bind_parameter(index, Bound(value)))
}

fn owned(value: ValueRef<'_>, index: usize) -> rusqlite::Result<Value> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(index, value.data_type(), error.into())
            })?;
            Ok(Value::Text(Arc::from(text)))
        }
        ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(rusqlite::Error::InvalidColumnType(index, "a column".to_owned(), value.data_type()))
        }
    }
}
