//! How far sinks are, beside all sets of tables.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::failed;
use crate::sink_note::{found, stored};
use crate::{Error, SinkNote};

pub(super) const TABLE: &str = "tidemill_sinks (sink VARCHAR(64) NOT NULL, partition_no BIGINT NOT NULL, stored BIGINT, \
     changes BIGINT NOT NULL, error MEDIUMTEXT, stopped TINYINT NOT NULL, noted_at BIGINT NOT NULL, \
     PRIMARY KEY (sink, partition_no))";

pub(super) fn note(connection: &mut Conn, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error> {
    let sql = "REPLACE INTO tidemill_sinks VALUES (?, ?, ?, ?, ?, ?, ?)";
    let rows = notes.iter().map(|note| {
        let SinkNote { sink, partition, error, stopped, noted_at, .. } = note;
        (sink, partition, note.stored.map(stored), stored(note.changes), error, stopped, noted_at)
    });
    let write = |connection: &mut Conn| {
        connection.exec_batch(sql, rows)?;
        connection.exec_drop("DELETE FROM tidemill_sinks WHERE noted_at < ?", (forget_before_ms,))
    };
    write(connection).map_err(failed("note how far sinks are"))
}

type Row = (String, u32, Option<i64>, i64, Option<String>, bool, i64);

pub(super) fn read(connection: &mut Conn) -> Result<Vec<SinkNote>, Error> {
    let sql = "SELECT sink, partition_no, stored, changes, error, stopped, noted_at FROM tidemill_sinks \
               ORDER BY sink, partition_no";
    let rows: Vec<Row> = connection.exec(sql, ()).map_err(failed("ask how far sinks are"))?;
    let note = |(sink, partition, stored, changes, error, stopped, noted_at): Row| SinkNote {
        sink,
        partition,
        stored: stored.map(found),
        changes: found(changes),
        error,
        stopped,
        noted_at,
    };
    Ok(rows.into_iter().map(note).collect())
}
