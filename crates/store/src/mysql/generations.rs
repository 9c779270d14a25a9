//! Sets of tables, the switch between them, and their positions. MySQL commits before every change of a
//! table's form, so each operation is ordered such that it can be cut anywhere and done again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connection::{MysqlConnection, MysqlError};
use super::{DIALECT, failed, refusal, sinks};
use crate::sql::{left_grants_of, shard_of_left_grants};
use crate::{Error, FORMAT, Generation, Position, RowBatch, Value, rows, sql, views};

const NO_SUCH_TABLE: u16 = 1146;

/// Makes the tables that are there once, beside all sets.
pub(super) fn make_meta(connection: &mut MysqlConnection, collation: &str) -> Result<(), Error> {
    let tables = [
        "tidemill_meta (name VARCHAR(64) PRIMARY KEY, value BIGINT NOT NULL)",
        "tidemill_generations (number BIGINT PRIMARY KEY, format BIGINT NOT NULL)",
        "tidemill_positions (generation BIGINT NOT NULL, journal_partition BIGINT NOT NULL, \
         journal_offset BIGINT NOT NULL, head MEDIUMTEXT NOT NULL, PRIMARY KEY (generation, journal_partition))",
        sinks::TABLE,
    ];
    for table in tables {
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {table} ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}"
        );
        connection.run(sql).map_err(failed("make tables"))?;
    }
    Ok(())
}

fn of(generation: u32) -> Value {
    i64::from(generation).into()
}

/// As [`of`] wrote it.
fn number_of(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or_default()
}

fn ask_active(connection: &mut MysqlConnection, lock: &str) -> Result<Option<u32>, Error> {
    let sql = format!("SELECT value FROM tidemill_meta WHERE name = 'active'{lock}");
    let active = connection.number(sql, []).map_err(failed("ask which tables are in use"))?;
    Ok(active.map(number_of))
}

pub(super) fn active(connection: &mut MysqlConnection) -> Result<Option<u32>, Error> {
    ask_active(connection, "")
}

/// From here to the end of the transaction the switch stays as it is.
pub(super) fn active_locked(connection: &mut MysqlConnection) -> Result<Option<u32>, Error> {
    ask_active(connection, " LOCK IN SHARE MODE")
}

pub(super) fn horizon(connection: &mut MysqlConnection) -> Result<Option<i64>, Error> {
    let sql = "SELECT value FROM tidemill_meta WHERE name = 'horizon'";
    connection.number(sql, []).map_err(failed("read the horizon"))
}

pub(super) fn raise_horizon(connection: &mut MysqlConnection, before_ms: i64) -> Result<i64, Error> {
    raise(connection, "horizon", before_ms).map_err(failed("raise the horizon"))?;
    Ok(horizon(connection)?.unwrap_or(before_ms))
}

fn raise(connection: &mut MysqlConnection, name: &str, value: i64) -> Result<(), MysqlError> {
    let sql = "INSERT INTO tidemill_meta VALUES (?, ?) \
               ON DUPLICATE KEY UPDATE value = GREATEST(value, VALUES(value))";
    connection.execute(sql, &[name.into(), value.into()]).map(drop)
}

pub(super) fn left_grants(connection: &mut MysqlConnection) -> Result<BTreeMap<i64, i64>, Error> {
    let sql = "SELECT name, value FROM tidemill_meta";
    let found: Vec<(String, i64)> =
        connection.rows(sql, []).map_err(failed("ask which grants may have left the tables"))?;
    Ok(found.into_iter().filter_map(|(name, grant)| Some((shard_of_left_grants(&name)?, grant))).collect())
}

pub(super) fn raise_left_grant(
    connection: &mut MysqlConnection,
    shard: i64,
    grant: i64,
) -> Result<(), Error> {
    raise(connection, &left_grants_of(shard), grant)
        .map_err(failed("note which grants may have left the tables"))
}

/// None where somebody dropped everything by hand: then the first set is to be made again.
pub(super) fn list(connection: &mut MysqlConnection) -> Result<Vec<Generation>, Error> {
    match list_known(connection) {
        Err(error) if refusal(&error) == Some(NO_SUCH_TABLE) => Ok(Vec::new()),
        listed => listed,
    }
}

fn list_known(connection: &mut MysqlConnection) -> Result<Vec<Generation>, Error> {
    let active = active(connection)?;
    let sql = "SELECT number, format FROM tidemill_generations ORDER BY number";
    let found: Vec<(i64, i64)> = connection.rows(sql, []).map_err(failed("list the tables"))?;
    let generation = |(number, format)| {
        let number = number_of(number);
        Generation { number, format, active: active == Some(number) }
    };
    Ok(found.into_iter().map(generation).collect())
}

fn exists(connection: &mut MysqlConnection, generation: u32) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM tidemill_generations WHERE number = ?";
    let found = connection.number(sql, [&of(generation)]).map_err(failed("list the tables"))?;
    Ok(found.is_some())
}

