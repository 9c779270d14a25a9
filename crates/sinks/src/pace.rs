//! When a position is written without data, so that a start need not read far.

use std::time::{Duration, Instant};

/// Between two positions without data. Reading again what a few seconds brought costs little.
const EVERY: Duration = Duration::from_secs(5);

/// When the position was written last.
#[derive(Debug, Default)]
pub(crate) struct Pace(Option<Instant>);

impl Pace {
    /// Whether it is time to write it, data or not.
    pub(crate) fn is_due(&self) -> bool {
        self.0.is_none_or(|at| at.elapsed() >= EVERY)
    }

    /// It was written.
    pub(crate) fn written(&mut self) {
        self.0 = Some(Instant::now());
    }
}
