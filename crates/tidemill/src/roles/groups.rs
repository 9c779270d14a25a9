//! Finds worker groups and keys in the catalogue's journal: the truth itself, so that a worker needs neither the tables nor the
//! interface to learn which shard it works for.

use std::sync::Arc;
use std::time::Duration;

use tidemill_cli::{Done, Failure};
use tidemill_journal::{Journal, Start};
use tidemill_log::{Log, Topic};
use tidemill_model::{CatalogueEvent, Event, GroupName, ShardId};

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
    newest(log, &format!("group {name}"), |event| match event {
        Event::Catalogue(CatalogueEvent::GroupDefined { name: defined, shard, worker_key, .. })
            if defined == *name =>
        {
            Some(Group { shard, worker_key })
        }
        _ => None,
    })
}

/// The hash of an application's secret, as the catalogue's journal has it at this moment.
pub(crate) fn key_hash(log: &dyn Log, wanted: &str) -> Done<Option<String>> {
    let found = newest(log, &format!("key {wanted}"), |event| match event {
        Event::Catalogue(CatalogueEvent::KeyDefined { app, hash, .. }) if app == wanted => Some(Some(hash)),
        Event::Catalogue(CatalogueEvent::KeyRevoked { app }) if app == wanted => Some(None),
        _ => None,
    })?;
    Ok(found.flatten())
}

/// The last thing of this kind in the catalogue's journal.
fn newest<T>(log: &dyn Log, what: &str, kind: impl Fn(Event) -> Option<T>) -> Done<Option<T>> {
    let cannot =
        |error: &dyn std::error::Error| Failure::caused(format!("cannot look for {what} in the log"), error);
    let partition = ShardId::CATALOGUE.partition(log.partitions(Topic::Journal));
    let range = log.range(Topic::Journal, partition).map_err(|error| cannot(&error))?;
    let journal = Journal::open(log, partition, "groups and keys", Start::Beginning);
    let mut journal = journal.map_err(|error| cannot(&error))?;
    let mut found = None;
    let mut next = range.start;
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
