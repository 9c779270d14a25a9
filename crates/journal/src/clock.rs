//! The wall clock, for what is said of this moment: whoever shows or passes on what was decided reads it here. Nothing in a row
//! comes from it, and nothing is decided by it.

use tidemill_model::Timestamp;

/// This moment, as this machine's clock has it.
#[must_use]
pub fn now() -> Timestamp {
    jiff::Timestamp::now().into()
}
