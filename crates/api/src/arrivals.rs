//! Bodies on their way: they hold no place among the requests under way, and a new one makes an old one give up
//! where there are too many (OPS-7).
//!
//! An honest body is there with its head, or a moment later. One that is not can wait as long as nobody needs its place.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Bodies of which nobody knows yet who sends them, at most.
const MAX_UNKNOWN: usize = 64;

pub(crate) struct Arrivals {
    bound: usize,
    unknown: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// The oldest first.
    bodies: Vec<Waits>,
}

struct Waits {
    number: u64,
    /// Whose; `None`: nobody has shown a key yet.
    key: Option<Arc<str>>,
    give_up: Arc<Notify>,
}

/// A body on its way, until it is dropped.
pub(crate) struct Arrival {
    all: Arc<Arrivals>,
    number: u64,
    give_up: Arc<Notify>,
}

impl Arrivals {
    /// At most so many; of one key half of them, and of nobody's a quarter, and no more than `unknown`.
    pub(crate) fn new(bound: usize, unknown: usize) -> Arc<Self> {
        let unknown = unknown.min(bound / 4).clamp(1, MAX_UNKNOWN);
        Arc::new(Self { bound, unknown, waiting: Mutex::default() })
    }

    /// A body begins. Where there are too many, the oldest of the same key gives up, or else the oldest of all.
    pub(crate) fn begin(self: &Arc<Self>, key: Option<Arc<str>>) -> Arrival {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let share = match key {
            Some(_) => (self.bound / 2).max(1),
            None => self.unknown,
        };
        let own = waiting.bodies.iter().filter(|it| it.key == key).count();
        let oldest = if own >= share {
            waiting.bodies.iter().position(|it| it.key == key)
        } else {
            (waiting.bodies.len() >= self.bound).then_some(0)
        };
        if let Some(oldest) = oldest {
            waiting.bodies.remove(oldest).give_up.notify_one();
        }
        waiting.next += 1;
        let (number, give_up) = (waiting.next, Arc::new(Notify::new()));
        waiting.bodies.push(Waits { number, key, give_up: Arc::clone(&give_up) });
        Arrival { all: Arc::clone(self), number, give_up }
    }
}

impl Arrival {
    /// Ends when this one has to give up.
    pub(crate) async fn gives_up(&self) {
        self.give_up.notified().await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut waiting = self.all.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bodies.retain(|it| it.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn has_to_give_up(arrival: &Arrival) -> bool {
        tokio::select! {
            biased;
            () = arrival.gives_up() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// OPS-7
    #[tokio::test]
    async fn new_bodies_without_a_key_take_the_places_of_old_ones_and_no_others() {
        let arrivals = Arrivals::new(8, 64);
        let keyed = arrivals.begin(Some("app".into()));
        let unknown = [arrivals.begin(None), arrivals.begin(None)];
        assert!(!has_to_give_up(&unknown[0]).await);
        let newest = arrivals.begin(None);
        assert!(has_to_give_up(&unknown[0]).await);
        for waits in [&keyed, &unknown[1], &newest] {
            assert!(!has_to_give_up(waits).await);
        }
    }

    /// OPS-7
    #[tokio::test]
    async fn a_key_with_half_of_all_gives_up_its_own() {
        let arrivals = Arrivals::new(4, 64);
        let other = arrivals.begin(Some("other".into()));
        let own = [0, 1].map(|_| arrivals.begin(Some("app".into())));
        let _third = arrivals.begin(Some("app".into()));
        assert!(has_to_give_up(&own[0]).await);
        assert!(!has_to_give_up(&other).await && !has_to_give_up(&own[1]).await);
    }

    #[tokio::test]
    async fn a_body_that_came_counts_no_more() {
        let arrivals = Arrivals::new(4, 64);
        drop(arrivals.begin(None));
        let one = arrivals.begin(None);
        assert!(!has_to_give_up(&one).await);
    }
}
