//! Workers whose logs are fetched.

use std::sync::Arc;

use tidemill_model::{GroupName, ShardId};

/// A worker as the read tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Its id.
    pub worker: Arc<str>,
    /// The shard that it works for now.
    pub shard: ShardId,
    /// The shards that it has ever worked for, each with its group: an attempt is of the group of its own shard.
    pub groups: Vec<(ShardId, GroupName)>,
    /// Where it listens.
    pub address: Arc<str>,
    /// Whether it may be there.
    pub state: WorkerState,
}

/// Whether a worker may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// It is asked.
    There,
    /// It has stopped, and may come again with what it has.
    Left,
    /// Its host is given up: what it had not shipped is lost, unless it comes again.
    Gone,
}
