//! Does the file hold what was written: dense offsets, unbroken chains.

use rusqlite::Connection;

use super::archived::Archived;
use super::directory::Directory;
use super::file::File;
use super::older::{open_read_only, record, select};
use super::restored::restores;
use super::trim::Kept;
use super::{Shared, is_durable};
use crate::{Chain, Error, Head, Record, Restore, Topic, Verdict};

/// What [`verify_all`](super::SqliteLog::verify_all) has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Records of all durable topics.
    pub records: u64,
    /// Where each journal stands, by partition.
    pub heads: Vec<Head>,
}

/// The chain of a journal: from the stored head on where there is one, else from the start.
pub(crate) fn resume(file: &File, partition: u32) -> Result<Chain, Error> {
    let archived = file.archived(partition)?;
    let (chain, first) = begin(archived);
    let found = restores(&file.connection, partition + 1).map_err(Error::read(Topic::Journal, partition))?;
    let taken = taken_over(found.last().map_or(&[], Vec::as_slice));
    let Some(head) = file.stored_head(partition)?.filter(|head| head.offset >= first) else {
        return fold(&file.connection, (partition, taken), chain, first);
    };
    let offset = head.offset;
    let mut hash = None;
    scan(&file.connection, Topic::Journal, partition, offset, offset + 1, |record| {
        hash = Some(record.value.hash());
        Ok(())
    })?;
    if hash != Some(head.hash) {
        return Err(Error::HeadMismatch { partition, offset });
    }
    fold(&file.connection, (partition, taken), Chain::resume(head), offset + 1)
}

/// The chain before the first record that the file has, and the offset of that.
fn begin(archived: Option<Archived>) -> (Chain, u64) {
    archived.map_or_else(|| (Chain::new(), 0), |archived| (Chain::resume(archived.head), archived.below))
}

pub(crate) fn verify_all(directory: &Directory, shared: &Shared) -> Result<Verified, Error> {
    let connection = open_read_only(&directory.file())
        .map_err(|error| Error::open("open the log file for reading", error))?;
    let mut verified = Verified { records: 0, heads: Vec::new() };
    for lane in shared.lanes.iter().filter(|lane| is_durable(lane.topic)) {
        let end = lane.range()?.end;
        let read = Error::read::<rusqlite::Error>(lane.topic, lane.partition);
        // Commands are forgotten from the first on, journals archived; of all else everything has to be there.
        let (mut chain, from) = match lane.topic {
            Topic::Commands => {
                let kept = Kept::of(&connection, lane.topic, lane.partition).map_err(read)?;
                (Chain::new(), kept.from)
            }
            Topic::Journal => begin(Archived::of(&connection, lane.partition).map_err(read)?),
            _ => (Chain::new(), 0),
        };
        scan(&connection, lane.topic, lane.partition, from, end, |record| {
            verified.records += 1;
            if lane.topic != Topic::Journal {
                return Ok(());
            }
            let of_journal = shared.restores.get(lane.partition as usize);
            extend(&mut chain, (lane.partition, taken_over(of_journal.map_or(&[], Vec::as_slice))), record)
        })?;
        verified.heads.extend(chain.head().cloned());
    }
    Ok(verified)
}

fn fold(
    connection: &Connection,
    (partition, taken): (u32, u64),
    mut chain: Chain,
    from: u64,
) -> Result<Chain, Error> {
    scan(connection, Topic::Journal, partition, from, u64::MAX, |record| {
        extend(&mut chain, (partition, taken), record)
    })?;
    Ok(chain)
}

/// Before this offset the records were taken over from another log, which may have stored void ones.
fn taken_over(restores: &[Restore]) -> u64 {
    restores.last().map_or(0, |restore| restore.from)
}

/// Nothing void is ever stored by this log, so a void record of its own is damage.
fn extend(chain: &mut Chain, (partition, taken): (u32, u64), record: &Record) -> Result<(), Error> {
    match chain.accept(record.offset, &record.value) {
        Verdict::Accepted(_) => Ok(()),
        Verdict::Void(_) if record.offset < taken => Ok(()),
        Verdict::Void(reason) => Err(Error::ChainBroken { partition, offset: record.offset, reason }),
    }
}

/// Gives the records from `from` up to `end` one by one; they have to be dense, and reach `end` where that is
/// known.
fn scan(
    connection: &Connection,
    topic: Topic,
    partition: u32,
    from: u64,
    end: u64,
    mut each: impl FnMut(&Record) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = Error::read::<rusqlite::Error>(topic, partition);
    let mut statement = connection.prepare_cached(&select(topic, partition)).map_err(&failed)?;
    let last = i64::try_from(end).unwrap_or(i64::MAX);
    // One statement is one state of the file, whatever is trimmed meanwhile, and holds one record at a time.
    let mut rows = statement.query([from.cast_signed(), last]).map_err(&failed)?;
    let mut next = from;
    while let Some(row) = rows.next().map_err(&failed)? {
        let record = record(row).map_err(&failed)?;
        if record.offset != next {
            return Err(Error::Gap { topic, partition, offset: next });
        }
        each(&record)?;
        next += 1;
    }
    if end != u64::MAX && next != end {
        return Err(Error::Gap { topic, partition, offset: next });
    }
    Ok(())
}
