//! Which batch runs next, and where.

pub(in crate::group) mod freeze;
pub(in crate::group) mod place;
pub(in crate::group) mod pools;
pub(in crate::group) mod queue;
pub(in crate::group) mod ready;
pub(in crate::group) mod turns;
pub(in crate::group) mod unplaced;
