//! Journal in; read tables and public feed out.
//!
//! Everything here is derived: the tables and the feed may be dropped and come back equal. Nothing here
//! decides anything, reads a clock into a row, or skips a fact it does not understand: such a fact stops the
//! partition with a named error.
//!
//! Where to start reading:
//! - [`Fold`]: facts to changed rows, pure. [`run`]: one thread per partition that drives it.
//! - [`publish`]: the journal to the topic of the feed.
//! - [`keep_hints`]: marks for those who pull, where hints are.
//! - [`rebuild`], [`rebuild_since`] and [`verify`]: make the tables anew beside the old ones; compare them with the
//!   journal. [`plan_rebuild`] says what a rebuild would do.
//! - [`purge`]: what is old leaves the tables.
//! - [`schemas`]: JSON Schema of events and commands, AsyncAPI of the topics.
//!
//! ```text
//!  tidemill_journal::Journal ─► fold ─► rows + position, one transaction ─► Progress
//!                           └─► CloudEvents ─► topic events
//! ```

#[cfg(feature = "planted")]
#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod error;
mod fold;
mod hints;
mod projection;
mod publish;
mod purge;
mod rebuild;
mod retire;
mod run;
pub mod schemas;
mod verify;

pub use error::Error;
pub use fold::Fold;
pub use hints::keep_hints;
pub use publish::{PublishConfig, publish};
pub use purge::{purge, purge_audit};
pub use rebuild::plan::{
    Compared, Plan, PlanRequest, PlannedDifference, PlannedPartition, PlannedTable, plan_rebuild,
};
pub use rebuild::{RebuildProgress, Rebuilt, Since, rebuild, rebuild_since};
pub use run::{Config, run};
pub use verify::{Difference, Report, Stand, Unreadable, VerifyConfig, verify, verify_hints, verify_within};
