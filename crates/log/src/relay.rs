//! A waker for a reader that reads from several others, one after the other.

use std::sync::Arc;

use crate::Waker;
use crate::signal::Signal;

/// One waker for as long as the reader lives, whichever of the others it reads from.
#[derive(Default)]
pub struct Relay(Arc<Signal>);

impl Relay {
    /// Nobody is read from yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What ends a wait of the reader.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0))
    }

    /// The reader of this waker is read from now on: whoever wakes this one wakes that one, and whoever listens here hears of
    /// that one's news.
    pub fn pass_to(&self, waker: &Waker) {
        self.0.relay(&waker.0);
    }

    /// Nobody is read from who could wait.
    pub fn keep(&self) {
        self.0.end_relay();
    }

    /// Whether it was woken while nobody was read from, since it was asked last.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.take_woken()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::signal::{Heard, deadline};

    #[test]
    fn listener_hears_of_the_news_of_whoever_is_read_from() {
        let (relay, heard) = (Relay::new(), Arc::new(AtomicU32::new(0)));
        let first = Arc::new(Signal::default());
        relay.pass_to(&Waker(Arc::clone(&first)));
        let count = Arc::clone(&heard);
        relay.waker().listen(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        first.news();
        let second = Arc::new(Signal::default());
        relay.pass_to(&Waker(Arc::clone(&second)));
        second.news();
        assert_eq!(heard.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn waker_ends_the_wait_of_whoever_is_read_from() {
        let (relay, inner) = (Relay::new(), Arc::new(Signal::default()));
        let waker = relay.waker();
        waker.wake();
        assert!(relay.take() && !relay.take(), "each wake counts once");
        waker.wake();
        relay.pass_to(&Waker(Arc::clone(&inner)));
        assert_eq!(inner.wait(deadline(Duration::ZERO)), Heard::Woken, "what was woken before counts");
        waker.wake();
        assert!(!relay.take());
        assert_eq!(inner.wait(deadline(Duration::ZERO)), Heard::Woken);
        relay.keep();
        waker.wake();
        assert!(relay.take());
        assert_eq!(inner.wait(deadline(Duration::ZERO)), Heard::Nothing);
    }
}
