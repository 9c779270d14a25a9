//! A connection to either database, and how rows go over it.

use std::collections::BTreeMap;

use crate::sql::{self, Dialect, table_name};
use crate::{
    Aged, Error, Filter, Position, Select, Snapshot, Table, TableChanges, Value, forms, generations, rows,
};

/// The dialect of a connection.
pub(crate) fn dialect<L: Link>(_: &L) -> Dialect {
    L::DIALECT
}

/// A connection; where something is changed, in a transaction.
pub(crate) trait Link {
    const DIALECT: Dialect;
    /// Rows that one statement writes or deletes, at most.
    const ROWS: usize;

    /// Runs a statement that has no values.
    fn run(&mut self, what: &str, sql: &str) -> Result<(), Error>;

    /// Runs a prepared statement.
    fn execute<'a>(
        &mut self,
        what: &str,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), Error>;

    /// The rows of a prepared question that asks for all columns of a table.
    fn rows<'a>(
        &mut self,
        what: &str,
        table: &'static Table,
        sql: &str,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Vec<Vec<Value>>, Error>;

    /// Whether a row was refused because another one has its key.
    fn is_duplicate(error: &Error) -> bool;
}

/// Writes the changes of one table.
pub(crate) fn write<L: Link>(link: &mut L, generation: u32, changes: &TableChanges) -> Result<(), Error> {
    let name = table_name(generation, changes.table);
    let mut text = (0, String::new());
    for piece in sql::pieces(&changes.upserts, L::ROWS) {
        if text.0 != piece.len() {
            text = (piece.len(), L::DIALECT.upsert(&name, changes.table, piece.len()));
        }
        link.execute("write rows", &text.1, piece.iter().flatten())?;
    }
    delete(link, generation, changes.table, &changes.deletes, &[])
}

/// The same, where rows may be there whose columns that never change hold something else.
pub(crate) fn replace<L: Link>(link: &mut L, generation: u32, changes: &TableChanges) -> Result<(), Error> {
    let keys: Vec<_> = changes.upserts.iter().map(|row| changes.table.key_of(row).to_vec()).collect();
    delete(link, generation, changes.table, &keys, &[])?;
    write(link, generation, changes)
}

/// Deletes those of the rows with these keys that the filters hold for.
fn delete<L: Link>(
    link: &mut L,
    generation: u32,
    table: &Table,
    keys: &[Vec<Value>],
    filters: &[Filter],
) -> Result<(), Error> {
    for piece in sql::pieces(keys, L::ROWS) {
        let (sql, values) = sql::delete(generation, table, piece.len(), filters);
        link.execute("delete rows", &sql, piece.iter().flatten().chain(&values))?;
    }
    Ok(())
}

/// The rows with these keys.
pub(crate) fn load(
    link: &mut impl Link,
    generation: u32,
    table: &'static Table,
    keys: &[Vec<Value>],
) -> Result<Vec<Vec<Value>>, Error> {
    let what = format!("read {}", table.name);
    let mut rows = Vec::with_capacity(keys.len());
    for piece in sql::pieces(keys, sql::MAX_ROWS) {
        let sql = sql::load(generation, table, piece.len());
        rows.extend(link.rows(&what, table, &sql, piece.iter().flatten())?);
    }
    Ok(rows)
}

