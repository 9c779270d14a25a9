//! Rows in, rows out.

use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{Column as _, MySql, Row, Type};

use super::connection::MysqlConnection;
use super::{DIALECT, failed};
use crate::{Column, Error, Filter, Kind, Table, TableChanges, Value, sql};

/// Writes the changes of one table.
pub(super) fn write(
    connection: &mut MysqlConnection,
    generation: u32,
    changes: &TableChanges,
) -> Result<(), Error> {
    let table = changes.table;
    for piece in sql::pieces(&changes.upserts, sql::MAX_ROWS) {
        let sql = DIALECT.upsert(generation, table, piece.len());
        connection.execute(sql, piece.iter().flatten()).map_err(failed("write rows"))?;
    }
    delete(connection, generation, table, &changes.deletes)
}

/// Deletes the rows with these keys.
fn delete(
    connection: &mut MysqlConnection,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, sql::MAX_ROWS) {
        let sql = sql::delete(generation, table, piece.len());
        connection.execute(sql, piece.iter().flatten()).map_err(failed("delete rows"))?;
    }
    Ok(())
}

/// Deletes those of the rows that these still hold for.
pub(super) fn delete_where(
    connection: &mut MysqlConnection,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
    filters: &[Filter],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, sql::MAX_ROWS) {
        let (sql, values) = sql::delete_where(generation, table, piece.len(), filters);
        let values = piece.iter().flatten().chain(&values);
        connection.execute(sql, values).map_err(failed("delete rows"))?;
    }
    Ok(())
}

/// The rows of a query that asks for all columns of a table.
pub(super) fn query<'a>(
    connection: &mut MysqlConnection,
    table: &'static Table,
    sql: &str,
    values: impl IntoIterator<Item = &'a Value>,
) -> Result<Vec<Vec<Value>>, Error> {
    let rows = connection
        .fetch(sql, values)
        .map_err(|source| Error::database(format!("read {}", table.name), source))?;
    let wrong = |column: &Column| Error::Column { table: table.name, column: column.name };
    // All rows have the columns of the first one, so their kinds are looked at once.
    if let Some(row) = rows.first() {
        let other = table.columns.iter().enumerate().find(|(index, column)| !holds(row, *index, column.kind));
        if let Some((_, column)) = other {
            return Err(wrong(column));
        }
    }
    let row = |row: &MySqlRow| {
        let columns = table.columns.iter().enumerate();
        columns.map(|(index, column)| value(row, index, column.kind).ok_or_else(|| wrong(column))).collect()
    };
    rows.iter().map(row).collect()
}

fn is_number(kind: Kind) -> bool {
    match kind {
        Kind::Int | Kind::Bool | Kind::Time => true,
        Kind::Name(_) | Kind::Text | Kind::Json | Kind::Texts | Kind::Numbers => false,
    }
}

/// Whether there is a column of this kind.
fn holds(row: &MySqlRow, index: usize, kind: Kind) -> bool {
    row.columns().get(index).is_some_and(|column| match is_number(kind) {
        true => <i64 as Type<MySql>>::compatible(column.type_info()),
        false => <str as Type<MySql>>::compatible(column.type_info()),
    })
}

/// None where it cannot be read. The column's kind is right.
fn value(row: &MySqlRow, index: usize, kind: Kind) -> Option<Value> {
    let value = match is_number(kind) {
        true => row.try_get_unchecked::<Option<i64>, _>(index).ok()?.map(Value::Int),
        false => {
            row.try_get_unchecked::<Option<&str>, _>(index).ok()?.map(|text| Value::Text(Arc::from(text)))
        }
    };
    Some(value.unwrap_or(Value::Null))
}
