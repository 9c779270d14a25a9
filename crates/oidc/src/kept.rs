//! What was fetched, and is kept for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so long a document or a set of keys is used before it is fetched again.
pub(crate) const LIFETIME: Duration = Duration::from_hours(1);
/// So often at most are keys fetched before that because one is not among them.
pub(crate) const PAUSE: Duration = Duration::from_mins(1);

pub(crate) struct Kept<T>(Mutex<Inside<T>>);

struct Inside<T> {
    newest: Option<(Arc<T>, Instant)>,
    asked_again_at: Option<Instant>,
}

impl<T> Kept<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inside { newest: None, asked_again_at: None }))
    }

    /// The newest, unless it is too old.
    pub(crate) fn get(&self, now: Instant) -> Option<Arc<T>> {
        let inside = self.inside();
        let (newest, at) = inside.newest.as_ref()?;
        (now.saturating_duration_since(*at) < LIFETIME).then(|| Arc::clone(newest))
    }

    pub(crate) fn put(&self, value: T, now: Instant) -> Arc<T> {
        let value = Arc::new(value);
        self.inside().newest = Some((Arc::clone(&value), now));
        value
    }

    /// Whether it may be fetched before it is too old. Who is told so fetches it; others are not for a while, whatever
    /// comes of it.
    pub(crate) fn may_ask_again(&self, now: Instant) -> bool {
        let mut inside = self.inside();
        let is_late = inside.asked_again_at.is_none_or(|at| now.saturating_duration_since(at) >= PAUSE);
        if is_late {
            inside.asked_again_at = Some(now);
        }
        is_late
    }

    /// Nothing is left half done by whoever panicked with it.
    fn inside(&self) -> MutexGuard<'_, Inside<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: a key that the provider withdrew is not used for ever.
    #[test]
    fn what_is_kept_grows_old() {
        let (kept, start) = (Kept::new(), Instant::now());
        assert_eq!(kept.get(start), None);
        kept.put(1, start);
        assert_eq!(kept.get(start + LIFETIME / 2).as_deref(), Some(&1));
        assert_eq!(kept.get(start + LIFETIME), None);
        kept.put(2, start + LIFETIME);
        assert_eq!(kept.get(start + LIFETIME).as_deref(), Some(&2));
    }

    /// API-5: whoever shows unknown keys does not make us ask the provider more than once a minute.
    #[test]
    fn asking_again_is_allowed_once_a_minute() {
        let (kept, start) = (Kept::<()>::new(), Instant::now());
        assert!(kept.may_ask_again(start));
        assert!(!kept.may_ask_again(start));
        assert!(!kept.may_ask_again(start + PAUSE / 2));
        assert!(kept.may_ask_again(start + PAUSE));
        assert!(!kept.may_ask_again(start + PAUSE));
    }
}
