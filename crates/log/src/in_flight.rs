//! What a producer has under way: bounded, counted, and each told its outcome exactly once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::port::Done;
use crate::signal::{deadline, lock};
use crate::{AppendError, Error};

/// How much one producer may have under way before it answers [`AppendError::Full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueBound {
    /// Records; default 100,000.
    pub records: usize,
    /// Bytes of keys and values; default 64 MiB.
    pub bytes: usize,
}

impl Default for QueueBound {
    fn default() -> Self {
        Self { records: 100_000, bytes: 64 << 20 }
    }
}

#[derive(Default)]
struct Load {
    records: usize,
    bytes: usize,
}

/// The queue of one producer, as far as counting goes.
pub(crate) struct InFlight {
    bound: QueueBound,
    load: Mutex<Load>,
    emptied: Condvar,
}

impl InFlight {
    pub(crate) fn new(bound: QueueBound) -> Arc<Self> {
        Arc::new(Self { bound, load: Mutex::default(), emptied: Condvar::new() })
    }

    /// Takes room for a record, or tells `done` that there is none. A record larger than the whole bound gets
    /// in when nothing else is under way.
    pub(crate) fn enter(self: &Arc<Self>, bytes: usize, done: Done) -> Option<Pending> {
        let mut load = lock(&self.load);
        let full = load.records >= self.bound.records || load.bytes.saturating_add(bytes) > self.bound.bytes;
        if full && load.records > 0 {
            drop(load);
            done(Err(AppendError::Full));
            return None;
        }
        load.records += 1;
        load.bytes += bytes;
        drop(load);
        Some(Pending { done: Some(done), room: Some((Arc::clone(self), bytes)) })
    }

    fn leave(&self, bytes: usize) {
        let mut load = lock(&self.load);
        load.records -= 1;
        load.bytes -= bytes;
        if load.records == 0 {
            self.emptied.notify_all();
        }
    }

    pub(crate) fn flush(&self, timeout: Duration) -> Result<(), Error> {
        let end = deadline(timeout);
        let mut load = lock(&self.load);
        while load.records > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(Error::FlushTimeout { waited_ms: timeout.as_millis() });
            }
            load = self.emptied.wait_timeout(load, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// An append whose outcome is owed. Forgotten, it tells that the outcome is unknown.
pub(crate) struct Pending {
    done: Option<Done>,
    room: Option<(Arc<InFlight>, usize)>,
}

impl Pending {
    pub(crate) fn finish(mut self, result: Result<u64, AppendError>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<u64, AppendError>) {
        if let Some(done) = self.done.take() {
            done(result);
        }
        if let Some((in_flight, bytes)) = self.room.take() {
            in_flight.leave(bytes);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.tell(Err(AppendError::Unknown("the producer ended before the outcome was known".to_owned())));
    }
}
