//! What the shard knows of its jobs: definitions, what became of their logical times, names, calendars.

pub(in crate::group) mod account;
pub(in crate::group) mod calendars;
pub(in crate::group) mod evicted;
pub(in crate::group) mod fired;
pub(in crate::group) mod former;
pub(in crate::group) mod history;
pub(in crate::group) mod job;
pub(in crate::group) mod kept_texts;
pub(in crate::group) mod moves;
pub(in crate::group) mod replicated;
pub(in crate::group) mod skipped;
pub(in crate::group) mod submissions;
pub(in crate::group) mod times;
