//! The manual of the tables, from their definitions.

use std::fmt::Write;

use crate::{Column, Kind, Shown, Table, rows, views};

const HEAD: &str = "# Read tables

This page is generated from the definitions in `crates/store/src/rows`; `make schemas` writes it anew.

The tables are a cache of the journal. They live in SQLite (one process, nothing to install) or in MySQL or
MariaDB, with the same columns. Nothing but the projector writes them; drop them, and `tidemill rebuild` brings
them back equal; `tidemill verify` compares them with the journal, row by row.

Query the *views* named below. Each shows the table in use (`g<generation>_<name>`), and follows when a rebuild
swaps it. A time column `x_at` is readable UTC in the view (`2026-03-01T00:01:00.000Z` in SQLite, `DATETIME(3)` in
MySQL), and stands beside it as `x_at_ms`, milliseconds since 1970, which is what is indexed: filter and sort by
that one. Every time comes from the journal; no column holds the time of its insertion. Texts compare by bytes.

";

/// The page as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for table in rows::TABLES {
        describe(&mut page, table);
    }
    page.push_str("## Views for daily use\n\n| view | shows |\n|---|---|\n");
    for (name, shows, _) in views::ON_TOP {
        let _ = writeln!(page, "| `{name}` | {shows} |");
    }
    page
}

fn describe(page: &mut String, table: &Table) {
    let key: Vec<_> = table.key_columns().iter().map(|column| format!("`{}`", column.name)).collect();
    let _ = writeln!(page, "## {}\n\n{} Key: {}.", table.name, table.doc.trim(), key.join(", "));
    if !table.indexes.is_empty() {
        let indexes: Vec<_> =
            table.indexes.iter().map(|columns| format!("({})", columns.join(", "))).collect();
        let _ = writeln!(page, "Indexes: {}.", indexes.join(", "));
    }
    page.push_str("\n| column | kind | meaning |\n|---|---|---|\n");
    for column in table.columns {
        let kind = match column.kind {
            Kind::Int => "integer".to_owned(),
            Kind::Bool => "0 or 1".to_owned(),
            Kind::Time => "time".to_owned(),
            Kind::Name(length) => format!("text, ≤ {length}"),
            Kind::Text => "text".to_owned(),
            Kind::Json => "JSON text".to_owned(),
            Kind::Texts => "JSON list of texts".to_owned(),
            Kind::Numbers => "JSON list of numbers".to_owned(),
        };
        let null = if column.nullable { ", or null" } else { "" };
        let _ = writeln!(page, "| `{}` | {kind}{null} | {} |", column.name, meaning(column));
    }
    for field in views::written(table) {
        let kind = match () {
            () if field.is_boolean() => "0 or 1",
            () if field.is_whole_number() => "integer",
            () if field.is_text() => "text",
            () => "JSON text",
        };
        let meaning = field.description.replace('\n', " ");
        let _ = writeln!(page, "| `{}` | {kind}, from the definition | {meaning} |", field.name);
    }
    page.push('\n');
}

fn meaning(column: &Column) -> String {
    let Shown::Words(words) = column.shown else { return column.doc.trim().to_owned() };
    let words: Vec<_> = words.iter().enumerate().map(|(number, word)| format!("{number} {word}")).collect();
    format!("{}: {}.", column.doc.trim().trim_end_matches('.'), words.join(", "))
}
