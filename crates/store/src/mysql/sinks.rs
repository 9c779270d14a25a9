//! How far sinks are, beside all sets of tables.

use super::connection::{MysqlConnection, MysqlError};
use super::failed;
use crate::sink_note::{found, stored};
use crate::{Error, SinkNote, Value};

pub(super) const TABLE: &str = "tidemill_sinks (sink VARCHAR(64) NOT NULL, journal_partition BIGINT NOT NULL, stored BIGINT, \
     changes BIGINT NOT NULL, error MEDIUMTEXT, stopped TINYINT NOT NULL, noted_at BIGINT NOT NULL, \
     PRIMARY KEY (sink, journal_partition))";

pub(super) fn note(
    connection: &mut MysqlConnection,
    notes: &[SinkNote],
    forget_before_ms: i64,
) -> Result<(), Error> {
    let write = |connection: &mut MysqlConnection| -> Result<(), MysqlError> {
        for note in notes {
            connection.execute("REPLACE INTO tidemill_sinks VALUES (?, ?, ?, ?, ?, ?, ?)", &row(note))?;
        }
        let forget = "DELETE FROM tidemill_sinks WHERE noted_at < ?";
        connection.execute(forget, [&Value::Int(forget_before_ms)]).map(drop)
    };
    write(connection).map_err(failed("note how far sinks are"))
}

fn row(note: &SinkNote) -> [Value; 7] {
    [
        note.sink.as_str().into(),
        i64::from(note.partition).into(),
        note.stored.map_or(Value::Null, |offset| stored(offset).into()),
        stored(note.changes).into(),
        note.error.as_deref().map_or(Value::Null, Value::from),
        i64::from(note.stopped).into(),
        note.noted_at.into(),
    ]
}

type Row = (String, i64, Option<i64>, i64, Option<String>, bool, i64);

pub(super) fn read(connection: &mut MysqlConnection) -> Result<Vec<SinkNote>, Error> {
    let sql = "SELECT sink, journal_partition, stored, changes, error, stopped, noted_at FROM tidemill_sinks \
               ORDER BY sink, journal_partition";
    let rows: Vec<Row> = connection.rows(sql, []).map_err(failed("ask how far sinks are"))?;
    let note = |(sink, partition, stored, changes, error, stopped, noted_at): Row| SinkNote {
        sink,
        partition: u32::try_from(partition).unwrap_or_default(),
        stored: stored.map(found),
        changes: found(changes),
        error,
        stopped,
        noted_at,
    };
    Ok(rows.into_iter().map(note).collect())
}
