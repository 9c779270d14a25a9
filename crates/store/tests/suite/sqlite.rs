//! The conformance suite on SQLite, and the page that is generated from the definitions.

use crate::conformance::Bench;
use tidemill_store::{SqliteTables, Tables};

struct Sqlite {
    tables: SqliteTables,
    directory: tempfile::TempDir,
}

impl Bench for Sqlite {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tables = SqliteTables::open(directory.path().join("tables.sqlite")).unwrap();
        Self { tables, directory }
    }

    fn tables(&self) -> &dyn Tables {
        &self.tables
    }

    fn again(&self) -> Box<dyn Tables> {
        Box::new(SqliteTables::open(self.directory.path().join("tables.sqlite")).unwrap())
    }

    fn tables_like(&self, prefix: &str) -> usize {
        let sql = format!(
            "SELECT CAST(COUNT(*) AS TEXT) FROM sqlite_schema WHERE type = 'table' AND name GLOB '{prefix}*'"
        );
        self.text(&sql).parse().unwrap()
    }

    fn text(&self, sql: &str) -> String {
        self.by_hand().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn execute(&self, sql: &str) {
        self.by_hand().execute_batch(sql).unwrap();
    }

    const READABLE: &'static str = "2023-11-14T22:13:20.123Z";
}

impl Sqlite {
    fn by_hand(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.directory.path().join("tables.sqlite")).unwrap()
    }
}

crate::conformance::suite!(Sqlite);

#[test]
fn tables_survive_their_process() {
    let bench = Sqlite::new();
    let generation = crate::conformance::prepare(&bench);
    crate::conformance::write_batches(&bench, generation, 0, 3);
    let again = SqliteTables::open(bench.directory.path().join("tables.sqlite")).unwrap();
    assert_eq!(again.positions(generation).unwrap(), bench.tables.positions(generation).unwrap());
    assert!(tidemill_store::ReadTables::batch(&again, 2).unwrap().is_some());
}

/// TBL-1: the tables are documented, from their definitions.
#[test]
fn page_on_the_tables_is_current() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == tidemill_store::reference(), "{} is stale: run `make schemas`", page.display());
}
