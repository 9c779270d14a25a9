//! What may befall an append on the memory log.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::Topic;
use crate::signal::lock;

/// An append as the fault hook sees it, just before it lands.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Which producer: 1 is the first that the log made.
    pub producer: u64,
    /// Where to.
    pub topic: Topic,
    /// Where to.
    pub partition: u32,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// What befalls an append.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: it lands and is acknowledged.
    None,
    /// It, and all that its producer appends after it, waits until the gate is open, then lands.
    Delay(Gate),
    /// It does not land, and the outcome is told to be unknown.
    DropUnknown,
    /// It lands, and the outcome is told to be unknown.
    LandUnknown,
    /// The outcome is told to be unknown; it lands when [`land_late`](super::MemoryLog::land_late) is called.
    LandLate,
}

/// Decides what befalls each append; called on the producers' threads.
pub type FaultHook = Box<dyn FnMut(&Append<'_>) -> Fault + Send>;

/// Shut at first; once open it stays open. A clone is the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets all through.
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let mut open = lock(&self.0.0);
        while !*open {
            open = self.0.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
