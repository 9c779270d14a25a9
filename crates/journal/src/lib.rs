//! Reading a journal, for everybody who follows one: the projector, the publisher, the sinks, the interface's streams.
//!
//! ```text
//!  journal p ─► reader ─► chain ─► Journal ─► accepted envelopes ─┬─► rows, task logs: whoever folds them
//!                           └ void records are passed over        └─► CloudEvents ─► FeedReader ─► streams
//! ```
//!
//! What it must never do: skip an accepted record that it does not understand, write anything, or know a table.
//!
//! Where to start reading:
//! - [`Journal`]: what counts of a journal, from a position that has to fit ([`Start`]).
//! - [`cloud_events`]: events as the world sees them. [`FeedReader`]: the public feed, with a [`FeedCursor`].
//! - [`Session`] and [`keep`]: work that an outage ends is begun anew. [`Keepers`]: a thread for each such session.
//! - [`Shutdown`]: how all of them are stopped. [`Progress`]: how far each partition is.
//! - [`now`]: the one wall clock of all who show or pass on what was decided.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod clock;
mod error;
pub mod event;
mod feed;
mod journal;
mod keepers;
mod progress;
mod reads;
mod session;
mod shutdown;

pub use clock::now;
pub use error::Error;
pub use event::{CloudEvent, cloud_events};
pub use feed::{FeedCursor, FeedReader};
pub use journal::{Entry, Journal, Read, Start};
pub use keepers::Keepers;
pub use progress::{PartitionProgress, Progress};
pub use reads::{met_too_new, read_up_to, reads};
pub use session::{Session, keep};
pub use shutdown::Shutdown;
pub use tidemill_model::causes;
