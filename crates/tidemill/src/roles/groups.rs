//! Finds worker groups and keys in the catalogue's journal: the truth itself, so that a worker needs neither the tables nor the
//! interface to learn which shard it works for.

use std::sync::Arc;
use std::time::Duration;

use tidemill_cli::{Done, Failure};
use tidemill_journal::{Journal, Start};
use tidemill_log::{Log, Topic};
use tidemill_model::{CatalogueEvent, Event, GroupName, Level, ShardId};
use tidemill_snapshots::{Snapshots, Until, restore};

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
///
/// It begins with the newest snapshot, so that it takes no longer the longer the journal is.
pub(crate) fn find(log: &dyn Log, snapshots: Option<&Snapshots>, name: &GroupName) -> Done<Option<Group>> {
    let partition = ShardId::CATALOGUE.partition(log.partitions(Topic::Journal));
    let fold = restore(log, snapshots, partition, Level::READS, Until::Named).fold;
    let known = fold.state.catalogue().and_then(|catalogue| catalogue.worker_group(name));
    let known = known.map(|(shard, worker_key)| Group { shard, worker_key: worker_key.to_owned() });
    let start = fold.chain.head().cloned().map_or(Start::Beginning, Start::After);
    let since = newest(log, &format!("group {name}"), start, |event| match event {
        Event::Catalogue(CatalogueEvent::GroupDefined { name: defined, shard, worker_key, .. })
            if defined == *name =>
        {
            Some(Group { shard, worker_key })
        }
        _ => None,
    })?;
    Ok(since.or(known))
}

/// The hash of an application's secret, as the catalogue's journal has it at this moment.
pub(crate) fn key_hash(log: &dyn Log, wanted: &str) -> Done<Option<String>> {
    let found = newest(log, &format!("key {wanted}"), Start::Beginning, |event| match event {
        Event::Catalogue(CatalogueEvent::KeyDefined { app, hash, .. }) if app == wanted => Some(Some(hash)),
        Event::Catalogue(CatalogueEvent::KeyRevoked { app }) if app == wanted => Some(None),
        _ => None,
    })?;
    Ok(found.flatten())
}

/// The last thing of this kind in the catalogue's journal from there on.
fn newest<T>(log: &dyn Log, what: &str, start: Start, kind: impl Fn(Event) -> Option<T>) -> Done<Option<T>> {
    let cannot =
        |error: &dyn std::error::Error| Failure::caused(format!("cannot look for {what} in the log"), error);
    let partition = ShardId::CATALOGUE.partition(log.partitions(Topic::Journal));
    let range = log.range(Topic::Journal, partition).map_err(|error| cannot(&error))?;
    let begun = match &start {
        Start::After(head) => head.offset + 1,
        Start::Beginning | Start::At(_) => range.start,
    };
    let journal = Journal::open(log, partition, "groups and keys", start);
    let mut journal = journal.map_err(|error| cannot(&error))?;
    let mut found = None;
    let mut next = begun;
    while next < range.end {
        let read = journal.poll(RECORDS, WAIT).map_err(|error| match error {
            tidemill_journal::Error::Body { source, .. } => {
                Failure::caused("this version cannot read the catalogue's journal; use a newer one", &source)
            }
            error => cannot(&error),
        })?;
        let Some(last) = read.last else {
            return Err(Failure::new(
                tidemill_cli::Exit::Unreachable,
                format!("the log gives no record of the catalogue's journal from offset {next} on"),
            ));
        };
        next = last + 1;
        let mut events =
            read.entries.into_iter().flat_map(|entry| Arc::unwrap_or_clone(entry.envelope).events).rev();
        found = events.find_map(|recorded| kind(recorded.event)).or(found);
    }
    Ok(found)
}
