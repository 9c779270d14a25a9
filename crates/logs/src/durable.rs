//! What is written to a directory and not durable yet. Elsewhere all that is written is durable.
//!
//! The kernel says once that it could not write something back, and calls it clean afterwards. So nothing that was written since the
//! last good word is trusted after a bad one: it is removed, and comes again from the spools.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_model::Token;

use crate::log::Key;

/// By which worker a log came.
pub(crate) type Closed = (Arc<str>, Token);

#[derive(Default)]
pub(crate) struct Unsynced(Mutex<Written>);

/// Since the last time that all was made durable.
#[derive(Default)]
pub(crate) struct Written {
    /// Logs that are whole in segments, whose workers wait for the word.
    pub(crate) closed: Vec<Closed>,
    /// Logs that have new segments.
    pub(crate) logs: HashSet<Key>,
}

impl Unsynced {
    pub(crate) fn wrote(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).logs.insert(key.clone());
    }

    pub(crate) fn closed(&self, closed: Closed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).closed.push(closed);
    }

    /// All of it. What comes from now on is for the next time.
    pub(crate) fn take(&self) -> Written {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
