//! Selected rows as their types, all, one or a page of them.

use crate::{Cursor, Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

pub(super) fn all<R: Row>(tables: &(impl Tables + ?Sized), select: &Select) -> Result<Vec<R>, Error> {
    typed(tables.select(select)?)
}

pub(super) fn one<R: Row>(tables: &(impl Tables + ?Sized), select: Select) -> Result<Option<R>, Error> {
    Ok(all(tables, &select.limit(1))?.pop())
}

pub(super) fn page<R: Row>(
    tables: &(impl Tables + ?Sized),
    mut select: Select,
    request: &PageRequest,
) -> Result<Page<R>, Error> {
    if let Some(cursor) = &request.after {
        if cursor.values().len() != select.order.len() {
            return Err(Error::BadCursor { cursor: cursor.to_string() });
        }
        select.after = Some(cursor.values().to_vec());
    }
    select.limit = request.limit.saturating_add(1);
    let mut rows = tables.select(&select)?;
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().filter(|_| more).map(|row| {
        let place = |name: &&str| {
            let column = select.table.columns.iter().position(|column| column.name == *name);
            row[column.expect("a list is sorted by columns of its table")].clone()
        };
        Cursor::new(select.order.iter().map(place).collect())
    });
    Ok(Page { items: typed(rows)?, next })
}

fn typed<R: Row>(rows: Vec<Vec<Value>>) -> Result<Vec<R>, Error> {
    rows.into_iter().map(R::from_values).collect()
}

pub(super) fn text(value: &str) -> Value {
    Value::from(value)
}

pub(super) fn optional(select: &mut Select, column: &'static str, value: Option<Value>) {
    select.filters.extend(value.map(|value| Filter::Equal(column, value)));
}
