//! The SQL of both dialects, from one list of columns per table.

use std::fmt::Write;

use crate::{Column, Filter, Kind, Select, Table, Value};

/// Rows of one statement, at most; statements exist for powers of two up to it, so that few are prepared.
pub(crate) const MAX_ROWS: usize = 64;
/// Bytes of text of one statement, at most (one row may be larger).
const MAX_BYTES: usize = 1 << 20;

/// Whose SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    /// MySQL and MariaDB.
    Mysql,
}

const LEFT_GRANTS: &str = "left_grants_";

/// Under which name it is noted up to which grant of a shard some may have left the tables.
pub(crate) fn left_grants_of(shard: i64) -> String {
    format!("{LEFT_GRANTS}{shard}")
}

/// Of which shard such a note is.
pub(crate) fn shard_of_left_grants(name: &str) -> Option<i64> {
    name.strip_prefix(LEFT_GRANTS)?.parse().ok()
}

/// A generation's own name of a table.
pub(crate) fn table_name(generation: u32, table: &Table) -> String {
    format!("g{generation}_{}", table.name)
}

pub(crate) fn list(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

impl Dialect {
    fn column_type(self, kind: Kind) -> String {
        match (self, kind) {
            (Dialect::Sqlite, kind) if kind.is_number() => "INTEGER".to_owned(),
            (Dialect::Sqlite, _) => "TEXT".to_owned(),
            (Dialect::Mysql, Kind::Int | Kind::Time) => "BIGINT".to_owned(),
            (Dialect::Mysql, Kind::Bool) => "TINYINT".to_owned(),
            (Dialect::Mysql, Kind::Name(length)) => format!("VARCHAR({length})"),
            (Dialect::Mysql, Kind::Text | Kind::Json | Kind::Texts | Kind::Numbers) => {
                "MEDIUMTEXT".to_owned()
            }
        }
    }

    /// What is added to a question so that others change nothing of its rows before the transaction ends. Who writes to
    /// SQLite is alone.
    pub(crate) fn lock(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Mysql => " FOR UPDATE",
        }
    }

    /// The same, where others may read them under such a lock, too.
    pub(crate) fn shared_lock(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Mysql => " LOCK IN SHARE MODE",
        }
    }

    /// What follows the name of a table where it is made; `collation` is how MySQL compares text.
    pub(crate) fn form(self, table: &Table, collation: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for column in table.columns {
            let null = if column.nullable { "" } else { " NOT NULL" };
            parts.push(format!("{} {}{null}", column.name, self.column_type(column.kind)));
        }
        parts.push(format!("PRIMARY KEY ({})", table.key.join(", ")));
        let options = match self {
            Dialect::Sqlite if table.key.len() == 1 && table.columns[0].kind == Kind::Int => {
                "STRICT".to_owned()
            }
            Dialect::Sqlite => "STRICT, WITHOUT ROWID".to_owned(),
            Dialect::Mysql => {
                parts.extend(table.indexes.iter().map(|columns| format!("INDEX ({})", columns.join(", "))));
                format!("ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}")
            }
        };
        format!("({}) {options}", parts.join(", "))
    }

    /// The statements that make a generation's table.
    pub(crate) fn create(self, generation: u32, table: &Table, collation: &str) -> Vec<String> {
        let name = table_name(generation, table);
        let mut all = vec![format!("CREATE TABLE {name} {}", self.form(table, collation))];
        if self == Dialect::Sqlite {
            let indexes = table.indexes.iter().enumerate();
            all.extend(indexes.map(|(number, columns)| {
                format!("CREATE INDEX {name}_{number} ON {name} ({})", columns.join(", "))
            }));
        }
        all
    }

    /// Inserts `rows` rows, or replaces what is not fixed in those that are there.
    pub(crate) fn upsert(self, name: &str, table: &Table, rows: usize) -> String {
        let row = format!("({})", vec!["?"; table.columns.len()].join(","));
        let values = vec![row.as_str(); rows].join(",");
        let changing =
            table.columns[table.key.len()..].iter().filter(|column| !table.fixed.contains(&column.name));
        let set = |new: fn(&str) -> String| {
            changing.map(|column| format!("{}={}", column.name, new(column.name))).collect::<Vec<_>>()
        };
        let key = table.key.join(", ");
        let end = match self {
            Dialect::Sqlite => {
                let set = set(|name| format!("excluded.{name}"));
                let then = if set.is_empty() {
                    "NOTHING".to_owned()
                } else {
                    format!("UPDATE SET {}", set.join(","))
                };
                format!("ON CONFLICT ({key}) DO {then}")
            }
            Dialect::Mysql => {
                let mut set = set(|name| format!("VALUES({name})"));
                if set.is_empty() {
                    let first = table.columns[0].name;
                    set.push(format!("{first}={first}"));
                }
                format!("ON DUPLICATE KEY UPDATE {}", set.join(","))
            }
        };
        format!("INSERT INTO {name} ({}) VALUES {values} {end}", list(table.columns))
    }
}

