//! What looks outside for the owners, and tells them by commands: paths that batches wait for, the quality service, the
//! topic of third parties.
//!
//! ```text
//!  owners ── what is waited for ──► a role ── asks ──► name nodes, mounts, buckets, the quality service, a topic
//!    ▲                                │
//!    └─────────── commands ───────────┴─ answers ◄──────────────────────┘
//! ```
//! Each role divides its work among its processes as the log suggests, and keeps nothing that must survive it: what it had
//! begun is asked for again by the owners.
//!
//! What it must never do: decide what an answer means, or wait without a bound.
//!
//! Where to start reading: [`prober`], [`quality`], [`third_party`]; [`Outside`] is what all of them stand on.

mod error;
mod outside;
pub mod prober;
pub mod quality;
mod stepping;
pub mod third_party;

pub use error::Error;
pub use outside::Outside;
pub use stepping::Running;
pub use tidemill_cluster::Parts;
