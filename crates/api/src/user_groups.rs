//! Which group is whose home, as the tables have it. Every pull asks, so it is kept for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_model::{Rejection, ShardId, UserName};

use crate::Problem;

/// A home is looked for again after so long. Only the group's name could be another one then: where the user has
/// moved, the shard that it left refuses it.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Homes that are kept at once.
const MAX_KEPT: usize = 200_000;

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

/// Homes that were right a moment ago.
#[derive(Default)]
pub(crate) struct UserGroups {
    kept: Mutex<HashMap<UserName, (Instant, Home)>>,
}

impl UserGroups {
    /// The shard does not know the user: the tables are asked the next time.
    pub(crate) fn forget(&self, user: &UserName) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(user);
    }

    /// The home, where it was right a moment ago.
    pub(crate) fn kept(&self, user: &UserName) -> Option<Home> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, home) = kept.get(user)?;
        (read_at.elapsed() < KEPT_FOR).then(|| home.clone())
    }

    /// A home as the tables have it.
    pub(crate) fn keep(&self, user: UserName, home: Home) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, (read_at, _)| read_at.elapsed() < KEPT_FOR);
        }
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(user, (Instant::now(), home));
    }
}

/// The user has no home group.
pub(crate) fn unknown(user: &UserName) -> Problem {
    Problem::from(Rejection::UserUnknown { user: user.to_string(), group: "any group".to_owned() })
}
