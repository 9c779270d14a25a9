//! A set of tables that begins with the rows of another one.

use std::collections::BTreeMap;

use crate::generations::{self, GenerationRow, MetaRow, found, number_of, of};
use crate::link::{self, Link};
use crate::sql::{self, table_name};
use crate::{Error, Position, RebuildRight, Select, Table, TableChanges, Value, forms, rebuilding};

const WHAT: &str = "copy rows";

pub(crate) fn count(link: &mut impl Link, generation: u32, table: &'static Table) -> Result<u64, Error> {
    use crate::Row as _;

    let sql = format!("SELECT 'rows' AS name, COUNT(*) AS value FROM {}", table_name(generation, table));
    let rows = link.rows("count rows", MetaRow::TABLE, &sql, &[])?;
    let counted = rows.into_iter().next().map(MetaRow::from_values).transpose()?;
    Ok(counted.and_then(|row| u64::try_from(row.value).ok()).unwrap_or_default())
}

/// Whatever is written meanwhile: a part begins after the last key that is there, and is as long as it turns out to be.
pub(crate) fn copy<L: Link>(
    link: &mut L,
    right: RebuildRight,
    (from, to): (u32, u32),
    table: &'static Table,
    rows: usize,
) -> Result<bool, Error> {
    rebuilding::keep(link, right)?;
    check_empty(link, to)?;
    let after = last_key(link, to, table)?;
    let select = Select { after: after.clone(), limit: rows.max(1), ..Select::new(table, table.key) };
    let (part, values) = sql::select(from, &select);
    let columns = sql::list(table.columns);
    let copy = format!("INSERT INTO {} ({columns}) {part}", table_name(to, table));
    link.execute(WHAT, &copy, &values)?;
    Ok(last_key(link, to, table)? != after)
}

fn last_key(link: &mut impl Link, set: u32, table: &'static Table) -> Result<Option<Vec<Value>>, Error> {
    let select = Select::new(table, table.key).descending().limit(1);
    let last = link::select(link, set, &select)?.pop();
    Ok(last.map(|row| table.key_of(&row).to_vec()))
}

pub(crate) fn seed<L: Link>(
    link: &mut L,
    right: RebuildRight,
    generation: u32,
    changes: &[TableChanges],
    positions: &BTreeMap<u32, Position>,
) -> Result<(), Error> {
    rebuilding::keep(link, right)?;
    check_empty(link, generation)?;
    // First the keys: what a column that never changes holds comes from the copy otherwise.
    for change in changes {
        link::replace(link, generation, change)?;
    }
    for (partition, position) in positions {
        generations::place(link, generation, *partition, position)?;
    }
    Ok(())
}

/// Whether a set is there, not in use, and shows nothing of a journal yet.
fn check_empty<L: Link>(link: &mut L, generation: u32) -> Result<(), Error> {
    let set = found::<GenerationRow>(link, "write rows", "WHERE number = ?", &[of(generation)])?;
    let Some(set) = set.first() else { return Err(Error::UnknownGeneration { generation }) };
    if forms::in_use(link, set.format, L::DIALECT.shared_lock())? == Some(number_of(set.number)) {
        return Err(Error::GenerationActive { generation });
    }
    match generations::positions(link, generation)?.is_empty() {
        true => Ok(()),
        false => Err(Error::GenerationFilled { generation }),
    }
}
