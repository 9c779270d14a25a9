//! The read tables in MySQL or MariaDB.
//!
//! Writers of different partitions work side by side: each locks its own position first, writes rows in the
//! order of their keys under READ COMMITTED, and reads the switch under a shared lock last, so that it learns
//! of a swap that is committed before it. Deadlocks and lock timeouts (1213, 1205) are tried again a few times.
//! Text compares by bytes, and JSON is stored as text.
//!
//! The library is asynchronous and its callers are not: `waiting` is where they meet.

mod connection;
mod server;
mod statements;
mod waiting;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use crate::generations::Holds;
use crate::link::{self, LinkedSnapshot, alike, dialect};
use crate::{
    Error, FORMAT, FormInUse, Generation, Position, RebuildInProgress, RebuildRight, RowBatch, Select,
    SinkNote, Snapshot, Table, TableChanges, Tables, Value, Written, copies, forms, generations, leftovers,
    rebuilding,
};
use connection::TOO_MANY_STATEMENTS;
pub use connection::{MysqlConnection, MysqlError};
pub use server::MysqlServer;
use server::Pool;

const NO_SUCH_TABLE: u16 = 1146;
const NO_SUCH_COLUMN: u16 = 1054;
/// How often a transaction is tried that others were in the way of.
const TRIES: u32 = 8;

fn failed(what: &str) -> impl FnOnce(MysqlError) -> Error + '_ {
    move |source| Error::database(what, source)
}

/// The server's error number, where the server refused.
fn refusal(error: &Error) -> Option<u16> {
    match error {
        Error::Database { source, .. } => source.downcast_ref::<MysqlError>()?.number(),
        _ => None,
    }
}

/// Whether a table or a column is not there.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(refusal(error), Some(NO_SUCH_TABLE | NO_SUCH_COLUMN))
}

/// Read tables in a database of a server.
pub struct MysqlTables {
    pool: Pool,
    collation: &'static str,
    form: i64,
}

