//! Journal in; read tables and public feed out.
//!
//! Everything here is derived: the tables and the feed may be dropped and come back equal. Nothing here
//! decides anything, reads a clock into a row, or skips a fact it does not understand: such a fact stops the
//! partition with a named error.
//!
//! Where to start reading:
//! - [`Fold`]: facts to changed rows, pure. [`run`]: one thread per partition that drives it.
//! - [`Progress`]: how far the tables are, for reads that have to see an earlier write.
//! - [`cloud_event`]: a fact as the world sees it. [`publish`]: the journal to the topic of the feed.
//!   [`FeedReader`]: the same feed, straight from the journal, with a [`FeedCursor`].
//! - [`keep_hints`]: marks for those who pull, where hints are.
//! - [`Journal`]: what counts of a journal, from a position; for everybody who folds it.
//! - [`rebuild`] and [`verify`]: make the tables anew beside the old ones; compare them with the journal.
//! - [`purge`]: what is old leaves the tables.
//! - [`keep`]: what an outage ends is begun anew; for everybody who follows a journal.
//! - [`schemas`]: JSON Schema of events and commands, AsyncAPI of the topics.
//!
//! ```text
//!  journal p ─► chain ─► fold ─► rows + position, one transaction ─► Progress
//!                    └─► CloudEvents ─► topic events, or a stream
//! ```

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod clock;
mod error;
mod event;
mod feed;
mod fold;
mod hints;
mod journal;
mod progress;
mod projection;
mod publish;
mod purge;
mod rebuild;
mod retry;
mod run;
pub mod schemas;
mod shutdown;
mod verify;

pub use clock::now;
pub use error::Error;
pub use event::{CloudEvent, cloud_event};
pub use feed::{FeedCursor, FeedReader};
pub use fold::Fold;
pub use hints::keep_hints;
pub use journal::{Entry, Journal, Start};
pub use progress::{PartitionProgress, Progress, wait_in_tables};
pub use publish::{PublishConfig, publish};
pub use purge::purge;
pub use rebuild::{RebuildProgress, rebuild};
pub use retry::{Session, keep};
pub use run::{Config, run};
pub use shutdown::Shutdown;
pub use verify::{Difference, Report, Stand, Unreadable, VerifyConfig, verify, verify_hints, verify_within};