fn any_key(table: &Table, keys: usize) -> String {
    match table.key {
        [only] => format!("{only} IN ({})", vec!["?"; keys].join(",")),
        columns => {
            let one: Vec<_> = columns.iter().map(|column| format!("{column}=?")).collect();
            vec![format!("({})", one.join(" AND ")); keys].join(" OR ")
        }
    }
}

/// The rows of `keys` keys.
pub(crate) fn load(generation: u32, table: &Table, keys: usize) -> String {
    let from = table_name(generation, table);
    format!("SELECT {} FROM {from} WHERE {}", list(table.columns), any_key(table, keys))
}

/// Deletes those of the rows of `keys` keys that these hold for; their values come after the keys.
pub(crate) fn delete(
    generation: u32,
    table: &Table,
    keys: usize,
    filters: &[Filter],
) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut all = vec![format!("({})", any_key(table, keys))];
    all.extend(conditions(generation, table, filters, &mut values));
    (format!("DELETE FROM {} WHERE {}", table_name(generation, table), all.join(" AND ")), values)
}

fn conditions(generation: u32, table: &Table, filters: &[Filter], values: &mut Vec<Value>) -> Vec<String> {
    filters.iter().map(|filter| condition(generation, table, filter, values)).collect()
}

fn condition(generation: u32, table: &Table, filter: &Filter, values: &mut Vec<Value>) -> String {
    let (column, operator, value) = match filter {
        Filter::Equal(column, Value::Null) => return format!("{column} IS NULL"),
        Filter::Unnamed(other, pairs) => return unnamed(generation, table, other, pairs),
        Filter::In(_, all) if all.is_empty() => return NOTHING.to_owned(),
        Filter::In(column, all) => {
            values.extend_from_slice(all);
            return format!("{column} IN ({})", vec!["?"; all.len()].join(","));
        }
        Filter::Listed(column, other, theirs, filters) => {
            let filters = together(conditions(generation, other, filters, values), " AND ", EVERYTHING);
            let other = table_name(generation, other);
            return format!("{column} IN (SELECT {theirs} FROM {other} WHERE {filters})");
        }
        Filter::Any(filters) => {
            let mut any = conditions(generation, table, filters, values);
            any.retain(|condition| condition != NOTHING);
            return together(any, " OR ", NOTHING);
        }
        Filter::All(filters) => {
            return together(conditions(generation, table, filters, values), " AND ", EVERYTHING);
        }
        Filter::Equal(column, value) => (column, "=", value),
        Filter::Unequal(column, value) => (column, "<>", value),
        Filter::AtLeast(column, value) => (column, ">=", value),
        Filter::Below(column, value) => (column, "<", value),
    };
    values.push(value.clone());
    format!("{column} {operator} ?")
}

/// What holds for no row, and for every one.
const NOTHING: &str = "1=0";
const EVERYTHING: &str = "1=1";

