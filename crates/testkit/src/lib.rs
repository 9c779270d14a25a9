//! A whole cluster in one thread: the real owners and workers on a virtual clock, a simulated log that fails
//! in every way that a real one may, and processes that are only numbers. One seed decides all of it.
//!
//! ```text
//!  requests ─► commands ─► Owner ─► journal ─► truth (a second fold, and what the workload knows)
//!                ▲          │
//!                └─ Worker ◄┘ work          faults strike every arrow and every box
//! ```
//! Where to start reading: [`run()`], one history from seed to verdict; `world`, its queue; `host`, the log as an
//! owner sees it; `working`, workers and shims; `client_requests`, the workload; `clients`, who pull; `plan`, what goes wrong and when.
//!
//! What is deliberately absent: threads, sockets, disks and real time; those are what the other tests are for. Apart from all
//! of it stands [`power_cut`], which has a real disk's log and takes from it what a power cut may.

mod client_requests;
mod clients;
mod cluster;
mod coverage;
mod elsewhere;
mod excess;
mod faulty;
mod happening;
mod host;
mod known;
mod known_directory;
mod known_pulls;
mod log_fault;
mod on_record;
mod oracle;
mod outside;
mod plan;
#[cfg(any(test, feature = "planted"))]
pub mod planted;
pub mod power_cut;
mod pulls;
mod registered;
mod reruns;
mod restored;
mod rng;
mod run;
mod snapshots;
mod working;
mod world;

use rng::Rng;
use world::World;

pub use coverage::{Counted, Coverage, Stats};
pub use plan::{Fault, Mask, Mode};
pub use run::{Report, journals, run, run_in, shrink};
