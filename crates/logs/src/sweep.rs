//! LOG-4: logs that are over their time, or too much for their group, are removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::path::Path;
use tidemill_cluster::Parts;
use tidemill_model::{GroupName, ShardId, Timestamp, Token};
use tokio::sync::watch;

use crate::Error;
use crate::config::Kept;
use crate::log::{Key, group_of, shard_directory};
use crate::place::Place;
use crate::store::Store;

/// What a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) logs: u64,
    pub(crate) bytes: u64,
}

/// A log as a listing shows it.
struct Listed {
    paths: Vec<Path>,
    bytes: u64,
    /// When it was changed last.
    written_ms: i64,
}

/// Sweeps now and then, until it is dropped.
pub(crate) async fn sweep(store: Arc<Store>, parts: watch::Receiver<Parts>) {
    loop {
        tokio::time::sleep(store.config.sweep()).await;
        let now = Timestamp::from(jiff::Timestamp::now());
        let parts = parts.borrow().clone();
        match sweep_once(&store, &parts, now).await {
            Ok(Swept { logs: 0, .. }) => {}
            Ok(Swept { logs, bytes }) => tracing::info!(logs, bytes, "removed old logs"),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "some old logs stay; it is tried again"
            ),
        }
    }
}

/// Looks at all places. Of one that other stores see too, only at the shards that are this one's.
pub(crate) async fn sweep_once(store: &Store, parts: &Parts, now: Timestamp) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    for place in store.places.all() {
        for group in place.directories("").await? {
            let Some(name) = group_of(&group) else { continue };
            for shard in place.directories(&group).await? {
                let Some(number) = shard.parse().ok().map(ShardId) else { continue };
                if place.is_shared() && !parts.mine.contains(&number.partition(parts.count)) {
                    continue;
                }
                let kept = store.config.kept(&name);
                let removed = sweep_shard(store, place, (&name, number), kept, now).await?;
                swept.logs += removed.logs;
                swept.bytes += removed.bytes;
            }
        }
    }
    Ok(swept)
}

async fn sweep_shard(
    store: &Store,
    place: &Place,
    (group, shard): (&GroupName, ShardId),
    kept: Kept,
    now: Timestamp,
) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    // By the last change, the oldest first.
    let mut rest: BTreeMap<(i64, String), (String, u64)> = BTreeMap::new();
    let below = shard_directory(group, shard);
    for bundle in place.directories(&below).await? {
        for (log, listed) in list(place, &format!("{below}/{bundle}")).await? {
            let age_ms = now.as_millisecond().saturating_sub(listed.written_ms);
            let is_old = kept.age.is_some_and(|age| i128::from(age_ms) >= age.as_millis().cast_signed());
            if !is_old {
                rest.insert((listed.written_ms, log), (bundle.clone(), listed.bytes));
            } else if remove(store, place, (group, shard, &log), &listed.paths).await? {
                swept.logs += 1;
                swept.bytes += listed.bytes;
            }
        }
    }
    let mut bytes: u64 = rest.values().map(|(_, bytes)| bytes).sum();
    for ((_, log), (bundle, _)) in rest {
        if kept.bytes.is_none_or(|most| bytes <= most) {
            break;
        }
        let listed = list(place, &format!("{below}/{bundle}/{log}")).await?.remove(&log);
        let Some(listed) = listed else { continue };
        if remove(store, place, (group, shard, &log), &listed.paths).await? {
            bytes = bytes.saturating_sub(listed.bytes);
            swept.logs += 1;
            swept.bytes += listed.bytes;
        }
    }
    Ok(swept)
}

/// The logs below a name, by the last part of their directory.
async fn list(place: &Place, below: &str) -> Result<BTreeMap<String, Listed>, Error> {
    let mut logs: BTreeMap<String, Listed> = BTreeMap::new();
    for object in place.list(below).await? {
        let mut parts = object.path.parts().collect::<Vec<_>>();
        parts.pop();
        let Some(log) = parts.pop() else { continue };
        let listed = logs.entry(log.as_ref().to_owned()).or_insert_with(|| Listed {
            paths: Vec::new(),
            bytes: 0,
            written_ms: i64::MIN,
        });
        listed.bytes += object.bytes;
        listed.written_ms = listed.written_ms.max(object.written_ms);
        listed.paths.push(object.path);
    }
    Ok(logs)
}

/// Whether it was removed; one that grows stays.
async fn remove(
    store: &Store,
    place: &Place,
    (group, shard, log): (&GroupName, ShardId, &str),
    paths: &[Path],
) -> Result<bool, Error> {
    let key = key(group, shard, log);
    if key.as_ref().is_some_and(|key| store.is_open(key)) {
        return Ok(false);
    }
    for path in paths {
        place.remove(path).await?;
    }
    if let Some(key) = &key {
        store.removed(key);
        place.remove_directory(&key.directory()).await;
    }
    Ok(true)
}

fn key(group: &GroupName, shard: ShardId, counter: &str) -> Option<Key> {
    Some(Key { group: group.clone(), token: Token::mint(counter.parse().ok()?, shard) })
}