/// Also where somebody dropped everything by hand, or left tables of an old set behind.
pub(super) fn create(connection: &mut MysqlConnection, collation: &str) -> Result<u32, Error> {
    make_meta(connection, collation)?;
    let make = |connection: &mut MysqlConnection| -> Result<u32, MysqlError> {
        let newest = connection.number("SELECT MAX(number) FROM tidemill_generations", [])?;
        let number = newest.map_or(0, number_of) + 1;
        connection
            .execute("INSERT INTO tidemill_generations VALUES (?, ?)", &[of(number), (*FORMAT).into()])?;
        connection.execute("DELETE FROM tidemill_positions WHERE generation = ?", [&of(number)])?;
        for table in rows::TABLES {
            connection.run(format!("DROP TABLE IF EXISTS {}", sql::table_name(number, table)))?;
            for statement in DIALECT.create(number, table, collation) {
                connection.run(statement)?;
            }
        }
        Ok(number)
    };
    make(connection).map_err(failed("make tables"))
}

/// Moves the switch, where the set has folded as much as the one in use. Writers that have not committed
/// yet learn of it before they do.
pub(super) fn switch(connection: &mut MysqlConnection, generation: u32) -> Result<(), Error> {
    if !exists(connection, generation)? {
        return Err(Error::UnknownGeneration { generation });
    }
    let active = ask_active(connection, " FOR UPDATE")?;
    if let Some(active) = active.filter(|active| *active != generation) {
        let mine = positions(connection, generation)?;
        for (partition, position) in positions(connection, active)? {
            if mine.get(&partition).is_none_or(|mine| mine.offset < position.offset) {
                return Err(Error::Behind { generation, partition });
            }
        }
    }
    let sql = "INSERT INTO tidemill_meta VALUES ('active', ?) ON DUPLICATE KEY UPDATE value = VALUES(value)";
    connection.execute(sql, [&of(generation)]).map(drop).map_err(failed("activate tables"))
}

pub(super) fn point_views(connection: &mut MysqlConnection, generation: u32) -> Result<(), Error> {
    for (name, query) in views::definitions(DIALECT, generation) {
        let sql = format!("CREATE OR REPLACE VIEW {name} AS {query}");
        connection.run(sql).map_err(failed("point the views to the tables"))?;
    }
    Ok(())
}

pub(super) fn forget(connection: &mut MysqlConnection, generation: u32) -> Result<(), Error> {
    if active_locked(connection)? == Some(generation) {
        return Err(Error::GenerationActive { generation });
    }
    for sql in [
        "DELETE FROM tidemill_generations WHERE number = ?",
        "DELETE FROM tidemill_positions WHERE generation = ?",
    ] {
        connection.execute(sql, [&of(generation)]).map_err(failed("drop tables"))?;
    }
    Ok(())
}

pub(super) fn drop_tables(connection: &mut MysqlConnection, generation: u32) -> Result<(), Error> {
    for table in rows::TABLES {
        let sql = format!("DROP TABLE IF EXISTS {}", sql::table_name(generation, table));
        connection.run(sql).map_err(failed("drop tables"))?;
    }
    Ok(())
}

pub(super) fn positions(
    connection: &mut MysqlConnection,
    generation: u32,
) -> Result<BTreeMap<u32, Position>, Error> {
    let sql = "SELECT journal_partition, journal_offset, head FROM tidemill_positions WHERE generation = ?";
    let found: Vec<(i64, i64, String)> =
        connection.rows(sql, [&of(generation)]).map_err(failed("read the positions"))?;
    let position = |(partition, offset, head): (i64, i64, String)| {
        (number_of(partition), Position { offset: offset.cast_unsigned(), head: head.into() })
    };
    Ok(found.into_iter().map(position).collect())
}

/// Moves the position of a partition from where the batch begins to where it ends; `false` where it is
/// there already. Until the transaction ends nobody else moves it.
pub(super) fn advance(
    connection: &mut MysqlConnection,
    generation: u32,
    batch: &RowBatch,
) -> Result<bool, Error> {
    if !exists(connection, generation)? {
        return Err(Error::UnknownGeneration { generation });
    }
    let (at, to) = ([of(generation), of(batch.partition)], &batch.to);
    let sql = "SELECT head FROM tidemill_positions WHERE generation = ? AND journal_partition = ? FOR UPDATE";
    let found = connection.text(sql, &at).map_err(failed("read the position"))?;
    if found.as_deref() == Some(&*to.head) {
        return Ok(false);
    }
    let from: Option<&Arc<str>> = batch.from.as_ref().map(|from| &from.head);
    if found.as_deref() != from.map(|from| &**from) {
        return Err(batch.conflict(found.as_deref()));
    }
    let new = [to.offset.cast_signed().into(), Value::Text(Arc::clone(&to.head))];
    let moved = if found.is_none() {
        connection.execute("INSERT INTO tidemill_positions VALUES (?, ?, ?, ?)", at.iter().chain(&new))
    } else {
        let sql = "UPDATE tidemill_positions SET journal_offset = ?, head = ? \
                   WHERE generation = ? AND journal_partition = ?";
        connection.execute(sql, new.iter().chain(&at))
    };
    match moved {
        // Somebody else made the first position meanwhile.
        Err(refusal) if refusal.number() == Some(1062) => Err(batch.conflict(None)),
        moved => moved.map(|_| true).map_err(failed("move the position")),
    }
}
