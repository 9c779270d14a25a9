//! Logs of attempts: who has the log of one, and what is read of it (LOG-2, LOG-3).
//!
//! ```text
//!  call ─► AttemptLog ─┬─► Stores: the store that has the attempt's partition, then the other ones
//!                      └─► Workers: the worker that ran it, for lines by offset and whole logs
//!  tail ─► Tail ─► AttemptLog, attempt after attempt, until the batch has ended
//! ```
//! The interface, which knows the rights of who asks, writes a ticket for each question to a store. Stores are looked for while
//! somebody reads, and not else.

mod attempt;
mod event_id;
mod tail;

pub(crate) use attempt::{AttemptLog, read_batch};
pub(crate) use event_id::EventId;
pub(crate) use tail::{Tail, TailFrom};
