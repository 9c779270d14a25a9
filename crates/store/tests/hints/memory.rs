//! The conformance suite of hints in memory.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod conformance;

use conformance::Bench;
use tidemill_store::hints::{Hints, MemoryHints};

impl Bench for MemoryHints {
    fn new() -> Self {
        MemoryHints::new()
    }

    fn hints(&self) -> &dyn Hints {
        self
    }

    fn flush(&self) {
        MemoryHints::flush(self);
    }
}

conformance::suite!(MemoryHints);
