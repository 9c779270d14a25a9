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
///
/// # Errors
/// The last one, after all the rest was looked at.
pub(crate) async fn sweep_once(
    store: &Store,
    parts: &watch::Receiver<Parts>,
    now: Timestamp,
) -> Result<Swept, Error> {
    let (mut swept, mut failed) = (Swept::default(), Ok(()));
    for place in store.places.all() {
        let groups = match place.directories("").await {
            Ok(groups) => groups,
            Err(error) => {
                failed = Err(error);
                continue;
            }
        };
        for (directory, group) in groups.iter().filter_map(|group| Some((group, group_of(group)?))) {
            match sweep_group(store, parts, place, (directory, &group), now).await {
                Ok(removed) => swept.add(removed),
                Err(error) => failed = Err(error),
            }
        }
    }
    failed.map(|()| swept)
}

async fn sweep_group(
    store: &Store,
    parts: &watch::Receiver<Parts>,
    place: &Place,
    (directory, group): (&str, &GroupName),
    now: Timestamp,
) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    for shard in place.directories(directory).await? {
        let Some(shard) = shard.parse().ok().map(ShardId) else { continue };
        let is_mine = || {
            let Parts { mine, count } = &*parts.borrow();
            !place.is_shared() || mine.contains(&shard.partition(*count))
        };
        let sweeping = Sweeping { store, place, group, shard, is_mine: &is_mine };
        if is_mine() {
            swept.add(sweeping.sweep(store.config.kept(group), now).await?);
        }
    }
    Ok(swept)
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.logs += other.logs;
        self.bytes += other.bytes;
    }
}

/// The logs of a group and shard in a place.
struct Sweeping<'a> {
    store: &'a Store,
    place: &'a Place,
    group: &'a GroupName,
    shard: ShardId,
    /// A partition may become another store's meanwhile.
    is_mine: &'a (dyn Fn() -> bool + Sync),
}

impl Sweeping<'_> {
    async fn sweep(&self, kept: Kept, now: Timestamp) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        // By the last change, the oldest first.
        let mut rest: BTreeMap<(i64, String), (String, u64)> = BTreeMap::new();
        let below = shard_directory(self.group, self.shard);
        for bundle in self.place.directories(&below).await? {
            for (log, listed) in list(self.place, &format!("{below}/{bundle}")).await? {
                let age_ms = now.as_millisecond().saturating_sub(listed.written_ms);
                let is_old = kept.age.is_some_and(|age| i128::from(age_ms) >= age.as_millis().cast_signed());
                if is_old {
                    swept.add(self.remove(&log, &listed).await?);
                } else {
                    rest.insert((listed.written_ms, log), (bundle.clone(), listed.bytes));
                }
            }
        }
        let mut bytes: u64 = rest.values().map(|(_, bytes)| bytes).sum();
        for ((_, log), (bundle, _)) in rest {
            if kept.bytes.is_none_or(|most| bytes <= most) {
                break;
            }
            let listed = list(self.place, &format!("{below}/{bundle}/{log}")).await?.remove(&log);
            let Some(listed) = listed else { continue };
            let removed = self.remove(&log, &listed).await?;
            bytes = bytes.saturating_sub(removed.bytes);
            swept.add(removed);
        }
        Ok(swept)
    }

    /// One that grows stays.
    async fn remove(&self, log: &str, listed: &Listed) -> Result<Swept, Error> {
        // A directory of another name is nobody's log.
        let counter = log.parse().ok().filter(|counter| *counter < 1 << 51);
        let Some(key) =
            counter.map(|counter| Key { group: self.group.clone(), token: Token::mint(counter, self.shard) })
        else {
            return Ok(Swept::default());
        };
        if !(self.is_mine)() || !self.store.begin_removal(&key) {
            return Ok(Swept::default());
        }
        let mut removed = Ok(());
        for path in &listed.paths {
            removed = removed.and(self.place.remove(path).await);
        }
        self.place.remove_directory(&key.directory()).await;
        self.store.removed(&key);
        removed.map(|()| Swept { logs: 1, bytes: listed.bytes })
    }
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
