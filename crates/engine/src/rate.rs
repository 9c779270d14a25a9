//! How often something may start: what has started in the interval that ends now.

use std::collections::VecDeque;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{Rate, Timestamp};

/// Starts that a rate still counts. What is too old leaves with [`Starts::expire`] only, so that the state moves by
/// events alone.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Starts {
    recent: VecDeque<(Timestamp, u32)>,
    count: u32,
}

impl Starts {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn note(&mut self, now: Timestamp, starts: u32, rate: Rate) {
        self.expire(now, rate);
        if starts > 0 {
            self.recent.push_back((now, starts));
            self.count = self.count.saturating_add(starts);
        }
    }

    pub(crate) fn expire(&mut self, now: Timestamp, rate: Rate) {
        while self.next_expiry(rate).is_some_and(|at| at <= now)
            && let Some((_, starts)) = self.recent.pop_front()
        {
            self.count = self.count.saturating_sub(starts);
        }
    }

    /// When the oldest of them does not count any more.
    pub(crate) fn next_expiry(&self, rate: Rate) -> Option<Timestamp> {
        let (oldest, _) = self.recent.front()?;
        let interval = SignedDuration::from_secs(i64::from(rate.interval_s));
        Some(oldest.saturating_add(interval).unwrap_or(Timestamp::MAX))
    }
}
