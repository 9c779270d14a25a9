//! Sets of tables, the switch between them, and their positions, beside them how far sinks are. MySQL commits before
//! every change of a table's form, so each operation is ordered such that it can be cut anywhere and done again.
#![allow(unreachable_pub, reason = "the macro is for rows that everybody may see")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Kind::{Bool, Int, Name, Text};
use crate::forms::FormRow;
use crate::link::Link;
use crate::rebuilding::{self, RebuildRow};
use crate::sql::{self, Dialect, left_grants_of, shard_of_left_grants};
use crate::table::row;
use crate::{
    Aged, Error, Generation, Position, RebuildRight, Row, RowBatch, SinkNote, Value, forms, leftovers, rows,
    views,
};

row! {
    /// A number under a name.
    MetaRow in "tidemill_meta", key (name: Arc<str>),
    fixed (), indexes [] {
        /// `active`, `horizon`, `audit_horizon`, or that of a note on grants of a shard.
        name: Arc<str> = Name(64),
        /// The number.
        value: i64 = Int,
    }
}

row! {
    /// A set of tables.
    GenerationRow in "tidemill_generations", key (number: i64),
    fixed (), indexes [] {
        /// Its number.
        number: i64 = Int,
        /// The form of its tables.
        format: i64 = Int,
    }
}

row! {
    /// How far a set has folded a partition.
    PositionRow in "tidemill_positions", key (generation: i64, journal_partition: i64),
    fixed (), indexes [] {
        /// The set.
        generation: i64 = Int,
        /// The partition.
        journal_partition: i64 = Int,
        /// Offset of the last accepted record.
        journal_offset: i64 = Int,
        /// The head of the chain there.
        head: Arc<str> = Text,
    }
}

row! {
    /// How far a sink has passed a partition on, as it says itself.
    SinkRow in "tidemill_sinks", key (sink: Arc<str>, journal_partition: i64),
    fixed (), indexes [] {
        /// What people call the sink.
        sink: Arc<str> = Name(64),
        /// The partition.
        journal_partition: i64 = Int,
        /// Offset of the last journal record that its data hold.
        stored: Option<i64> = Int,
        /// Changes stored since its role started.
        changes: i64 = Int,
        /// Why it is held up.
        error: Option<Arc<str>> = Text,
        /// It does not go on by itself.
        stopped: bool = Bool,
        /// When this was noted.
        noted_at: i64 = Int,
    }
}

/// Makes the tables that are there once, beside all sets.
pub(crate) fn make_meta<L: Link>(link: &mut L, collation: &str) -> Result<(), Error> {
    let all = [
        MetaRow::TABLE,
        GenerationRow::TABLE,
        PositionRow::TABLE,
        SinkRow::TABLE,
        FormRow::TABLE,
        RebuildRow::TABLE,
    ];
    for table in all {
        let form = L::DIALECT.form(table, collation);
        link.run("make tables", &format!("CREATE TABLE IF NOT EXISTS {} {form}", table.name))?;
    }
    Ok(())
}

/// Rows of a table that is there once.
pub(crate) fn found<R: Row>(
    link: &mut impl Link,
    what: &str,
    rest: &str,
    values: &[Value],
) -> Result<Vec<R>, Error> {
    let sql = format!("SELECT {} FROM {} {rest}", sql::list(R::TABLE.columns), R::TABLE.name);
    link.rows(what, R::TABLE, &sql, values)?.into_iter().map(R::from_values).collect()
}

pub(crate) fn of(generation: u32) -> Value {
    i64::from(generation).into()
}

/// As [`of`] wrote it.
pub(crate) fn number_of(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or_default()
}

pub(crate) fn noted(link: &mut impl Link, what: &str, name: &str, lock: &str) -> Result<Option<i64>, Error> {
    let found = found::<MetaRow>(link, what, &format!("WHERE name = ?{lock}"), &[name.into()])?;
    Ok(found.into_iter().next().map(|row| row.value))
}

pub(crate) fn set_note<L: Link>(link: &mut L, name: &str, value: i64) -> Result<(), Error> {
    let sql = L::DIALECT.upsert(MetaRow::TABLE.name, MetaRow::TABLE, 1);
    link.execute("note what is known of the tables", &sql, &[name.into(), value.into()])
}

pub(crate) fn horizon(link: &mut impl Link, of: Aged) -> Result<Option<i64>, Error> {
    noted(link, "read the horizon", of.noted_as(), "")
}

pub(crate) fn raise_horizon(link: &mut impl Link, of: Aged, before_ms: i64) -> Result<i64, Error> {
    raise(link, "raise the horizon", of.noted_as(), before_ms)?;
    Ok(horizon(link, of)?.unwrap_or(before_ms))
}

