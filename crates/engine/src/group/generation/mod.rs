//! How batches come to be: by schedule, after parents, by hand, by submission, by a plan.

pub(in crate::group) mod by_hand;
pub(in crate::group) mod failing;
pub(in crate::group) mod generate;
pub(in crate::group) mod generated;
pub(in crate::group) mod grids;
pub(in crate::group) mod reruns;

use std::collections::VecDeque;

use self::failing::Tick;
use self::generated::Trigger;
use self::grids::Grids;
use tidemill_derive::Stored;

/// What is still to be generated, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Generation {
    /// Generated batches whose dependency-triggered children are still to be generated, in the order in which they came.
    triggers: VecDeque<Trigger>,
    /// Jobs whose fires failed lately.
    failing: Tick,
    #[stored(skip)]
    pub(in crate::group) grids: Grids,
}

impl Generation {
    pub(crate) fn has_triggers(&self) -> bool {
        !self.triggers.is_empty()
    }
}
