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
    /// Who is woken instead: what its reader reads at the moment.
    relay: Option<Arc<Signal>>,
}

type Listener = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(crate) struct Signal {
    flags: Mutex<Flags>,
    changed: Condvar,
    /// Called at news, in the place of a reader that waits.
    listener: OnceLock<Listener>,
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
        let mut flags = lock(&self.flags);
        if let Some(relay) = flags.relay.clone() {
            drop(flags);
            return relay.wake();
        }
        flags.woken = true;
        self.changed.notify_one();
    }

    /// Whether it was woken since it was asked last.
    pub(crate) fn take_woken(&self) -> bool {
        std::mem::take(&mut lock(&self.flags).woken)
    }

    /// From now on another one is woken instead, and tells this one's listener of its news; at once, where this one was woken.
    pub(crate) fn relay(&self, to: &Arc<Self>) {
        let woken = {
            let mut flags = lock(&self.flags);
            flags.relay = Some(Arc::clone(to));
            std::mem::take(&mut flags.woken)
        };
        if let Some(listener) = self.listener.get() {
            to.listen(Arc::clone(listener));
        }
        if woken {
            to.wake();
        }
    }

    fn listen(&self, listener: Listener) {
        let _ = self.listener.set(Arc::clone(&listener));
        // One that it begins to relay to just now finds the listener.
        let relay = lock(&self.flags).relay.clone();
        if let Some(relay) = relay {
            relay.listen(listener);
        }
    }

    /// From now on it is woken itself.
    pub(crate) fn end_relay(&self) {
        lock(&self.flags).relay = None;
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
        self.0.listen(Arc::new(listener));
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
