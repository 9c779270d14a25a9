//! What roles on threads of their own learn from owners: small ports, whose makes the binary chooses.

use std::sync::Arc;
use std::time::Duration;

use tidemill_model::{LiveAnswer, LiveQuery, ShardId};

/// Asks the owner of a shard; blocks for some seconds at most. An error says why there is no answer.
pub type AskOwner = Arc<dyn Fn(ShardId, LiveQuery) -> Result<LiveAnswer, String> + Send + Sync>;

/// The shards of all groups; may block for some seconds. An error says why they are not known at the moment.
pub type GroupShards = Arc<dyn Fn() -> Result<Vec<ShardId>, String> + Send + Sync>;

/// How often it is looked for new groups.
const SHARDS_EVERY: Duration = Duration::from_secs(2);

/// Asks for pages until there are no more. `page` is given the key of the last one so far, and says whether more follow.
///
/// # Errors
/// The first that a page gives.
pub fn all_pages<T, K>(
    mut page: impl FnMut(Option<K>) -> Result<(Vec<T>, bool), String>,
    key: impl Fn(&T) -> K,
) -> Result<Vec<T>, String> {
    let mut all: Vec<T> = Vec::new();
    loop {
        let (more, has_more) = page(all.last().map(&key))?;
        // A page without anything is the last one, whatever it says.
        let ended = !has_more || more.is_empty();
        all.extend(more);
        if ended {
            return Ok(all);
        }
    }
}

/// Tells which shards there are, again and again, until nobody listens. New groups are found sooner or later;
/// while they cannot be asked for, nothing is told.
pub async fn follow_shards<F: Future<Output = bool>>(shards: GroupShards, tell: impl Fn(Vec<ShardId>) -> F) {
    loop {
        let shards = Arc::clone(&shards);
        match tokio::task::spawn_blocking(move || shards()).await {
            Ok(Ok(shards)) => {
                if !tell(shards).await {
                    return;
                }
            }
            Ok(Err(reason)) => tracing::warn!(reason, "which groups there are is not known"),
            Err(error) => tracing::error!(%error, "looking for groups ended unexpectedly"),
        }
        tokio::time::sleep(SHARDS_EVERY).await;
    }
}
