//! Task logs in MySQL or MariaDB: a row per grant, upserted, its position in the same transaction.

mod sql;

use std::collections::BTreeMap;

use tidemill_log::Head;
use tidemill_store::{MysqlConnection, MysqlError, MysqlServer};

use crate::config::MysqlConfig;
use crate::sink::Pace;
use crate::{Batch, Change, Error, Sink, Stored};

/// Rows of one statement, and about how many bytes: far below any server's `max_allowed_packet`.
const MAX_ROWS: usize = 200;
const MAX_BYTES: usize = 1 << 20;

/// Which database, and which table there.
#[derive(Clone)]
pub(crate) struct Place {
    server: MysqlServer,
    table: String,
}

impl Place {
    pub(crate) fn new(config: &MysqlConfig) -> Result<Self, Error> {
        let url = config.url.as_deref().unwrap_or_default();
        let server = MysqlServer::new(url).map_err(|source| Error::Refused {
            what: "be the database of the task logs",
            place: "sinks.mysql.url".to_owned(),
            source: source.into(),
        })?;
        Ok(Self { server, table: config.table.clone() })
    }

    /// A refusal that concerns what was asked (classes 22, 23, 28 and 42 of SQLSTATE) does not pass by itself.
    fn failed(&self, what: &'static str) -> impl FnOnce(MysqlError) -> Error + '_ {
        move |source| {
            let is_ours = source
                .state()
                .is_some_and(|state| ["22", "23", "28", "42"].iter().any(|class| state.starts_with(class)));
            let place = self.server.place().to_owned();
            match is_ours {
                true => Error::Refused { what, place, source: source.into() },
                false => Error::Outage { what, place, source: source.into() },
            }
        }
    }
}

/// One partition's task logs in a database.
pub struct MysqlSink {
    place: Place,
    partition: u32,
    connection: Option<MysqlConnection>,
    /// The position as it stands in the database.
    head: Option<String>,
    pace: Pace,
}

impl MysqlSink {
    pub(crate) fn new(place: &Place, partition: u32) -> Self {
        Self { place: place.clone(), partition, connection: None, head: None, pace: Pace::default() }
    }

    /// Rows and position in one transaction.
    fn store(&mut self, batch: &Batch) -> Result<(), Error> {
        let Some(connection) = &mut self.connection else { unreachable!("the position was asked for first") };
        let head = serde_json::to_string(&batch.head).expect("a head is plain strings and numbers");
        let place = &self.place;
        connection.run("START TRANSACTION").map_err(place.failed("begin to write"))?;
        let stored =
            rows_and_position(place, connection, self.partition, (self.head.as_deref(), &head), batch);
        if let Err(error) = stored {
            // The server rolls back what its client leaves.
            self.connection = None;
            return Err(error);
        }
        connection.run("COMMIT").map_err(place.failed("commit task logs"))?;
        self.head = Some(head);
        self.pace.written();
        Ok(())
    }
}

/// Moves the position, and writes the rows up to it.
fn rows_and_position(
    place: &Place,
    connection: &mut MysqlConnection,
    partition: u32,
    (from, to): (Option<&str>, &str),
    batch: &Batch,
) -> Result<(), Error> {
    let (statement, values) = sql::advance(&place.table, partition, batch.head.offset, from, to);
    let advanced = connection.execute(statement, &values);
    let is_taken = advanced.as_ref().is_err_and(|error| error.number() == Some(1062));
    if is_taken || advanced.map_err(place.failed("store the position"))? == 0 {
        return Err(Error::Overtaken { partition, place: place.server.place().to_owned() });
    }
    for rows in pieces(newest(&batch.changes)) {
        let (statement, values) = sql::upsert(&place.table, partition, &rows);
        connection.execute(statement, &values).map_err(place.failed("store task logs"))?;
    }
    Ok(())
}

impl Sink for MysqlSink {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        let place = &self.place;
        let mut connection = place.server.connect().map_err(place.failed("connect"))?;
        for statement in sql::make(&place.table) {
            connection.run(statement).map_err(place.failed("make the tables of the task logs"))?;
        }
        let head = connection
            .text(sql::ask_position(&place.table), [&i64::from(self.partition).into()])
            .map_err(place.failed("read the position"))?;
        let position = head.as_deref().map(serde_json::from_str).transpose();
        let position = position.map_err(|source| Error::StoredPosition {
            partition: self.partition,
            place: place.server.place().to_owned(),
            source: source.into(),
        })?;
        (self.connection, self.head) = (Some(connection), head);
        Ok(position)
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        if batch.changes.is_empty() && !self.pace.is_due() {
            return Ok(Stored::default());
        }
        self.store(&batch)?;
        Ok(Stored { offset: Some(batch.head.offset), changes: batch.changes.len() })
    }
}

/// The last change of each grant, in the order of their keys, so that writers of two partitions never wait for each
/// other in a circle.
fn newest(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let newest: BTreeMap<_, _> = changes.iter().map(|change| (change.given.grant, change)).collect();
    newest.into_values()
}

fn pieces<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<Vec<&'a Change>> {
    let (mut pieces, mut bytes) = (Vec::<Vec<&Change>>::new(), 0);
    for change in changes {
        bytes += change.size();
        match pieces.last_mut() {
            Some(last) if last.len() < MAX_ROWS && bytes <= MAX_BYTES => last.push(change),
            _ => {
                bytes = change.size();
                pieces.push(vec![change]);
            }
        }
    }
    pieces
}
