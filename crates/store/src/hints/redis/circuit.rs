//! Who failed is left alone for a moment, so that nobody waits for it again and again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// For how long.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// Closed: it may be asked.
#[derive(Default)]
pub(super) struct Circuit {
    failed_at: Mutex<Option<Instant>>,
}

impl Circuit {
    pub(super) fn is_closed(&self) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_none_or(|at| at.elapsed() >= OPEN_FOR)
    }

    pub(super) fn open(&self) {
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
