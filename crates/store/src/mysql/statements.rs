//! Rows in, rows out.

use mysql::prelude::Queryable;
use mysql::{Conn, Params};

use super::{DIALECT, failed};
use crate::{Error, Filter, Table, TableChanges, Value, sql};

pub(super) fn bound(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(number) => mysql::Value::Int(*number),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
    }
}

fn params<'a>(values: impl Iterator<Item = &'a Value>) -> Params {
    let values: Vec<_> = values.map(bound).collect();
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

/// Writes the changes of one table.
pub(super) fn write(connection: &mut Conn, generation: u32, changes: &TableChanges) -> Result<(), Error> {
    let table = changes.table;
    for piece in sql::pieces(&changes.upserts, sql::MAX_ROWS) {
        let sql = DIALECT.upsert(generation, table, piece.len());
        connection.exec_drop(sql, params(piece.iter().flatten())).map_err(failed("write rows"))?;
    }
    delete(connection, generation, table, &changes.deletes)
}

/// Deletes the rows with these keys.
pub(super) fn delete(
    connection: &mut Conn,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, sql::MAX_ROWS) {
        let sql = sql::delete(generation, table, piece.len());
        connection.exec_drop(sql, params(piece.iter().flatten())).map_err(failed("delete rows"))?;
    }
    Ok(())
}

/// Deletes those of the rows that these still hold for.
pub(super) fn delete_where(
    connection: &mut Conn,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
    filters: &[Filter],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, sql::MAX_ROWS) {
        let (sql, values) = sql::delete_where(generation, table, piece.len(), filters);
        let values = params(piece.iter().flatten().chain(&values));
        connection.exec_drop(sql, values).map_err(failed("delete rows"))?;
    }
    Ok(())
}

/// The rows of a query that asks for all columns of a table.
pub(super) fn query<'a>(
    connection: &mut Conn,
    table: &'static Table,
    sql: &str,
    values: impl Iterator<Item = &'a Value>,
) -> Result<Vec<Vec<Value>>, Error> {
    let what = || format!("read {}", table.name);
    let rows: Vec<mysql::Row> =
        connection.exec(sql, params(values)).map_err(|source| Error::database(what(), source))?;
    let row = |row: mysql::Row| {
        row.unwrap()
            .into_iter()
            .zip(table.columns)
            .map(|(value, column)| owned(value, table, column.name))
            .collect()
    };
    rows.into_iter().map(row).collect()
}

fn owned(value: mysql::Value, table: &'static Table, column: &'static str) -> Result<Value, Error> {
    let wrong = || Error::Column { table: table.name, column };
    match value {
        mysql::Value::NULL => Ok(Value::Null),
        mysql::Value::Int(number) => Ok(Value::Int(number)),
        mysql::Value::UInt(number) => i64::try_from(number).map(Value::Int).map_err(|_| wrong()),
        mysql::Value::Bytes(bytes) => {
            String::from_utf8(bytes).map(|text| Value::Text(text.into())).map_err(|_| wrong())
        }
        mysql::Value::Float(_)
        | mysql::Value::Double(_)
        | mysql::Value::Date(..)
        | mysql::Value::Time(..) => Err(wrong()),
    }
}
