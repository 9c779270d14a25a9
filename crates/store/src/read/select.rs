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
        self.limit_to(request)?;
        let rows = tables.select(&self)?;
        self.cut(rows, request)
    }

    /// A page of what each of these questions finds, which are of the same table and order; no row is found by two of them.
    pub(super) fn merged<R: Row>(
        &self,
        tables: &(impl Tables + ?Sized),
        parts: impl Iterator<Item = Self>,
        request: &PageRequest,
    ) -> Result<Page<R>, Error> {
        let mut rows = Vec::new();
        for mut part in parts {
            part.limit_to(request)?;
            rows.extend(tables.select(&part)?);
        }
        rows.sort_by_cached_key(|row| self.place(row));
        if self.descending {
            rows.reverse();
        }
        self.cut(rows, request)
    }

    fn limit_to(&mut self, request: &PageRequest) -> Result<(), Error> {
        if let Some(cursor) = &request.after {
            if cursor.values().len() != self.order.len() {
                return Err(Error::BadCursor { cursor: cursor.to_string() });
            }
            self.after = Some(cursor.values().to_vec());
        }
        self.limit = request.limit.saturating_add(1);
        Ok(())
    }

    fn cut<R: Row>(&self, mut rows: Vec<Vec<Value>>, request: &PageRequest) -> Result<Page<R>, Error> {
        let more = rows.len() > request.limit;
        rows.truncate(request.limit);
        let next = rows.last().filter(|_| more).map(|row| Cursor::new(self.place(row)));
        Ok(Page { items: typed(rows)?, next })
    }

    /// Where a row stands in the order.
    fn place(&self, row: &[Value]) -> Vec<Value> {
        let value = |name: &&str| {
            let column = self.table.columns.iter().position(|column| column.name == *name);
            row[column.expect("a list is sorted by columns of its table")].clone()
        };
        self.order.iter().map(value).collect()
    }
}

fn typed<R: Row>(rows: Vec<Vec<Value>>) -> Result<Vec<R>, Error> {
    rows.into_iter().map(R::from_values).collect()
}
