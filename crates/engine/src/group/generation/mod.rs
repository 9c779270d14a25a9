//! How batches come to be: by schedule, after parents, by hand, by submission, by a plan.

pub(in crate::group) mod by_hand;
pub(in crate::group) mod failing;
pub(in crate::group) mod generate;
pub(in crate::group) mod generated;
pub(in crate::group) mod overlap;
pub(in crate::group) mod reruns;
pub(in crate::group) mod submit;
pub(in crate::group) mod triggers;

use self::failing::Tick;
use self::triggers::Triggers;

/// What is still to be generated, and what could not be.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Generation {
    /// Generated batches whose dependency-triggered children are still to be generated.
    triggers: Triggers,
    /// Jobs whose fires failed lately.
    failing: Tick,
}

impl Generation {
    /// Whether a child is to be generated.
    pub(crate) fn has_triggers(&self) -> bool {
        self.triggers.oldest().is_some()
    }
}
