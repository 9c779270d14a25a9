//! What a place that task logs go to has to do, and when it writes a position without data, so that a start need not read far.

use std::time::{Duration, Instant};

use tidemill_log::Head;

use crate::{Batch, Error};

/// What a call has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stored {
    /// Offset of the last record that the data hold, where it moved.
    pub offset: Option<u64>,
    /// Changes that have become durable.
    pub changes: usize,
}

/// One partition of a sink.
///
/// After any error the sink is dropped and opened anew: it goes on at the position that it then finds, which is
/// never ahead of its data.
pub trait Sink: Send {
    /// Where the data stand; absent: nothing was ever written. What was left half done is put in order.
    ///
    /// # Errors
    /// The place; [`Error::StoredPosition`].
    fn position(&mut self) -> Result<Option<Head>, Error>;

    /// Takes a batch, which begins where the last one ended. It may keep it in memory for a while.
    ///
    /// # Errors
    /// The place. Part of the batch may be written then; the position is not.
    fn write(&mut self, batch: Batch) -> Result<Stored, Error>;

    /// Called when there was nothing to read, and before an orderly end with `last`: what is kept in memory may go.
    ///
    /// # Errors
    /// The place.
    fn rest(&mut self, _last: bool) -> Result<Stored, Error> {
        Ok(Stored::default())
    }
}

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

    pub(crate) fn written(&mut self) {
        self.0 = Some(Instant::now());
    }
}
