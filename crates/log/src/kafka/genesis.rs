//! Every journal begins with a genesis; who opens the log first writes it.

use std::time::Duration;

use super::connection::{ANSWER, Connection};
use crate::{Chain, Error, From, Genesis, Head, LogId, Reader as _, Topic, append_wait};

/// Writes what is missing, and gives the log id.
pub(crate) fn ensure(connection: &Connection, origin: Origin<'_>) -> Result<LogId, Error> {
    let count = connection.counts[Topic::Journal.index()];
    let head = match first_genesis(connection, origin)? {
        Some(head) => head,
        None => {
            (0..count).try_for_each(|partition| check_unused(connection, partition))?;
            write(connection, &LogId::random(), 0, count)?;
            let foreign = || Error::ForeignJournal { partition: 0, reason: "it has none".to_owned() };
            first_genesis(connection, origin)?.ok_or_else(foreign)?
        }
    };
    if head.partition != 0 {
        let reason = format!("its genesis is that of partition {}", head.partition);
        return Err(Error::ForeignJournal { partition: 0, reason });
    }
    if head.count != count {
        return Err(Error::PartitionCount { topic: Topic::Journal, found: head.count, wanted: count });
    }
    for partition in 1..count {
        if connection.range(Topic::Journal, partition)? == (0..0) {
            check_unused(connection, partition)?;
            write(connection, &head.log_id, partition, count)?;
        }
    }
    Ok(head.log_id)
}

/// Commands come only after the genesis: where some are, an empty journal was lost. A new one would have them all
/// decided again.
fn check_unused(connection: &Connection, partition: u32) -> Result<(), Error> {
    let has_commands = connection.range(Topic::Commands, partition)?.end > 0;
    // Asked for again, since another process may have begun it meanwhile.
    if has_commands && connection.range(Topic::Journal, partition)?.end == 0 {
        let reason = "it is empty, and the commands are not: its records are lost".to_owned();
        return Err(Error::ForeignJournal { partition, reason });
    }
    Ok(())
}

/// Another process may do the same at the same time: the first record in the log counts.
fn write(connection: &Connection, id: &LogId, partition: u32, count: u32) -> Result<(), Error> {
    let producer = connection.producer()?;
    let record = Genesis { log_id: id.clone(), partition, count }.record();
    append_wait(&producer, Topic::Journal, partition, b"", record, ANSWER)
        .map(drop)
        .map_err(|error| Error::open(format!("write the genesis of partition {partition}"), error))
}

/// Gives the genesis of partition 0 where the topic begins with this offset instead.
pub(crate) type Origin<'a> = &'a dyn Fn(u64) -> Result<Genesis, Error>;

/// The genesis of partition 0: its first accepted record, in the topic or where that was archived.
fn first_genesis(connection: &Connection, origin: Origin<'_>) -> Result<Option<Genesis>, Error> {
    let range = connection.range(Topic::Journal, 0)?;
    if range.start > 0 {
        return origin(range.start).map(Some);
    }
    let mut chain = Chain::new();
    if range.is_empty() {
        return Ok(None);
    }
    let mut reader = connection.reader(Topic::Journal, 0, From::Start)?;
    loop {
        let records = reader.poll(1, ANSWER.max(Duration::from_secs(30)))?;
        let Some(record) = records.first() else {
            let reason = "the broker does not give its first records".to_owned();
            return Err(Error::ForeignJournal { partition: 0, reason });
        };
        let accepted = chain.accept(record.offset, &record.value).accepted().is_some();
        if accepted || record.offset + 1 >= range.end {
            let genesis = |head: &Head| {
                let (log_id, partition, count) = (head.log_id.clone(), head.partition, head.count);
                Genesis { log_id, partition, count }
            };
            return Ok(chain.head().map(genesis));
        }
    }
}
