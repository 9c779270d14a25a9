//! How many readers were found to fetch no more, by topic, since the log was opened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Topic;

/// A count for each topic.
#[derive(Debug, Default)]
pub(crate) struct Stalls([AtomicU64; Topic::ALL.len()]);

impl Stalls {
    pub(crate) fn count(&self, topic: Topic) {
        self.0[topic.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Those of topics that have any.
    pub(crate) fn counts(&self) -> BTreeMap<Topic, u64> {
        let counts = Topic::ALL.map(|topic| (topic, self.0[topic.index()].load(Ordering::Relaxed)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