/// `none`: what it is where there are no conditions.
fn together(conditions: Vec<String>, operator: &str, none: &str) -> String {
    match &conditions[..] {
        [] => none.to_owned(),
        [one] => one.clone(),
        several => format!("({})", several.join(operator)),
    }
}

fn unnamed(generation: u32, table: &Table, other: &Table, pairs: &[(&str, &str)]) -> String {
    let (table, other) = (table_name(generation, table), table_name(generation, other));
    let same: Vec<_> = pairs.iter().map(|(theirs, ours)| format!("other.{theirs}={table}.{ours}")).collect();
    format!("NOT EXISTS (SELECT 1 FROM {other} AS other WHERE {})", same.join(" AND "))
}

/// A question, and what stands for its question marks.
///
/// A place in a sorted list is written `a <= ? AND (a < ? OR (b < ?))`: neither database uses an index for
/// `(a, b) < (?, ?)` as well as for this.
pub(crate) fn select(generation: u32, select: &Select) -> (String, Vec<Value>) {
    let table = select.table;
    let mut sql = format!("SELECT {} FROM {}", list(table.columns), table_name(generation, table));
    let mut values = Vec::new();
    let mut conditions = conditions(generation, table, &select.filters, &mut values);
    if let Some(after) = &select.after {
        conditions.push(beyond(select.order, after, select.descending, &mut values));
    }
    if !conditions.is_empty() {
        let _ = write!(sql, " WHERE {}", conditions.join(" AND "));
    }
    let direction = if select.descending { " DESC" } else { "" };
    let order: Vec<_> = select.order.iter().map(|column| format!("{column}{direction}")).collect();
    let _ = write!(sql, " ORDER BY {}", order.join(", "));
    if select.limit < usize::MAX {
        let _ = write!(sql, " LIMIT {}", select.limit);
    }
    (sql, values)
}

fn beyond(columns: &[&str], after: &[Value], descending: bool, values: &mut Vec<Value>) -> String {
    let than = if descending { "<" } else { ">" };
    let (column, rest) = columns.split_first().expect("a list is sorted by at least one column");
    let value = after.first().cloned().unwrap_or(Value::Null);
    values.push(value.clone());
    if rest.is_empty() {
        return format!("{column} {than} ?");
    }
    values.push(value);
    let deeper = beyond(rest, &after[1.min(after.len())..], descending, values);
    format!("{column} {than}= ? AND ({column} {than} ? OR ({deeper}))")
}

/// Cuts rows or keys into statements: each a power of two of rows, none over the bounds.
pub(crate) fn pieces(mut rows: &[Vec<Value>], max_rows: usize) -> impl Iterator<Item = &[Vec<Value>]> {
    std::iter::from_fn(move || {
        if rows.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let fit = rows.iter().take(max_rows).take_while(|row| {
            bytes += row.iter().map(size).sum::<usize>();
            bytes <= MAX_BYTES
        });
        let fit = fit.count().max(1);
        let (piece, rest) = rows.split_at(1 << fit.ilog2());
        rows = rest;
        Some(piece)
    })
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Int(_) => 8,
        Value::Text(text) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two_and_cover_everything() {
        let rows = vec![vec![Value::Int(1)]; 100];
        let sizes: Vec<_> = pieces(&rows, 64).map(<[_]>::len).collect();
        assert_eq!(sizes, [64, 32, 4]);
    }

    #[test]
    fn a_large_row_is_a_piece_of_its_own() {
        let large = vec![Value::from("x".repeat(MAX_BYTES + 1).as_str())];
        let rows = vec![large.clone(), vec![Value::Int(1)], large];
        let sizes: Vec<_> = pieces(&rows, 64).map(<[_]>::len).collect();
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn place_in_a_list_compares_column_by_column() {
        let mut values = Vec::new();
        let sql = beyond(&["a", "b"], &[Value::Int(1), Value::Int(2)], true, &mut values);
        assert_eq!(sql, "a <= ? AND (a < ? OR (b < ?))");
        assert_eq!(values, [Value::Int(1), Value::Int(1), Value::Int(2)]);
    }
}
