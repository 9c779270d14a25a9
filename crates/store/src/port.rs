//! The port: what a set of read tables is to the rest of Tidemill.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::sql::Dialect;
use crate::{Error, FormInUse, RebuildInProgress, RebuildRight, Select, Table, Value, rows, views};

/// What the rows mean. It rises where a fold fills columns that stay as they are with something else.
const MEANING: i64 = 18;

/// The form of the tables: what their rows mean, and a checksum of the SQL that makes tables and views, which another
/// table, column or field of a job changes by itself. Tables of another form are rebuilt, never altered.
pub static FORMAT: LazyLock<i64> = LazyLock::new(|| form_of(rows::TABLES));

fn form_of(tables: &[&Table]) -> i64 {
    let mut sum = crc32fast::Hasher::new();
    for dialect in [Dialect::Sqlite, Dialect::Mysql] {
        let made = tables.iter().flat_map(|table| dialect.create(1, table, ""));
        let shown = views::definitions(dialect, 1).into_iter().map(|(_, query)| query);
        made.chain(shown).for_each(|sql| sum.update(sql.as_bytes()));
    }
    (MEANING << 32) | i64::from(sum.finalize())
}

/// How far a partition of the journal has been folded into a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Offset of the last accepted record.
    pub offset: u64,
    /// The head of the chain there, as the log writes it down; what makes two positions the same.
    pub head: Arc<str>,
}

/// The changes of one table, as the last state of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChanges {
    /// Which table.
    pub table: &'static Table,
    /// Whole rows, in the order of their keys.
    pub upserts: Vec<Vec<Value>>,
    /// Keys of rows that are gone, in their order.
    pub deletes: Vec<Vec<Value>>,
}

/// What leaves the tables by its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aged {
    /// What became of pull tasks.
    Pull,
    /// The audit list.
    Audit,
}

impl Aged {
    /// Under which name its horizon is noted.
    pub(crate) fn noted_as(self) -> &'static str {
        match self {
            Aged::Pull => "horizon",
            Aged::Audit => "audit_horizon",
        }
    }
}

/// What one partition changes in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowBatch {
    /// Which partition of the journal.
    pub partition: u32,
    /// Where the tables have to stand for this to be written; absent: at nothing.
    pub from: Option<Position>,
    /// Where they stand after it.
    pub to: Position,
    /// The rows.
    pub changes: Vec<TableChanges>,
}

/// What a writer learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The generation that was in use when the batch was committed. A writer that serves readers goes over
    /// to it before it tells anybody of its progress.
    pub active: Option<u32>,
}

/// One full set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u32,
    /// The form of its tables; see [`FORMAT`].
    pub format: i64,
    /// Whether it is the one that programs of its form use.
    pub active: bool,
    /// Whether rows of it are copies, so that it does not follow from its positions until it is whole.
    pub has_copies: bool,
}

/// How far a sink is with one partition, as its role notes it beside the tables, so that whoever serves the tables can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkNote {
    /// What people call the sink.
    pub sink: String,
    /// Which partition of the journal.
    pub partition: u32,
    /// Offset of the last journal record that its data hold; absent: none yet.
    pub stored: Option<u64>,
    /// Changes stored since its role started.
    pub changes: u64,
    /// Why it is held up, or does not go on any more.
    pub error: Option<String>,
    /// It does not go on by itself.
    pub stopped: bool,
    /// When this was noted, in milliseconds since 1970.
    pub noted_at: i64,
}

/// A set of read tables in a database.
///
/// Whoever folds a partition is the only one to write its rows; the position guards that: a batch is written
/// in one transaction with it, and refused where the tables stand elsewhere.
pub trait Tables: Send + Sync {
    /// The sets of tables that there are, by number.
    ///
    /// # Errors
    /// The database.
    fn generations(&self) -> Result<Vec<Generation>, Error>;

    /// A new, empty set, beside the others.
    ///
    /// # Errors
    /// The database.
    fn create_generation(&self) -> Result<u32, Error>;

    /// The set that is built for this program's form, made where there is none: the same one for everybody, so that what was
    /// interrupted goes on. Where one is in use by now, that.
    ///
    /// # Errors
    /// The database.
    fn build_beside(&self) -> Result<u32, Error>;

    /// Takes the right to rebuild the tables of this form, where nobody has it who was seen within this time. `holder` is who
    /// asks, for people.
    ///
    /// # Errors
    /// [`Error::RebuildGoesOn`]; the database.
    fn begin_rebuild(&self, holder: &str, unseen_for: Duration) -> Result<RebuildRight, Error>;

