//! Telling threads to stop, also those that wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_log::Waker;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requested: bool,
    wakers: Vec<Waker>,
}

/// A request to stop, shared by all who have to hear it. A clone is the same request.
#[derive(Clone, Default)]
pub struct Shutdown(Arc<Shared>);

impl Shutdown {
    /// Nobody asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A flag and a list: never half changed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks everybody to stop, from any thread.
    pub fn request(&self) {
        let mut state = self.state();
        state.requested = true;
        state.wakers.iter().for_each(Waker::wake);
        self.0.changed.notify_all();
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.state().requested
    }

    /// From now on a request ends this reader's wait.
    pub fn wakes(&self, waker: Waker) {
        let mut state = self.state();
        if state.requested {
            waker.wake();
        }
        state.wakers.push(waker);
    }

    /// Waits this long, or until somebody asks; tells whether somebody did.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        while !state.requested {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
