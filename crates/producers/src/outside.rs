//! What connects the roles of this crate to the rest.

use std::sync::Arc;

use tidemill_cluster::{AskOwner, GroupShards, Submitter};
use tidemill_log::Log;
use tidemill_seal::OwnersSecret;

/// What connects a role to the rest.
#[derive(Clone)]
pub struct Outside {
    /// The log, for the division of work.
    pub log: Arc<dyn Log>,
    /// For commands.
    pub submitter: Submitter,
    /// What owners know this cluster's own processes by.
    pub secret: OwnersSecret,
    /// For what is waited for.
    pub ask: AskOwner,
    /// Whom to ask.
    pub shards: GroupShards,
    /// Names this process among its peers, and in what it says.
    pub instance: Arc<str>,
}
