//! How a reader that waits hears of new records, and of those who want it to stop waiting.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Locks; a lock that a panicking thread left behind is taken over, for what it guards here is never half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    News,
    Woken,
    Nothing,
}

#[derive(Default)]
struct Flags {
    news: bool,
    woken: bool,
}

#[derive(Default)]
pub(crate) struct Signal {
    flags: Mutex<Flags>,
    changed: Condvar,
    /// Called at news, in the place of a reader that waits.
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Signal {
    /// There may be something to read.
    pub(crate) fn news(&self) {
        if let Some(listener) = self.listener.get() {
            return listener();
        }
        lock(&self.flags).news = true;
        self.changed.notify_one();
    }

    fn wake(&self) {
        lock(&self.flags).woken = true;
        self.changed.notify_one();
    }

    /// Waits until `deadline`; what was told since the last wait counts.
    pub(crate) fn wait(&self, deadline: Instant) -> Heard {
        let mut flags = lock(&self.flags);
        loop {
            if std::mem::take(&mut flags.woken) {
                return Heard::Woken;
            }
            if std::mem::take(&mut flags.news) {
                return Heard::News;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Heard::Nothing;
            }
            flags = self.changed.wait_timeout(flags, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// When to stop waiting; a wait without end is a long one.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + timeout.min(LONG)
}

/// Ends the wait of the reader it came from, from any thread. Used while nobody waits, it ends the next wait.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<Signal>);

impl Waker {
    /// Ends the wait.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// From now on `listener` is called when the reader may have something, which then is polled without waiting: a poll that
    /// waits hears of nothing any more. It is called on a thread of the back end, under its locks: it must be short, and must
    /// neither block nor read. What came before is not told, so poll once after this. Of two calls the first counts.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.listener.set(Box::new(listener));
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
