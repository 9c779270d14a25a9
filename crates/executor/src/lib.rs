//! The executor of Tidemill: it runs what an owner grants, and tells how it went.
//!
//! Two programs. The *worker* speaks with the owner of its group's shard over the log. The other is a server
//! that the worker starts once, and that forks one *shim* per attempt. The shim owns the job's processes: it is
//! small, and ends only when none of them is left. When the worker dies, the shim and the job go on, and the worker's next
//! life takes them over; when it is stopped, or loses its lease, the
//! shim ends the job.
//!
//! Where to start reading:
//! - [`Worker::step`]: the protocol, as a pure state machine.
//! - [`shim_main`]: the shim.
//! - [`run`]: the loop around the state machine, with the threads that do what it wants.
//! - [`Config`]: everything that can be set.
//!
//! What it must never do: start a token twice, start without a grant for its own nonce, or say that an
//! attempt has ended while a process of it lives.
//!
//! What is deliberately absent: retries, slots, drain and order, which the owner decides; limits of memory
//! and processors.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod accounts;
mod attempt_dir;
mod config;
mod data_dir;
mod disk;
mod environment;
mod error;
mod external_work;
mod limits;
mod link;
mod logs;
mod look;
mod machine;
mod plain_file;
mod processes;
mod run;
mod shim;
mod stderr;
mod sweep;
mod thread;
mod type_check;
mod types;
mod values;
mod worker;

pub use attempt_dir::{
    AttemptDir, EarlierWork, ExitRecord, ExternalRecord, OutputCount, ShimExternal, ShimSpec,
};
pub use config::{Config, Required};
pub use environment::JOB_VARIABLES;
pub use error::Error;
pub use external_work::{ExternalState, ExternalSuccess, ExternalWorkConfig};
pub use limits::{Place, ShimLimits, Tree, Version};
pub use machine::jobs_can_outlive_their_worker;
pub use processes::Shims;
pub use run::run;
pub use shim::{KillCause, Lease, Located, News, shim_main};
pub use types::TypeConfig;
pub use worker::{Input, Looked, Output, ProcessEnd, Setup, Tag, Worker};
