//! Rows in, rows out.

use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::{DIALECT, failed};
use crate::{Error, Table, TableChanges, Value, sql};

/// Rows of one statement. More bring nothing here: a statement is a function call away.
const ROWS: usize = 8;

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
    values: impl Iterator<Item = &'a Value>,
) -> rusqlite::Result<()> {
    values.zip(1..).try_for_each(|(value, index)| statement.raw_bind_parameter(index, Bound(value)))
}

fn execute(connection: &Connection, sql: &str, rows: &[Vec<Value>]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, rows.iter().flatten())?;
    statement.raw_execute().map(|_| ())
}

/// Writes the changes of one table.
pub(super) fn write(connection: &Connection, generation: u32, changes: &TableChanges) -> Result<(), Error> {
    let table = changes.table;
    let mut text = (0, String::new());
    for piece in sql::pieces(&changes.upserts, ROWS) {
        if text.0 != piece.len() {
            text = (piece.len(), DIALECT.upsert(generation, table, piece.len()));
        }
        execute(connection, &text.1, piece).map_err(failed("write rows"))?;
    }
    delete(connection, generation, table, &changes.deletes)
}

/// Deletes the rows with these keys.
pub(super) fn delete(
    connection: &Connection,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, ROWS) {
        let sql = sql::delete(generation, table, piece.len());
        execute(connection, &sql, piece).map_err(failed("delete rows"))?;
    }
    Ok(())
}

/// The rows of a query that asks for all columns of a table.
pub(super) fn query<'a>(
    connection: &Connection,
    table: &Table,
    sql: &str,
    values: impl Iterator<Item = &'a Value>,
) -> Result<Vec<Vec<Value>>, Error> {
    let read = || -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = connection.prepare_cached(sql)?;
        bind(&mut statement, values)?;
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let value = |index| row.get_ref(index).and_then(|value| owned(value, index));
            found.push((0..table.columns.len()).map(value).collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(found)
    };
    read().map_err(|source| Error::database(format!("read {}", table.name), source))
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
