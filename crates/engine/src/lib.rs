//! The rules of Tidemill: what follows from a command, and what the facts add up to.
//!
//! ```text
//!            decide(&State, Command)            apply(&mut State, Event)
//! command ─────────────────────────► events ─────────────────────────────► state
//! timer   ────► due(&State, now) ──►                                         │
//!                                             outstanding(&State) ──► effects ▼
//! ```
//!
//! *Invariant:* nothing here reads a clock, draws a random number, does I/O, or depends on the order of a
//! hash table. The same journal gives the same state on every machine, for ever.
//!
//! *Invariant:* [`Partition::apply`] cannot fail. What could be wrong was refused by `decide`, before it
//! became a fact.
//!
//! Start reading at [`Draft`], which turns commands and due timers into one envelope, then
//! [`Partition`], the fold; `group` holds the life of a batch, `catalogue` the definitions.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod answers;
mod catalogue;
mod decision;
mod draft;
mod effect;
mod fault_injection;
mod group;
mod outbox;
mod partition;
mod present;
mod rate;
mod restored;
mod schedule;
mod stored;
mod weight;

pub use catalogue::{Catalogue, check_jobs};
pub use decision::{Decision, Ruling};
pub use draft::{Draft, Drafted, MAX_DECISION_BYTES, MAX_ENVELOPE_BYTES};
pub use effect::{Effect, OutboxSender, effects};
pub use fault_injection::FaultInjection;
pub use group::{GroupShard, Heartbeats, LiveRight, LiveWorker, ReadHeartbeat, Sealing};
pub use partition::{Partition, Shard};
pub use restored::{HeldByWorker, check_one_moment};
pub use schedule::grid_from_spec;
#[doc(hidden)]
pub use schedule::{Preview, preview};
pub use stored::{Malformed, form};
pub use weight::of_event as weight_of;
