//! How batches come to be: by schedule, after parents, by hand, by submission, by a plan.

pub(in crate::group) mod by_hand;
pub(in crate::group) mod failing;
pub(in crate::group) mod generate;
pub(in crate::group) mod generated;
pub(in crate::group) mod overlap;
pub(in crate::group) mod reruns;
pub(in crate::group) mod submit;
pub(in crate::group) mod triggers;
