//! EXE-13: why an attempt that was granted does not begin.

use tidemill_model::{BatchId, Condition, ExternalWork};

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Grant};
use crate::group::listed::listed;

/// Attempts that a message names, and ids of each.
const LISTED: usize = 5;

impl GroupShard {
    /// Its worker has to end first what earlier attempts of the batch have left elsewhere.
    pub(super) fn why_not_begun(&self, id: BatchId, batch: &Batch, grant: &Grant) -> Option<Condition> {
        let earlier = self.batches.unconfirmed(&id);
        if grant.started || earlier.is_empty() {
            return None;
        }
        let mut left: Vec<String> = earlier.iter().take(LISTED).map(named).collect();
        left.extend((earlier.len() > LISTED).then(|| format!("{} more", earlier.len() - LISTED)));
        let message = format!(
            "worker {} first ends the external work that earlier attempts have left: {}",
            grant.worker,
            left.join("; ")
        );
        Some(self.condition("external_work", message, batch))
    }
}

fn named(work: &ExternalWork) -> String {
    let ExternalWork { token, ids } = work;
    if ids.is_empty() {
        return format!("attempt {token} (what carries its tag)");
    }
    format!("attempt {token} ({})", listed(ids, LISTED, ToString::to_string))
}