    /// Says that the holder of the right is there. Everything that takes the right does so, too.
    ///
    /// # Errors
    /// [`Error::RebuildReplaced`]; the database.
    fn keep_rebuild(&self, right: RebuildRight) -> Result<(), Error>;

    /// Gives the right back.
    ///
    /// # Errors
    /// The database.
    fn end_rebuild(&self, right: RebuildRight) -> Result<(), Error>;

    /// Makes a set the one in use of its form, by one row, and points the views to it, unless a newer version has them. May be
    /// repeated. `beyond` names partitions of which other sets show records that their journal does not have: there nobody can
    /// catch up with them.
    ///
    /// # Errors
    /// [`Error::Behind`] where the set in use has folded more; for the first set of a form, where one of another version has
    /// folded 64 records more;
    /// [`Error::UnknownGeneration`]; [`Error::Format`] where it is of another form; the database.
    fn activate(&self, generation: u32, beyond: &[u32]) -> Result<(), Error>;

    /// Drops a set with its positions; [`Tables::sweep`] drops its tables. May be repeated.
    ///
    /// # Errors
    /// [`Error::GenerationActive`]; [`Error::RebuildReplaced`]; the database.
    fn drop_generation(&self, right: RebuildRight, generation: u32) -> Result<(), Error>;

    /// Drops a piece of the tables of sets that were dropped, whoever did that; `false` where nothing is left.
    ///
    /// # Errors
    /// The database.
    fn sweep(&self) -> Result<bool, Error>;

    /// How far a set has folded each partition.
    ///
    /// # Errors
    /// The database.
    fn positions(&self, generation: u32) -> Result<BTreeMap<u32, Position>, Error>;

    /// Writes rows and position in one transaction. Given twice, the second time changes nothing.
    ///
    /// # Errors
    /// [`Error::PositionConflict`] where the tables stand elsewhere; [`Error::UnknownGeneration`]; the
    /// database. After an error of the database the outcome is open, and the same batch may be given again.
    fn write(&self, generation: u32, batch: &RowBatch) -> Result<Written, Error>;

