//! Questions to one table.

use crate::{Table, Value};

/// A condition on one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Equal to this; [`Value::Null`]: empty.
    Equal(&'static str, Value),
    /// Not equal to this, in a column that is never empty.
    Unequal(&'static str, Value),
    /// This or more.
    AtLeast(&'static str, Value),
    /// Less than this.
    Below(&'static str, Value),
    /// One of these.
    In(&'static str, Vec<Value>),
    /// In that column of that table of the same generation, in a row that these hold for.
    Listed(&'static str, &'static Table, &'static str, Vec<Filter>),
    /// One of these holds.
    Any(Vec<Filter>),
    /// All of these hold.
    All(Vec<Filter>),
    /// No row of that table of the same generation has, in the first column of each pair, what this one has in the second.
    Unnamed(&'static Table, &'static [(&'static str, &'static str)]),
}

/// A question to one table of the active generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// Which table.
    pub table: &'static Table,
    /// All of these hold.
    pub filters: Vec<Filter>,
    /// Sorted by these columns; together they tell rows apart, and none is nullable.
    pub order: &'static [&'static str],
    /// From the largest down.
    pub descending: bool,
    /// Only rows after the one with these values in the columns of `order`.
    pub after: Option<Vec<Value>>,
    /// At most this many.
    pub limit: usize,
}

impl Select {
    /// All rows of a table, in the order of these columns.
    #[must_use]
    pub fn new(table: &'static Table, order: &'static [&'static str]) -> Self {
        Self { table, filters: Vec::new(), order, descending: false, after: None, limit: usize::MAX }
    }

    /// Only rows whose column has this value.
    #[must_use]
    pub fn equal(self, column: &'static str, value: impl Into<Value>) -> Self {
        self.with(Filter::Equal(column, value.into()))
    }

    /// Only rows that this holds for.
    #[must_use]
    pub fn with(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// From the largest down.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// At most this many rows.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}
