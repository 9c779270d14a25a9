//! Application keys that need no look at the tables for a while (API-5).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_store::rows::AppKeyRow;

/// Keys that were good a moment ago.
pub(crate) struct TrustedKeys {
    trusted_for: Duration,
    kept: Mutex<HashMap<Arc<str>, (Instant, AppKeyRow)>>,
}

impl TrustedKeys {
    pub(crate) fn new(trusted_for: Duration) -> Self {
        Self { trusted_for, kept: Mutex::default() }
    }

    pub(crate) fn kept(&self, app: &str) -> Option<AppKeyRow> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, key) = kept.get(app)?;
        (read_at.elapsed() < self.trusted_for).then(|| key.clone())
    }

    pub(crate) fn keep(&self, key: &AppKeyRow) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (read_at, _)| read_at.elapsed() < self.trusted_for);
        kept.insert(key.app.clone(), (Instant::now(), key.clone()));
    }
}
