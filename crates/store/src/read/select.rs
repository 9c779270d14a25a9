//! Selected rows as their types, all, one or a page of them.

use crate::{Cursor, Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

impl Select {
    /// Only rows whose column has this value, where there is one.
    pub(super) fn maybe(self, column: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.equal(column, value),
            None => self,
        }
    }

    /// Only rows whose column has these or more, and less, where they are given.
    pub(super) fn between(mut self, column: &'static str, from: Option<i64>, to: Option<i64>) -> Self {
        self.filters.extend(from.map(|from| Filter::AtLeast(column, from.into())));
        self.filters.extend(to.map(|to| Filter::Below(column, to.into())));
        self
    }

    pub(super) fn all<R: Row>(&self, tables: &(impl Tables + ?Sized)) -> Result<Vec<R>, Error> {
        typed(tables.select(self)?)
    }

    pub(super) fn one<R: Row>(self, tables: &(impl Tables + ?Sized)) -> Result<Option<R>, Error> {
        Ok(self.limit(1).all(tables)?.pop())
    }

    pub(super) fn page<R: Row>(
        mut self,
        tables: &(impl Tables + ?Sized),
        request: &PageRequest,
    ) -> Result<Page<R>, Error> {
        if let Some(cursor) = &request.after {
            if cursor.values().len() != self.order.len() {
                return Err(Error::BadCursor { cursor: cursor.to_string() });
            }
            self.after = Some(cursor.values().to_vec());
        }
        self.limit = request.limit.saturating_add(1);
        let mut rows = tables.select(&self)?;
        let more = rows.len() > request.limit;
        rows.truncate(request.limit);
        let next = rows.last().filter(|_| more).map(|row| {
            let place = |name: &&str| {
                let column = self.table.columns.iter().position(|column| column.name == *name);
                row[column.expect("a list is sorted by columns of its table")].clone()
            };
            Cursor::new(self.order.iter().map(place).collect())
        });
        Ok(Page { items: typed(rows)?, next })
    }
}

fn typed<R: Row>(rows: Vec<Vec<Value>>) -> Result<Vec<R>, Error> {
    rows.into_iter().map(R::from_values).collect()
}
