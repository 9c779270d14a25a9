//! The conformance suite of hints in memory.

use super::conformance::Bench;
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

super::conformance::suite!(MemoryHints);