fn raise<L: Link>(link: &mut L, what: &str, name: &str, value: i64) -> Result<(), Error> {
    let sql = match L::DIALECT {
        Dialect::Sqlite => {
            "INSERT INTO tidemill_meta VALUES (?, ?) \
             ON CONFLICT DO UPDATE SET value = MAX(value, excluded.value)"
        }
        Dialect::Mysql => {
            "INSERT INTO tidemill_meta VALUES (?, ?) \
             ON DUPLICATE KEY UPDATE value = GREATEST(value, VALUES(value))"
        }
    };
    link.execute(what, sql, &[name.into(), value.into()])
}

pub(crate) fn left_grants(link: &mut impl Link) -> Result<BTreeMap<i64, i64>, Error> {
    let found = found::<MetaRow>(link, "ask which grants may have left the tables", "", &[])?;
    Ok(found.into_iter().filter_map(|row| Some((shard_of_left_grants(&row.name)?, row.value))).collect())
}

pub(crate) fn raise_left_grant(link: &mut impl Link, shard: i64, grant: i64) -> Result<(), Error> {
    raise(link, "note which grants may have left the tables", &left_grants_of(shard), grant)
}

pub(crate) fn list(link: &mut impl Link) -> Result<Vec<Generation>, Error> {
    let sets: Vec<GenerationRow> = found(link, "list the tables", "ORDER BY number", &[])?;
    let generation = |GenerationRow { number, format }| {
        let number = number_of(number);
        let active = forms::in_use(link, format, "")? == Some(number);
        let has_copies = holds_copies(link, number)?;
        Ok(Generation { number, format, active, has_copies })
    };
    sets.into_iter().map(generation).collect()
}

fn exists(link: &mut impl Link, generation: u32) -> Result<(), Error> {
    let found = found::<GenerationRow>(link, "list the tables", "WHERE number = ?", &[of(generation)])?;
    if found.is_empty() { Err(Error::UnknownGeneration { generation }) } else { Ok(()) }
}

/// The largest number that a set ever had: a writer that was replaced never finds another set under the number of its own.
const NUMBERED: &str = "numbered";

/// What the rows of a set follow from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// From its positions in the journal.
    Journal,
    /// Some are copies, and do not follow from its positions.
    Copies,
}

/// Also where somebody dropped everything by hand, or left tables of an old set behind.
pub(crate) fn create<L: Link>(link: &mut L, holds: Holds, form: i64, collation: &str) -> Result<u32, Error> {
    const WHAT: &str = "make tables";
    make_meta(link, collation)?;
    let newest = found::<GenerationRow>(link, WHAT, "ORDER BY number", &[])?.pop();
    let numbered = noted(link, WHAT, NUMBERED, "")?.unwrap_or_default();
    let number = number_of(newest.map_or(0, |newest| newest.number).max(numbered)) + 1;
    raise(link, WHAT, NUMBERED, number.into())?;
    erase(link, number)?;
    while leftovers::drop_some(link, number)? {}
    if holds == Holds::Copies {
        set_note(link, &format!("{COPIES}_{number}"), 1)?;
    }
    link.execute(WHAT, "INSERT INTO tidemill_generations VALUES (?, ?)", &[of(number), form.into()])?;
    for statement in rows::TABLES.iter().flat_map(|table| L::DIALECT.create(number, table, collation)) {
        link.run(WHAT, &statement)?;
    }
    if let Err(gone) = exists(link, number) {
        // Somebody dropped the set meanwhile, and may have swept before the last of its tables was made.
        set_note(link, &leftovers::note_of(number), number.into())?;
        return Err(gone);
    }
    Ok(number)
}

pub(crate) fn point_views<L: Link>(link: &mut L, generation: u32) -> Result<(), Error> {
    const WHAT: &str = "point the views to the tables";
    let create = match L::DIALECT {
        Dialect::Sqlite => {
            for name in views::names() {
                link.run(WHAT, &format!("DROP VIEW IF EXISTS {name}"))?;
            }
            "CREATE VIEW"
        }
        Dialect::Mysql => "CREATE OR REPLACE VIEW",
    };
    for (name, query) in views::definitions(L::DIALECT, generation) {
        link.run(WHAT, &format!("{create} {name} AS {query}"))?;
    }
    Ok(())
}

/// Drops a set that is not in use: its tables go piece by piece.
pub(crate) fn forget<L: Link>(link: &mut L, right: RebuildRight, generation: u32) -> Result<(), Error> {
    rebuilding::keep(link, right)?;
    let format = found::<GenerationRow>(link, "drop tables", "WHERE number = ?", &[of(generation)])?;
    if let Some(row) = format.first()
        && forms::in_use(link, row.format, L::DIALECT.shared_lock())? == Some(generation)
    {
        return Err(Error::GenerationActive { generation });
    }
    discard(link, generation)
}

/// Forgets a set, and notes that its tables are to be dropped: whoever is cut off before that is done leaves it to others.
pub(crate) fn discard<L: Link>(link: &mut L, generation: u32) -> Result<(), Error> {
    set_note(link, &leftovers::note_of(generation), generation.into())?;
    erase(link, generation)
}

