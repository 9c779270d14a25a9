//! Sets of tables, the switch between them, and their positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{DIALECT, failed};
use crate::sql::{left_grants_of, shard_of_left_grants};
use crate::{Error, FORMAT, Generation, Position, RowBatch, rows, sql, views};

/// The tables that are there once, beside all sets.
pub(super) const META: &str = "
CREATE TABLE IF NOT EXISTS tidemill_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tidemill_generations (number INTEGER PRIMARY KEY, format INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS tidemill_positions (
  generation INTEGER NOT NULL, journal_partition INTEGER NOT NULL, journal_offset INTEGER NOT NULL,
  head TEXT NOT NULL, PRIMARY KEY (generation, journal_partition)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tidemill_sinks (
  sink TEXT NOT NULL, journal_partition INTEGER NOT NULL, stored INTEGER, changes INTEGER NOT NULL, error TEXT,
  stopped INTEGER NOT NULL, noted_at INTEGER NOT NULL, PRIMARY KEY (sink, journal_partition)) STRICT, WITHOUT ROWID;
";

pub(super) fn active(connection: &Connection) -> Result<Option<u32>, Error> {
    let read = || {
        let mut statement =
            connection.prepare_cached("SELECT value FROM tidemill_meta WHERE name = 'active'")?;
        statement.query_row([], |row| row.get(0)).optional()
    };
    read().map_err(failed("ask which tables are in use"))
}

pub(super) fn horizon(connection: &Connection) -> Result<Option<i64>, Error> {
    let read = || {
        let sql = "SELECT value FROM tidemill_meta WHERE name = 'horizon'";
        connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
    };
    read().map_err(failed("read the horizon"))
}

pub(super) fn raise_horizon(connection: &Connection, before_ms: i64) -> Result<i64, Error> {
    raise(connection, "horizon", before_ms).map_err(failed("raise the horizon"))
}

fn raise(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO tidemill_meta VALUES (?1, ?2) \
               ON CONFLICT DO UPDATE SET value = MAX(value, ?2) RETURNING value";
    connection.prepare_cached(sql)?.query_row(params![name, value], |row| row.get(0))
}

pub(super) fn left_grants(connection: &Connection) -> Result<BTreeMap<i64, i64>, Error> {
    let read = || -> rusqlite::Result<Vec<(String, i64)>> {
        let mut statement = connection.prepare_cached("SELECT name, value FROM tidemill_meta")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let found = read().map_err(failed("ask which grants may have left the tables"))?;
    Ok(found.into_iter().filter_map(|(name, grant)| Some((shard_of_left_grants(&name)?, grant))).collect())
}

pub(super) fn raise_left_grant(connection: &Connection, shard: i64, grant: i64) -> Result<(), Error> {
    let raised = raise(connection, &left_grants_of(shard), grant);
    raised.map(|_| ()).map_err(failed("note which grants may have left the tables"))
}

pub(super) fn list(connection: &Connection) -> Result<Vec<Generation>, Error> {
    let active = active(connection)?;
    let read = || -> rusqlite::Result<Vec<(u32, i64)>> {
        let sql = "SELECT number, format FROM tidemill_generations ORDER BY number";
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let found = read().map_err(failed("list the tables"))?;
    let generation = |(number, format)| Generation { number, format, active: active == Some(number) };
    Ok(found.into_iter().map(generation).collect())
}

fn exists(connection: &Connection, generation: u32) -> Result<bool, Error> {
    let read = || {
        connection
            .prepare_cached("SELECT 1 FROM tidemill_generations WHERE number = ?")?
            .exists(params![generation])
    };
    read().map_err(failed("list the tables"))
}

/// Also where somebody dropped everything by hand, or left tables of an old set behind.
pub(super) fn create(connection: &Connection) -> Result<u32, Error> {
    let make = || -> rusqlite::Result<u32> {
        connection.execute_batch(META)?;
        let newest: Option<u32> =
            connection.query_row("SELECT MAX(number) FROM tidemill_generations", [], |row| row.get(0))?;
        let number = newest.unwrap_or(0) + 1;
        for table in rows::TABLES {
            connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", sql::table_name(number, table)))?;
            for statement in DIALECT.create(number, table, "") {
                connection.execute_batch(&statement)?;
            }
        }
        connection.execute("DELETE FROM tidemill_positions WHERE generation = ?", [number])?;
        connection.execute("INSERT INTO tidemill_generations VALUES (?, ?)", params![number, *FORMAT])?;
        Ok(number)
    };
    make().map_err(failed("make tables"))
}

pub(super) fn activate(connection: &Connection, generation: u32) -> Result<(), Error> {
    if !exists(connection, generation)? {
        return Err(Error::UnknownGeneration { generation });
    }
    if let Some(active) = active(connection)?.filter(|active| *active != generation) {
        let mine = positions(connection, generation)?;
        for (partition, position) in positions(connection, active)? {
            if mine.get(&partition).is_none_or(|mine| mine.offset < position.offset) {
                return Err(Error::Behind { generation, partition });
            }
        }
    }
    let switch = || -> rusqlite::Result<()> {
        let sql = "INSERT INTO tidemill_meta VALUES ('active', ?1) ON CONFLICT DO UPDATE SET value = ?1";
        connection.execute(sql, [generation])?;
        for name in views::names() {
            connection.execute_batch(&format!("DROP VIEW IF EXISTS {name}"))?;
        }
        for (name, query) in views::definitions(DIALECT, generation) {
            connection.execute_batch(&format!("CREATE VIEW {name} AS {query}"))?;
        }
        Ok(())
    };
    switch().map_err(failed("activate tables"))
}

pub(super) fn drop(connection: &Connection, generation: u32) -> Result<(), Error> {
    if active(connection)? == Some(generation) {
        return Err(Error::GenerationActive { generation });
    }
    let remove = || -> rusqlite::Result<()> {
        connection.execute("DELETE FROM tidemill_generations WHERE number = ?", [generation])?;
        connection.execute("DELETE FROM tidemill_positions WHERE generation = ?", [generation])?;
        for table in rows::TABLES {
            connection
                .execute_batch(&format!("DROP TABLE IF EXISTS {}", sql::table_name(generation, table)))?;
        }
        Ok(())
    };
    remove().map_err(failed("drop tables"))
}

pub(super) fn positions(connection: &Connection, generation: u32) -> Result<BTreeMap<u32, Position>, Error> {
    let read = || -> rusqlite::Result<BTreeMap<u32, Position>> {
        let sql =
            "SELECT journal_partition, journal_offset, head FROM tidemill_positions WHERE generation = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let position = |row: &rusqlite::Row<'_>| {
            let (offset, head): (i64, Arc<str>) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, Position { offset: offset.cast_unsigned(), head }))
        };
        statement.query_map([generation], position)?.collect()
    };
    read().map_err(failed("read the positions"))
}

/// Moves the position of a partition from where the batch begins to where it ends; `false` where it is
/// there already.
pub(super) fn advance(connection: &Connection, generation: u32, batch: &RowBatch) -> Result<bool, Error> {
    if !exists(connection, generation)? {
        return Err(Error::UnknownGeneration { generation });
    }
    let (partition, to) = (batch.partition, &batch.to);
    let move_it = || -> rusqlite::Result<Option<Option<Arc<str>>>> {
        let sql = "SELECT head FROM tidemill_positions WHERE generation = ? AND journal_partition = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let found: Option<Arc<str>> =
            statement.query_row(params![generation, partition], |row| row.get(0)).optional()?;
        if found.as_ref() != batch.from.as_ref().map(|from| &from.head) {
            return Ok(Some(found));
        }
        let sql = "INSERT INTO tidemill_positions VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT DO UPDATE SET journal_offset = ?3, head = ?4";
        let values = params![generation, partition, to.offset.cast_signed(), to.head];
        connection.prepare_cached(sql)?.execute(values)?;
        Ok(None)
    };
    match move_it().map_err(failed("move the position"))? {
        None => Ok(true),
        Some(found) if found.as_ref() == Some(&to.head) => Ok(false),
        Some(found) => Err(batch.conflict(found.as_deref())),
    }
}