impl MysqlTables {
    /// Connects to `mysql://user:password@host:port/database`, and makes what is there once.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::open_as(url, *FORMAT)
    }

    /// The same, as a program whose tables have another form: for tests of several versions beside each other.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open_as(url: &str, form: i64) -> Result<Self, Error> {
        let tables = Self { form, ..Self::look(url)? };
        tables.pool.with(|connection| generations::make_meta(connection, tables.collation))?;
        Ok(tables)
    }

    /// The same, only to look at them: nothing is made.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn look(url: &str) -> Result<Self, Error> {
        let pool = MysqlServer::new(url)?.pool();
        let version = pool.with(|connection| {
            connection.text("SELECT VERSION()", []).map_err(failed("ask for the server's version"))
        })?;
        let is_mariadb = version.unwrap_or_default().to_lowercase().contains("mariadb");
        let collation = if is_mariadb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
        Ok(Self { pool, collation, form: *FORMAT })
    }

    /// Reads; where a connection turns out to be dead, once more on a new one.
    fn read<T>(&self, read: impl Fn(&mut MysqlConnection) -> Result<T, Error>) -> Result<T, Error> {
        match self.pool.with(&read) {
            Err(error) if error.is_outage() && refusal(&error).is_none() => self.pool.with(&read),
            outcome => outcome,
        }
    }

    fn create(&self, holds: Holds) -> Result<u32, Error> {
        self.pool.with(|connection| {
            alone(connection, |connection| generations::create(connection, holds, self.form, self.collation))
        })
    }

    /// Runs a transaction until nobody is in its way.
    fn change<T>(&self, change: impl Fn(&mut MysqlConnection) -> Result<T, Error>) -> Result<T, Error> {
        let mut tries = 1;
        loop {
            let outcome = self.pool.with(|connection| {
                connection.run("START TRANSACTION").map_err(failed("begin to write"))?;
                let outcome = change(connection).and_then(|answer| {
                    connection.run("COMMIT").map_err(failed("commit"))?;
                    Ok(answer)
                });
                // Where this fails as well, the connection is given up, and the server rolls back.
                if outcome.is_err() && !connection.is_broken() && connection.run("ROLLBACK").is_err() {
                    connection.give_up();
                }
                outcome
            });
            match outcome {
                Err(error)
                    if matches!(refusal(&error), Some(1213 | 1205 | TOO_MANY_STATEMENTS))
                        && tries < TRIES =>
                {
                    tracing::debug!(
                        tries,
                        "a transaction is tried again: the server refused it for what others do"
                    );
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Programs that begin a set of tables do so one after the other: a change of a table's form ends every transaction.
fn alone<T>(
    connection: &mut MysqlConnection,
    act: impl FnOnce(&mut MysqlConnection) -> Result<T, Error>,
) -> Result<T, Error> {
    const WHAT: &str = "wait for others that make tables";
    // With the connection the server gives it back, too.
    let got = connection
        .text(
            "SELECT CAST(COALESCE(GET_LOCK(CONCAT(LEFT(DATABASE(), 40), '.tidemill_make'), 30), 0) AS CHAR)",
            [],
        )
        .map_err(failed(WHAT))?;
    if got.as_deref() != Some("1") {
        return Err(Error::database(WHAT, "they took longer than 30 s"));
    }
    let outcome = act(connection);
    let given_back = connection
        .text("SELECT CAST(RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 40), '.tidemill_make')) AS CHAR)", [])
        .map_err(failed(WHAT));
    outcome.and_then(|answer| given_back.map(|_| answer))
}

impl Tables for MysqlTables {
    alike!();

    fn generations(&self) -> Result<Vec<Generation>, Error> {
        // None where somebody dropped everything by hand: then the first set is to be made again.
        match self.read(generations::list) {
            Err(error) if refusal(&error) == Some(NO_SUCH_TABLE) => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn create_generation(&self) -> Result<u32, Error> {
        self.create(Holds::Journal)
    }

    fn create_for_copies(&self, right: RebuildRight) -> Result<u32, Error> {
        self.keep_rebuild(right)?;
        self.create(Holds::Copies)
    }

    fn begin_rebuild(&self, holder: &str, unseen_for: Duration) -> Result<RebuildRight, Error> {
        self.pool.with(|connection| generations::make_meta(connection, self.collation))?;
        self.change(|connection| rebuilding::follow_clock(connection, self.form))?;
        self.change(|connection| rebuilding::begin(connection, self.form, holder, unseen_for))
    }

    fn build_beside(&self) -> Result<u32, Error> {
        self.pool.with(|connection| {
            alone(connection, |connection| match forms::begun(connection, self.form)? {
                Some(generation) => Ok(generation),
                None => generations::create(connection, Holds::Journal, self.form, self.collation),
            })
        })
    }

    fn activate(&self, generation: u32, beyond: &[u32]) -> Result<(), Error> {
        let follow = self.change(|connection| forms::switch(connection, generation, self.form, beyond))?;
        match follow {
            // The set is in use whatever becomes of the views.
            true => {
                if let Err(error) = self.repair_views() {
                    let reason = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(
                        reason,
                        "views for people show the set before {generation}, for now: {error}: {reason}"
                    );
                }
                Ok(())
            }
            false => Ok(()),
        }
    }

    fn repair_views(&self) -> Result<(), Error> {
        self.pool.with(|connection| forms::repair_views(connection, self.form))
    }

    fn retire(&self, other: &FormInUse) -> Result<Vec<u32>, Error> {
        let forgotten = self.change(|connection| forms::retire(connection, self.form, other))?;
        if !forgotten.is_empty() {
            self.repair_views()?;
        }
        Ok(forgotten)
    }

    fn write(&self, generation: u32, batch: &RowBatch) -> Result<Written, Error> {
        self.change(|connection| {
            if generations::advance(connection, generation, batch)? {
                for changes in &batch.changes {
                    link::write(connection, generation, changes)?;
                }
            }
            let lock = dialect(connection).shared_lock();
            Ok(Written { active: forms::in_use(connection, self.form, lock)? })
        })
    }

    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, Error> {
        let read = || {
            self.read(|connection| {
                let generation = forms::needed(connection, self.form, "")?;
                link::select(connection, generation, select)
            })
        };
        match read() {
            // Swapped and dropped between the two questions.
            Err(error) if refusal(&error) == Some(NO_SUCH_TABLE) => read(),
            outcome => outcome,
        }
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        let mut connection = self.pool.open()?;
        let begin = [
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ];
        for statement in begin {
            connection.run(statement).map_err(failed("begin to read"))?;
        }
        LinkedSnapshot::take(connection, self.form)
    }
}