const COPIES: &str = "copies";

pub(crate) fn holds_copies(link: &mut impl Link, generation: u32) -> Result<bool, Error> {
    Ok(noted(link, "list the tables", &format!("{COPIES}_{generation}"), "")?.is_some())
}

/// What is noted of a set.
fn erase(link: &mut impl Link, generation: u32) -> Result<(), Error> {
    for sql in [
        "DELETE FROM tidemill_generations WHERE number = ?",
        "DELETE FROM tidemill_positions WHERE generation = ?",
    ] {
        link.execute("drop tables", sql, &[of(generation)])?;
    }
    delete_note(link, &format!("{COPIES}_{generation}"))
}

pub(crate) fn delete_note(link: &mut impl Link, name: &str) -> Result<(), Error> {
    link.execute("drop tables", "DELETE FROM tidemill_meta WHERE name = ?", &[name.into()])
}

pub(crate) fn positions(link: &mut impl Link, generation: u32) -> Result<BTreeMap<u32, Position>, Error> {
    let found = found(link, "read the positions", "WHERE generation = ?", &[of(generation)])?;
    let position = |PositionRow { journal_partition, journal_offset, head, .. }| {
        (number_of(journal_partition), Position { offset: journal_offset.cast_unsigned(), head })
    };
    Ok(found.into_iter().map(position).collect())
}

/// Moves the position of a partition from where the batch begins to where it ends; `false` where it is
/// there already. Until the transaction ends nobody else moves it.
pub(crate) fn advance<L: Link>(link: &mut L, generation: u32, batch: &RowBatch) -> Result<bool, Error> {
    const WHAT: &str = "move the position";
    exists(link, generation)?;
    let (at, to) = ([of(generation), of(batch.partition)], &batch.to);
    let rest = format!("WHERE generation = ? AND journal_partition = ?{}", L::DIALECT.lock());
    let found = found(link, "read the position", &rest, &at)?.pop().map(|row: PositionRow| row.head);
    if found.as_ref() == Some(&to.head) {
        return Ok(false);
    }
    if found.as_ref() != batch.from.as_ref().map(|from| &from.head) {
        return Err(batch.conflict(found.as_deref()));
    }
    let new = [to.offset.cast_signed().into(), Arc::clone(&to.head).into()];
    let moved = if found.is_none() {
        place(link, generation, batch.partition, to)
    } else {
        let sql = "UPDATE tidemill_positions SET journal_offset = ?, head = ? \
                   WHERE generation = ? AND journal_partition = ?";
        link.execute(WHAT, sql, new.iter().chain(&at))
    };
    match moved {
        // Somebody else made the first position meanwhile.
        Err(error) if L::is_duplicate(&error) => Err(batch.conflict(None)),
        moved => moved.map(|()| true),
    }
}

/// The first position of a partition.
pub(crate) fn place(
    link: &mut impl Link,
    generation: u32,
    partition: u32,
    to: &Position,
) -> Result<(), Error> {
    let row = [of(generation), of(partition), to.offset.cast_signed().into(), Arc::clone(&to.head).into()];
    link.execute("move the position", "INSERT INTO tidemill_positions VALUES (?, ?, ?, ?)", &row)
}

/// A number of ours in a column of the database, and back: neither ever reaches 2⁶³.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(crate) fn note_sinks<L: Link>(
    link: &mut L,
    notes: &[SinkNote],
    forget_before_ms: i64,
) -> Result<(), Error> {
    const WHAT: &str = "note how far sinks are";
    let sql = L::DIALECT.upsert(SinkRow::TABLE.name, SinkRow::TABLE, 1);
    for note in notes {
        let row = SinkRow {
            sink: note.sink.as_str().into(),
            journal_partition: note.partition.into(),
            stored: note.stored.map(signed),
            changes: signed(note.changes),
            error: note.error.as_deref().map(Arc::from),
            stopped: note.stopped,
            noted_at: note.noted_at,
        };
        link.execute(WHAT, &sql, &row.values())?;
    }
    link.execute(WHAT, "DELETE FROM tidemill_sinks WHERE noted_at < ?", &[forget_before_ms.into()])
}

pub(crate) fn sinks(link: &mut impl Link) -> Result<Vec<SinkNote>, Error> {
    let note = |row: SinkRow| SinkNote {
        sink: row.sink.to_string(),
        partition: number_of(row.journal_partition),
        stored: row.stored.map(unsigned),
        changes: unsigned(row.changes),
        error: row.error.map(|error| error.to_string()),
        stopped: row.stopped,
        noted_at: row.noted_at,
    };
    let found = found(link, "ask how far sinks are", "ORDER BY sink, journal_partition", &[])?;
    Ok(found.into_iter().map(note).collect())
}
