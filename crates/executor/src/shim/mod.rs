//! The shim: one small process per attempt that owns the job's processes.
//!
//! It has no runtime, and one thread beside its own where its job prints for longer than a moment ([`output`](self::output)).
//! It outlives its worker ([`line`](self::line)). It ends
//! when no process of the attempt is left, and has then written down how it went. A shim is not executed but
//! forked, by a server that the worker starts once. Start reading at [`shim_main`], then
//! [`server`](self::server), [`attempt`](self::attempt) and [`watch`](self::watch).
//!
//! It never starts what was started before, and never ends while a descendant lives.

mod account;
mod attempt;
#[cfg(test)]
mod corpus;
mod elsewhere;
mod fork;
mod line;
mod order;
mod output;
mod server;
mod stuck;
mod tree;
mod watch;

use std::ffi::CStr;
use std::path::Path;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::stderr;

pub(crate) use order::Order;
pub use order::{KillCause, Lease, Located, News};
pub(crate) use output::check_secrets;
pub(crate) use stuck::Stuck;
pub(crate) use tree::{kill_listed, marked_below_shims, signal_by_environment};

/// The name of their processes.
const SHIM: &CStr = c"tidemill-shim";

/// What a shim says by its exit code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    /// The attempt has ended, and `exit.json` says how.
    Ended = 0,
    /// It could not do its part; processes may be left.
    Failed = 1,
    /// The attempt was started before, or never may be; nothing was started.
    StartedBefore = 3,
}

/// Serves shims for the attempts in this directory, until the worker is gone and no shim is left;
/// `tidemill shim DIR` is this call and nothing else. Gives the exit code for the process, which must not
/// have a second thread. Standard input is the socket from the worker: each message is a token as text,
/// with a stream socket to the shim that runs it. Over that one the worker says what to run (one line, a
/// [`ShimSpec`](crate::ShimSpec)) and then its orders, and hears [`News`].
pub fn shim_main(dir: &Path) -> i32 {
    // Its sockets are the worker's word, and a job may be of its account.
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    debug_assert!(hidden.is_ok(), "the value is known to the kernel");
    // The worker starts it by a link, whose name would be that of the process.
    let named = nix::sys::prctl::set_name(SHIM);
    debug_assert!(named.is_ok(), "the name is short");
    match server::close_inherited().and_then(|()| server::serve(dir)) {
        Ok(()) => 0,
        Err(error) => {
            stderr::say(format_args!("tidemill shim: {}: {error}", dir.display()));
            1
        }
    }
}
