//! What third parties reported, and who is told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_model::{ShardId, Timestamp};

/// Reports in one message to a group.
const REPORTS_AT_ONCE: usize = 200;

/// Third parties' reports as the catalogue keeps them, and which groups hear of which codes.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) ready: BTreeMap<(Arc<str>, Timestamp), Timestamp>,
    pub(super) listeners: BTreeMap<Arc<str>, BTreeSet<ShardId>>,
}

impl Reports {
    /// How many messages tell a group of a code that it has not heard of yet.
    pub(super) fn told_to(&mut self, code: &Arc<str>, to: ShardId) -> usize {
        if !self.listeners.entry(Arc::clone(code)).or_default().insert(to) {
            return 0;
        }
        let all = (Arc::clone(code), Timestamp::MIN)..=(Arc::clone(code), Timestamp::MAX);
        self.ready.range(all).count().div_ceil(REPORTS_AT_ONCE)
    }
}
