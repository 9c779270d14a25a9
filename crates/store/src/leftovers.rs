//! Tables of sets that were dropped: they go piece by piece, so that nobody who writes waits for long, and whoever is cut off in
//! between leaves the rest to the next one.

use crate::generations::{GenerationRow, MetaRow, delete_note, found, number_of, of};
use crate::link::Link;
use crate::sql::Dialect;
use crate::{Error, Row as _};

const WHAT: &str = "drop tables";
/// Rows that go in one transaction, where a table is not just a file.
const ROWS: usize = 2_000;

/// Under which name it is noted that the tables of a set are to be dropped.
pub(crate) fn note_of(generation: u32) -> String {
    format!("drop_{generation}")
}

/// Drops a piece of what is to be dropped; `false` where nothing is left.
pub(crate) fn sweep<L: Link>(link: &mut L) -> Result<bool, Error> {
    let noted = found::<MetaRow>(link, WHAT, "WHERE name >= 'drop_' AND name < 'drop`' ORDER BY name", &[])?;
    for note in noted {
        let generation = number_of(note.value);
        // A set that is there has been noted a moment too early, or its number has been given away again.
        if found::<GenerationRow>(link, WHAT, "WHERE number = ?", &[of(generation)])?.is_empty() {
            if !drop_some(link, generation)? {
                delete_note(link, &note.name)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops a piece of a set's tables, whatever form they have; `false` where none was left.
pub(crate) fn drop_some<L: Link>(link: &mut L, generation: u32) -> Result<bool, Error> {
    let Some(table) = first_name(link, L::DIALECT, generation)? else { return Ok(false) };
    match L::DIALECT {
        Dialect::Mysql => link.run(WHAT, &format!("DROP TABLE IF EXISTS {table}"))?,
        Dialect::Sqlite => {
            let sql = format!(
                "SELECT name, pk AS value FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk"
            );
            let key = names(link, &sql)?.join(", ");
            link.run(
                WHAT,
                &format!("DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} LIMIT {ROWS})"),
            )?;
            let left = format!("SELECT 'row' AS name, 1 AS value FROM {table} LIMIT 1");
            if names(link, &left)?.is_empty() {
                link.run(WHAT, &format!("DROP TABLE {table}"))?;
            }
        }
    }
    Ok(true)
}

fn first_name(link: &mut impl Link, dialect: Dialect, generation: u32) -> Result<Option<String>, Error> {
    let sql = match dialect {
        Dialect::Sqlite => format!(
            "SELECT name, 0 AS value FROM sqlite_schema WHERE type = 'table' AND name GLOB 'g{generation}_*' \
             ORDER BY name LIMIT 1"
        ),
        Dialect::Mysql => format!(
            "SELECT CAST(table_name AS CHAR) AS name, CAST(0 AS SIGNED) AS value FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name LIKE 'g{generation}\\_%' ORDER BY table_name LIMIT 1"
        ),
    };
    Ok(names(link, &sql)?.pop())
}

/// The names of a question that gives names and numbers.
fn names(link: &mut impl Link, sql: &str) -> Result<Vec<String>, Error> {
    let rows = link.rows(WHAT, MetaRow::TABLE, sql, &[])?;
    rows.into_iter().map(|values| Ok(MetaRow::from_values(values)?.name.to_string())).collect()
}
