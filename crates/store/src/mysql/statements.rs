//! Statements in, rows out.

use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{Column as _, MySql, Row, Type};

use super::connection::MysqlConnection;
use super::{failed, refusal};
use crate::link::Link;
use crate::sql::{self, Dialect};
use crate::{Column, Error, Kind, Table, Value};

impl Link for MysqlConnection {
    const DIALECT: Dialect = Dialect::Mysql;
    const ROWS: usize = sql::MAX_ROWS;

    fn run(&mut self, what: &str, sql: &str) -> Result<(), Error> {
        self.run(sql).map_err(failed(what))
    }

    fn execute<'a>(
        &mut self,
        what: &str,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), Error> {
        self.execute(sql, values).map(drop).map_err(failed(what))
    }

    fn rows<'a>(
        &mut self,
        what: &str,
        table: &'static Table,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let rows = self.fetch(sql, values).map_err(failed(what))?;
        let wrong = |column: &Column| Error::Column { table: table.name, column: column.name };
        // All rows have the columns of the first one, so their kinds are looked at once.
        if let Some(row) = rows.first() {
            let mut columns = table.columns.iter().enumerate();
            if let Some((_, column)) = columns.find(|(index, column)| !holds(row, *index, column.kind)) {
                return Err(wrong(column));
            }
        }
        let row = |row: &MySqlRow| {
            let columns = table.columns.iter().enumerate();
            columns
                .map(|(index, column)| value(row, index, column.kind).ok_or_else(|| wrong(column)))
                .collect()
        };
        rows.iter().map(row).collect()
    }

    fn is_duplicate(error: &Error) -> bool {
        refusal(error) == Some(1062)
    }
}

/// Whether there is a column of this kind.
fn holds(row: &MySqlRow, index: usize, kind: Kind) -> bool {
    row.columns().get(index).is_some_and(|column| match kind.is_number() {
        true => <i64 as Type<MySql>>::compatible(column.type_info()),
        false => <str as Type<MySql>>::compatible(column.type_info()),
    })
}

/// None where it cannot be read. The column's kind is right.
fn value(row: &MySqlRow, index: usize, kind: Kind) -> Option<Value> {
    let value = match kind.is_number() {
        true => row.try_get_unchecked::<Option<i64>, _>(index).ok()?.map(Value::Int),
        false => {
            row.try_get_unchecked::<Option<&str>, _>(index).ok()?.map(|text| Value::Text(Arc::from(text)))
        }
    };
    Some(value.unwrap_or(Value::Null))
}
