//! How far sinks are, beside all sets of tables.

use rusqlite::{Connection, params};

use super::failed;
use crate::sink_note::{found, stored};
use crate::{Error, SinkNote};

pub(super) fn note(connection: &Connection, notes: &[SinkNote], forget_before_ms: i64) -> Result<(), Error> {
    let write = || -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO tidemill_sinks VALUES (?, ?, ?, ?, ?, ?, ?)";
        let mut statement = connection.prepare_cached(sql)?;
        for note in notes {
            let SinkNote { sink, partition, error, stopped, noted_at, .. } = note;
            let (held, changes) = (note.stored.map(stored), stored(note.changes));
            statement.execute(params![sink, partition, held, changes, error, stopped, noted_at])?;
        }
        connection.execute("DELETE FROM tidemill_sinks WHERE noted_at < ?", [forget_before_ms]).map(drop)
    };
    write().map_err(failed("note how far sinks are"))
}

pub(super) fn read(connection: &Connection) -> Result<Vec<SinkNote>, Error> {
    let read = || -> rusqlite::Result<Vec<SinkNote>> {
        let sql = "SELECT sink, journal_partition, stored, changes, error, stopped, noted_at FROM tidemill_sinks \
                   ORDER BY sink, journal_partition";
        let mut statement = connection.prepare_cached(sql)?;
        let note = |row: &rusqlite::Row<'_>| {
            Ok(SinkNote {
                sink: row.get(0)?,
                partition: row.get(1)?,
                stored: row.get::<_, Option<i64>>(2)?.map(found),
                changes: found(row.get(3)?),
                error: row.get(4)?,
                stopped: row.get(5)?,
                noted_at: row.get(6)?,
            })
        };
        statement.query_map([], note)?.collect()
    };
    read().map_err(failed("ask how far sinks are"))
}
