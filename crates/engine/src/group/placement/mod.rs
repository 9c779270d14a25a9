//! Which batch runs next, and where.

pub(in crate::group) mod freeze;
pub(in crate::group) mod place;
pub(in crate::group) mod pools;
pub(in crate::group) mod queue;
pub(in crate::group) mod ready;
pub(in crate::group) mod turns;
pub(in crate::group) mod unplaced;

use tidemill_derive::Stored;
use tidemill_model::JobDefinition;

use self::freeze::{Early, FreezeSet};
use self::pools::Pools;
use self::queue::{Queue, ReadyKey};

/// What is ready, and what keeps it from workers that have room.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Placement {
    queue: Queue,
    /// What batches of several jobs share.
    pools: Pools,
    frozen: FreezeSet,
    early: Early,
}

impl Placement {
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    pub(crate) fn pools_mut(&mut self) -> &mut Pools {
        &mut self.pools
    }

    /// Whether the batch that was assigned stood in the queue.
    pub(crate) fn start(&mut self, definition: &JobDefinition, key: ReadyKey) -> bool {
        self.queue.start(definition, key)
    }
}
