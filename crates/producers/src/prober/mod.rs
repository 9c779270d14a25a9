//! The role that looks for the paths that batches wait for.
//!
//! ```text
//!  owners ──── what is waited for ────► Role ────── questions ──────► probe ──► name nodes, mounts, buckets
//!    ▲                                 (pure)                           │
//!    └─── commands naming generations ───┴───────────── answers ────────┘
//! ```
//!
//! A [`Role`] knows what every shard waits for, asks each distinct path once for all of them, in the rhythm of
//! [`Schedule`](tidemill_probe::Schedule), and tells each shard what is there, naming the generation that it
//! waited for *when the path was asked*: an answer to an older question never counts. Several probers divide
//! the paths by [`Question::share`](tidemill_probe::Question::share) over the partitions that the log suggests
//! to each, so a path is asked by one of them, and a prober that is gone leaves its part to the others.
//!
//! What it must never do: decide what an answer means, keep anything that must survive it, or wait for one
//! authority while another could be asked. [`Role`] is without clock and I/O; [`Prober`] is the loop around it.

mod config;
mod health;
mod outputs;
mod role;
mod run;
mod status;
mod waiting;

pub use config::Config;
pub use health::Health;
pub use outputs::LostOutput;
pub use role::{Answered, Input, Output, Role, Turn};
pub use run::{Prober, start};
pub use waiting::{Finding, Wanted};
