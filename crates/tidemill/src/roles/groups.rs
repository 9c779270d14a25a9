//! Finds a worker group in the catalogue's journal: the truth itself, so that a worker needs neither the
//! tables nor the interface to learn which shard it works for.

use std::time::Duration;

use tidemill_log::{Chain, From, Kind, Log, Topic};
use tidemill_model::{Envelope, Event, GroupName, ShardId};

use crate::failure::{Done, Failure};

/// Records taken at once.
const RECORDS: usize = 1_000;
/// A journal that has records below its end gives one within this.
const WAIT: Duration = Duration::from_secs(10);

/// A group, as the catalogue last defined it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The shard that does its work.
    pub(crate) shard: ShardId,
    /// Its workers' public key, hexadecimal.
    pub(crate) worker_key: String,
}

/// What the catalogue's journal says of a group at this moment.
pub(crate) fn find(log: &dyn Log, name: &GroupName) -> Done<Option<Group>> {
    let cannot = |error: &tidemill_log::Error| {
        Failure::caused(format!("cannot look for group {name} in the log"), error)
    };
    let partition = ShardId::CATALOGUE.partition(log.partitions(Topic::Journal));
    let range = log.range(Topic::Journal, partition).map_err(|error| cannot(&error))?;
    let mut reader = log.reader(Topic::Journal, partition, From::Start).map_err(|error| cannot(&error))?;
    let mut chain = Chain::new();
    let mut found = None;
    let mut next = range.start;
    while next < range.end {
        let records = reader.poll(RECORDS, WAIT).map_err(|error| cannot(&error))?;
        if records.is_empty() {
            return Err(Failure::new(
                crate::exit::Exit::Unreachable,
                format!("the log gives no record of the catalogue's journal from offset {next} on"),
            ));
        }
        for record in records {
            next = record.offset + 1;
            let Some(frame) = chain.accept(record.offset, &record.value).accepted() else { continue };
            if frame.kind == Kind::Envelope {
                found = newest(&frame.body, name)?.or(found);
            }
        }
    }
    Ok(found)
}

fn newest(body: &[u8], wanted: &GroupName) -> Done<Option<Group>> {
    let envelope: Envelope = serde_json::from_slice(body).map_err(|error| {
        Failure::caused("this version cannot read the catalogue's journal; use a newer one", &error)
    })?;
    let defined = envelope.events.into_iter().rev().find_map(|recorded| match recorded.event {
        Event::GroupDefined { name, shard, worker_key, .. } if name == *wanted => {
            Some(Group { shard, worker_key })
        }
        _ => None,
    });
    Ok(defined)
}