    /// The rows with these keys, in no certain order; keys without a row give none.
    ///
    /// # Errors
    /// The database.
    fn load(
        &self,
        generation: u32,
        table: &'static Table,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>, Error>;

    /// How many rows a table of a set has.
    ///
    /// # Errors
    /// The database.
    fn count(&self, generation: u32, table: &'static Table) -> Result<u64, Error>;

    /// The rebuild of tables of this form that goes on.
    ///
    /// # Errors
    /// The database.
    fn rebuild_in_progress(&self) -> Result<Option<RebuildInProgress>, Error>;

    /// A new, empty set for [`Tables::copy`] and [`Tables::seed`].
    ///
    /// # Errors
    /// [`Error::RebuildReplaced`]; the database.
    fn create_for_copies(&self, right: RebuildRight) -> Result<u32, Error>;

    /// Whether all tables of a set are there.
    ///
    /// # Errors
    /// The database.
    fn is_whole(&self, generation: u32) -> Result<bool, Error>;

    /// Copies rows of a table into another set of the same form that has no positions yet, at most so many, in the order of
    /// their keys, from the last one on that is there. `false` where none was left.
    ///
    /// # Errors
    /// As [`Tables::seed`].
    fn copy(
        &self,
        right: RebuildRight,
        from_to: (u32, u32),
        table: &'static Table,
        rows: usize,
    ) -> Result<bool, Error>;

    /// Writes rows, whole, and positions into a set that is not in use and has no positions yet, in one transaction.
    ///
    /// # Errors
    /// [`Error::GenerationActive`]; [`Error::GenerationFilled`]; [`Error::UnknownGeneration`];
    /// [`Error::RebuildReplaced`]; the database.
    fn seed(
        &self,
        right: RebuildRight,
        generation: u32,
        changes: &[TableChanges],
        positions: &BTreeMap<u32, Position>,
    ) -> Result<(), Error>;

    /// The form of the tables that this program reads and writes.
    fn form(&self) -> i64;

    /// Notes that a program of this form uses the tables, so that they stay.
    ///
    /// # Errors
    /// The database.
    fn attend(&self) -> Result<(), Error>;

    /// The forms of tables that are in use, or were until a moment ago.
    ///
    /// # Errors
    /// The database.
    fn forms(&self) -> Result<Vec<FormInUse>, Error>;

    /// Points the views to the set that they are to show, where that is of this form: a swap may have been cut off before.
    ///
    /// # Errors
    /// The database.
    fn repair_views(&self) -> Result<(), Error>;

    /// Drops the sets of another form, where its programs have given no sign since that one, and this form has a set in use.
    /// Gives them; [`Tables::sweep`] drops their tables.
    ///
    /// # Errors
    /// The database.
    fn retire(&self, other: &FormInUse) -> Result<Vec<u32>, Error>;

    /// Rows of the set in use.
    ///
    /// # Errors
    /// [`Error::NoGeneration`]; [`Error::Building`]; the database.
    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, Error>;

    /// Before when old rows of this may be missing, milliseconds; `None`: none is.
    ///
    /// # Errors
    /// The database.
    fn horizon(&self, of: Aged) -> Result<Option<i64>, Error>;

    /// Notes that rows of this which are older may be missing from now on, in this generation and in later ones; never
    /// takes it back. Gives what is noted then.
    ///
    /// # Errors
    /// The database.
    fn raise_horizon(&self, of: Aged, before_ms: i64) -> Result<i64, Error>;

    /// The largest grant of each shard that may have left the tables, and all smaller ones with it.
    ///
    /// # Errors
    /// The database.
    fn left_grants(&self) -> Result<BTreeMap<i64, i64>, Error>;

    /// Notes that grants of a shard up to this one may be missing from now on, in this generation and in later ones;
    /// never takes it back.
    ///
    /// # Errors
    /// The database.
    fn raise_left_grant(&self, shard: i64, grant: i64) -> Result<(), Error>;

    /// Deletes rows of the active generation, as many as the question gives, in one transaction; not those that it no
    /// longer fits because they were written meanwhile. Gives how many it gave.
    ///
    /// # Errors
    /// [`Error::NoGeneration`]; the database.
    fn purge(&self, select: &Select) -> Result<usize, Error>;

    /// Notes how far sinks are, in place of what was noted of the same partitions of the same sinks. Forgets notes
    /// from before `forget_before_ms`.
    ///
    /// # Errors
    /// The database.
    fn note_sinks(&self, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error>;

    /// What is noted of sinks, by sink and partition.
    ///
    /// # Errors
    /// The database.
    fn sinks(&self) -> Result<Vec<SinkNote>, Error>;

    /// The active generation as it is now, whatever is written meanwhile.
    ///
    /// # Errors
    /// [`Error::NoGeneration`]; the database.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error>;
}

/// The active generation at one moment.
pub trait Snapshot {
    /// Which generation it is.
    fn generation(&self) -> u32;

    /// How far each partition is folded.
    ///
    /// # Errors
    /// The database.
    fn positions(&mut self) -> Result<BTreeMap<u32, Position>, Error>;

    /// As [`Tables::horizon`], at the moment of the snapshot.
    ///
    /// # Errors
    /// The database.
    fn horizon(&mut self, of: Aged) -> Result<Option<i64>, Error>;

    /// Rows of a table after a key, in the order of the key: all columns, in the table's order.
    ///
    /// # Errors
    /// The database.
    fn rows(
        &mut self,
        table: &'static Table,
        after: Option<&[Value]>,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, Error>;
}

impl RowBatch {
    /// The error that the tables stand at `found` instead of where the batch begins.
    pub(crate) fn conflict(&self, found: Option<&str>) -> Error {
        Error::PositionConflict {
            partition: self.partition,
            expected: self.from.as_ref().map_or("nothing", |from| &from.head).to_owned(),
            found: found.unwrap_or("nothing").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    /// EVT-2: tables that lack a table, a column or an index of this program have another form.
    #[test]
    fn another_column_is_another_form() {
        let (last, others) = rows::TABLES.split_last().unwrap();
        let with = |table: Table| form_of(&[others, &[&table]].concat());
        let columns: &'static [Column] = &last.columns[..last.columns.len() - 1];
        let known = |columns| Table { columns, indexes: &[], ..Table::clone(last) };
        let forms = [
            *FORMAT,
            form_of(others),
            with(known(columns)),
            with(Table { indexes: &[&["shard"]], ..known(last.columns) }),
        ];
        assert_eq!(form_of(rows::TABLES), forms[0]);
        assert!((1..forms.len()).all(|at| !forms[..at].contains(&forms[at])), "{forms:x?}");
    }
}
