//! Which level this process reads (rule 13).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tidemill_model::Level;

static READS: AtomicU32 = AtomicU32::new(Level::READS.number());
static MET: OnceLock<String> = OnceLock::new();

/// The highest level that this process reads.
#[must_use]
pub fn reads() -> Level {
    Level::new(READS.load(Ordering::Relaxed))
}

/// From now on every journal that is opened is read up to this level. Called once, at the start of the process.
pub fn read_up_to(level: Level) {
    READS.store(level.number(), Ordering::Relaxed);
}

/// What the first reader of this process said that met a level which it does not read.
#[must_use]
pub fn met_too_new() -> Option<&'static str> {
    MET.get().map(String::as_str)
}

pub(crate) fn meets(error: &crate::Error) {
    let _ = MET.set(error.to_string());
}
