//! Unfinished batches, and what ends them.

pub(in crate::group) mod apply;
pub(in crate::group) mod attempts;
pub(in crate::group) mod batch;
pub(in crate::group) mod big_task;
pub(in crate::group) mod cancel;
pub(in crate::group) mod ended;
pub(in crate::group) mod finish;
pub(in crate::group) mod mark;
pub(in crate::group) mod retry;
pub(in crate::group) mod timeouts;
pub(in crate::group) mod user_code;
pub(in crate::group) mod values;
