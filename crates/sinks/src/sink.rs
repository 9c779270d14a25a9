//! What a place that task logs go to has to do.

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
