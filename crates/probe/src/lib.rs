//! Does this path exist? Asked of HDFS, of this host's file systems and of S3, for many paths at once.
//!
//! ```text
//!            Schedule                          Prober
//!  wanted ──► which are due? ──► questions ──► by authority ──► by directory ──► looks or a listing
//!             (pure: times are   ▲             (a lane each: in flight, rate,          │
//!              given to it)      │              timeout, circuit)                      │
//!                 ▲              └──────────────────────────────────────────────── answers
//! ```
//!
//! [`Prober::probe`] answers every question once, in bounded time: there, not there, failed or hung. Calls that
//! hang are abandoned and counted; an authority (a name node, a mount, a bucket) that fails or hangs is left
//! alone for a while, and never holds up another one. [`Schedule`] says when which path is asked again.
//!
//! What it must never do: decide what an answer means, remember one, write anywhere, or wait without a bound.
//! It knows no log and no engine; producers and executors use it alike. Start reading at [`Question`], then
//! [`Prober`] and [`Schedule`].

mod backend;
mod circuit;
mod config;
mod lane;
mod mounts;
mod pass;
mod path;
mod prober;
mod question;
#[cfg(feature = "s3")]
mod s3_client;
mod schedule;
mod statistics;

#[cfg(feature = "hdfs")]
pub use backend::HdfsBackend;
#[cfg(feature = "s3")]
pub use backend::S3Backend;
pub use backend::{Backend, BuiltIn, Fault, Found, LocalBackend, Opener, Page, Pages, Stat, Target};
pub use config::{Config, Hdfs, Limits, S3};
pub use path::{Authority, Kind, Path};
pub use prober::{Answers, Prober};
pub use question::{Answer, Failure, FailureKind, Mark, Outcome, Question};
#[cfg(feature = "s3")]
pub use s3_client::{S3Access, s3_client};
pub use schedule::{Event, Late, PollTimes, Schedule, Step, Urgency};
pub use statistics::{Counts, Latency, Statistics};
