//! What was read from the tables a moment ago, and is asked for so often that it is kept for a while: application keys (API-5),
//! and which group is whose home.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_model::{Rejection, ShardId, UserName};

use crate::Problem;

/// Values that were right when they were read.
pub(crate) struct Kept<K, V> {
    kept_for: Duration,
    values: Mutex<HashMap<K, (Instant, V)>>,
}

/// Values that are kept at once.
const MAX_KEPT: usize = 200_000;

impl<K: Eq + Hash, V: Clone> Kept<K, V> {
    pub(crate) fn new(kept_for: Duration) -> Self {
        Self { kept_for, values: Mutex::default() }
    }

    /// The value, where it was right a moment ago.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, value) = values.get(key)?;
        (read_at.elapsed() < self.kept_for).then(|| value.clone())
    }

    /// A value as the tables have it.
    pub(crate) fn keep(&self, key: K, value: V) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() >= MAX_KEPT {
            values.retain(|_, (read_at, _)| read_at.elapsed() < self.kept_for);
        }
        if values.len() >= MAX_KEPT {
            values.clear();
        }
        values.insert(key, (Instant::now(), value));
    }

    /// It is not right any more: the tables are asked the next time.
    pub(crate) fn forget(&self, key: &K) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A home is looked for again after so long. Only the group's name could be another one then: where the user has
/// moved, the shard that it left refuses it.
pub(crate) const HOME_KEPT_FOR: Duration = Duration::from_secs(60);

/// A user's home group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// The group's name.
    pub(crate) group: Arc<str>,
    /// The group's shard.
    pub(crate) shard: ShardId,
    /// The shard is asked to let the user go.
    pub(crate) moving: bool,
}

/// The user has no home group.
pub(crate) fn homeless(user: &UserName) -> Problem {
    Problem::from(Rejection::UserUnknown { user: user.to_string(), group: "any group".to_owned() })
}
