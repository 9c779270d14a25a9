//! A whole cluster in one thread: the real owners and workers on a virtual clock, a simulated log that fails
//! in every way that a real one may, and processes that are only numbers. One seed decides all of it.
//!
//! ```text
//!  wishes ─► commands ─► Owner ─► journal ─► truth (a second fold, and what the workload knows)
//!                ▲          │
//!                └─ Worker ◄┘ work          faults strike every arrow and every box
//! ```
//! Where to start reading: [`run()`], one history from seed to verdict; `world`, its queue; `host`, the log as an
//! owner sees it; `working`, workers and shims; `wishes`, the workload; `clients`, who pull; `plan`, what goes wrong and when.
//!
//! What is deliberately absent: threads, sockets, disks and real time; those are what the other tests are for.

mod clients;
mod coverage;
mod faulty;
mod host;
mod known_pulls;
mod outside;
mod plan;
#[cfg(feature = "planted")]
pub mod planted;
mod pools;
mod pulls;
mod reruns;
mod rng;
mod ruin;
mod run;
mod site;
mod stats;
mod truth;
mod wishes;
mod working;
mod world;

pub use coverage::Coverage;
pub use plan::{Fault, Mask, Mode};
pub use run::{Report, run, run_in, shrink};
pub use stats::{Counted, Stats};
