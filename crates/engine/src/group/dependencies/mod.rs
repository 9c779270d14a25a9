//! What batches wait for inside the cluster: logical times of parents, here and in other groups.

pub(in crate::group) mod blocked;
pub(in crate::group) mod counted;
pub(in crate::group) mod deleted_parents;
pub(in crate::group) mod failure;
pub(in crate::group) mod followers;
pub(in crate::group) mod foreign;
pub(in crate::group) mod waiters;
pub(in crate::group) mod waive;
