//! How many clusters there are at once.

use std::sync::{Condvar, Mutex, PoisonError};

/// A cluster is some ten processes with some sixty clients of one broker: with more of them, a slow machine is busy with
/// starting them for longer than any of them waits.
const MOST: usize = 3;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Held as long as its cluster runs.
pub(crate) struct Turn(());

impl Turn {
    /// Waits until there is room for another cluster.
    pub(crate) fn take() -> Self {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |running: &mut usize| *running >= MOST;
        *ENDED.wait_while(running, is_full).unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
