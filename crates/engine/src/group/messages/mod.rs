//! What comes from other shards, and what goes to them.

pub(in crate::group) mod deliver;
pub(in crate::group) mod replication;
