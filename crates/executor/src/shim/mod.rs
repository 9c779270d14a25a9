//! The shim: one small process per attempt that owns the job's processes.
//!
//! It has one thread, no runtime, and keeps no output in memory: the job writes to the files itself. It ends
//! when no process of the attempt is left, and has then written down how it went. Start reading at
//! [`shim_main`], then [`watch`](self::watch).
//!
//! It never starts what was started before, and never ends while a descendant lives.

mod exec;
mod order;
mod tree;
mod watch;

use std::io;
use std::path::Path;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub(crate) use order::Order;
pub use order::{KilledBecause, Lease};
pub(crate) use tree::signal_by_token;

use crate::attempt_dir::{AttemptDir, ExitRecord};

/// The attempt has ended, and `exit.json` says how.
const ENDED: i32 = 0;
/// Something is wrong with the directory; nothing was started.
const FAILED: i32 = 1;
/// The attempt was started before, or never may be; nothing was started.
const STARTED_BEFORE: i32 = 3;

/// What the shim says on its standard output once the job runs.
pub(crate) const STARTED: u8 = b's';

/// Runs the attempt whose directory this is, to its end; `tidemill shim DIR` is this call and nothing else.
/// Gives the exit code for the process. Standard input is the pipe from the worker.
pub fn shim_main(dir: &Path) -> i32 {
    match run(&AttemptDir::new(dir)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidemill shim: {}: {error}", dir.display());
            FAILED
        }
    }
}

fn run(dir: &AttemptDir) -> io::Result<i32> {
    // Fails only for one that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let signals = signals()?;
    let spec = dir.spec()?;
    let Some(_lock) = dir.try_lock()? else { return Ok(STARTED_BEFORE) };
    if !dir.mark_started()? {
        return Ok(STARTED_BEFORE);
    }
    let begun = Instant::now();
    let mut record = match exec::start(dir, &spec) {
        Ok(main) => {
            // The worker may be gone; then the watch finds out.
            let _ = rustix::io::write(rustix::stdio::stdout(), &[STARTED]);
            watch::until_empty(main, &spec, &signals)?
        }
        Err(error) => ExitRecord { error: Some(error), ..ExitRecord::default() },
    };
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = [used.user_time(), used.system_time()].map(|time| time.tv_sec() * 1000 + time.tv_usec() / 1000);
    record.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    record.cpu_ms = u64::try_from(cpu.iter().sum::<i64>()).unwrap_or(0);
    record.peak_memory_kib = u64::try_from(used.max_rss()).unwrap_or(0);
    dir.write_exit_record(&record)?;
    Ok(ENDED)
}

/// Signals arrive as something to read, so that none interrupts anything.
fn signals() -> io::Result<SignalFd> {
    let watched = [NixSignal::SIGCHLD, NixSignal::SIGTERM, NixSignal::SIGINT, NixSignal::SIGHUP];
    let set: SigSet = watched.into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}