/// Whether all tables of a set are there.
pub(crate) fn is_whole(link: &mut impl Link, generation: u32) -> Result<bool, Error> {
    for table in rows::TABLES {
        let key = vec![Value::from(""); table.key.len()];
        match load(link, generation, table, &[key]) {
            Ok(_) => {}
            Err(error) if error.is_missing() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The rows of a question to a generation.
pub(crate) fn select(
    link: &mut impl Link,
    generation: u32,
    select: &Select,
) -> Result<Vec<Vec<Value>>, Error> {
    let (sql, values) = sql::select(generation, select);
    link.rows(&format!("read {}", select.table.name), select.table, &sql, &values)
}

/// Deletes the rows of a question to a generation; how many it gave.
pub(crate) fn purge<L: Link>(link: &mut L, generation: u32, select: &Select) -> Result<usize, Error> {
    let rows = self::select(link, generation, select)?;
    let mut keys: Vec<_> = rows.iter().map(|row| select.table.key_of(row).to_vec()).collect();
    // As everybody locks them.
    keys.sort();
    // Nobody else writes SQLite meanwhile, and its planner might prefer an index of the filters to the keys.
    let filters: &[Filter] = match L::DIALECT {
        Dialect::Mysql => &select.filters,
        Dialect::Sqlite => &[],
    };
    delete(link, generation, select.table, &keys, filters)?;
    Ok(keys.len())
}

/// A read transaction; its connection is closed with it.
pub(crate) struct LinkedSnapshot<L> {
    link: L,
    generation: u32,
}

impl<L: Link> LinkedSnapshot<L> {
    /// On a connection whose transaction has begun.
    pub(crate) fn take<'a>(mut link: L, form: i64) -> Result<Box<dyn Snapshot + 'a>, Error>
    where
        L: 'a,
    {
        let generation = forms::needed(&mut link, form, "")?;
        Ok(Box::new(Self { link, generation }))
    }
}

impl<L: Link> Snapshot for LinkedSnapshot<L> {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn positions(&mut self) -> Result<BTreeMap<u32, Position>, Error> {
        generations::positions(&mut self.link, self.generation)
    }

    fn horizon(&mut self, of: Aged) -> Result<Option<i64>, Error> {
        generations::horizon(&mut self.link, of)
    }

    fn rows(
        &mut self,
        table: &'static Table,
        after: Option<&[Value]>,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let after = after.map(<[Value]>::to_vec);
        let select = Select { after, limit, ..Select::new(table, table.key) };
        self::select(&mut self.link, self.generation, &select)
    }
}

/// What both databases do alike of [`Tables`](crate::Tables), each with its own `read` and `change`.
macro_rules! alike {
    () => {
        fn positions(&self, generation: u32) -> Result<BTreeMap<u32, Position>, Error> {
            self.read(|link| generations::positions(link, generation))
        }

        fn load(
            &self,
            generation: u32,
            table: &'static Table,
            keys: &[Vec<Value>],
        ) -> Result<Vec<Vec<Value>>, Error> {
            self.read(|link| link::load(link, generation, table, keys))
        }

        fn is_whole(&self, generation: u32) -> Result<bool, Error> {
            self.read(|link| link::is_whole(link, generation))
        }

        fn horizon(&self, of: $crate::Aged) -> Result<Option<i64>, Error> {
            self.read(|link| generations::horizon(link, of))
        }

        fn raise_horizon(&self, of: $crate::Aged, before_ms: i64) -> Result<i64, Error> {
            self.change(|link| generations::raise_horizon(link, of, before_ms))
        }

        fn left_grants(&self) -> Result<BTreeMap<i64, i64>, Error> {
            self.read(|link| generations::left_grants(link))
        }

        fn raise_left_grant(&self, shard: i64, grant: i64) -> Result<(), Error> {
            self.change(|link| generations::raise_left_grant(link, shard, grant))
        }

        fn purge(&self, select: &Select) -> Result<usize, Error> {
            self.change(|link| {
                let generation = forms::needed(link, self.form, dialect(link).shared_lock())?;
                link::purge(link, generation, select)
            })
        }

        fn note_sinks(&self, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error> {
            self.change(|link| generations::note_sinks(link, notes, forget_before_ms))
        }

        fn sinks(&self) -> Result<Vec<SinkNote>, Error> {
            self.read(|link| generations::sinks(link))
        }

        fn form(&self) -> i64 {
            self.form
        }

        fn attend(&self) -> Result<(), Error> {
            self.change(|link| forms::attend(link, self.form))
        }

        fn forms(&self) -> Result<Vec<FormInUse>, Error> {
            self.read(|link| forms::list(link))
        }

        fn count(&self, generation: u32, table: &'static Table) -> Result<u64, Error> {
            self.read(|link| copies::count(link, generation, table))
        }

        fn rebuild_in_progress(&self) -> Result<Option<RebuildInProgress>, Error> {
            self.read(|link| rebuilding::last(link, self.form))
        }

        fn keep_rebuild(&self, right: RebuildRight) -> Result<(), Error> {
            self.change(|link| rebuilding::keep(link, right))
        }

        fn end_rebuild(&self, right: RebuildRight) -> Result<(), Error> {
            self.change(|link| rebuilding::end(link, right))
        }

        fn drop_generation(&self, right: RebuildRight, generation: u32) -> Result<(), Error> {
            self.change(|link| generations::forget(link, right, generation))
        }

        fn sweep(&self) -> Result<bool, Error> {
            self.change(|link| leftovers::sweep(link))
        }

        fn copy(
            &self,
            right: RebuildRight,
            from_to: (u32, u32),
            table: &'static Table,
            rows: usize,
        ) -> Result<bool, Error> {
            self.change(|link| copies::copy(link, right, from_to, table, rows))
        }

        fn seed(
            &self,
            right: RebuildRight,
            generation: u32,
            changes: &[TableChanges],
            positions: &BTreeMap<u32, Position>,
        ) -> Result<(), Error> {
            self.change(|link| copies::seed(link, right, generation, changes, positions))
        }
    };
}
pub(crate) use alike;
