//! Operations on many batches or jobs that this instance began.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tidemill_model::BulkId;
use tokio::sync::Notify;

/// What this instance knows of operations beyond the tables.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    own: Mutex<BTreeSet<BulkId>>,
    pub(crate) news: Notify,
}

impl Bulks {
    /// This instance took the request.
    pub(crate) fn begun(&self, bulk: BulkId) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(bulk);
        self.news.notify_one();
    }

    pub(crate) fn is_own(&self, bulk: BulkId) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(&bulk)
    }

    pub(crate) fn keep(&self, open: &BTreeSet<BulkId>) {
        // One that the tables do not show yet has an id above those that they do.
        let newest = open.last().copied();
        let is_kept = |bulk: &BulkId| open.contains(bulk) || newest.is_none_or(|newest| *bulk > newest);
        self.own.lock().unwrap_or_else(PoisonError::into_inner).retain(is_kept);
    }
}
