//! One attempt, from its order to its end: what a forked shim does.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signalfd::SignalFd;

use super::{Code, KillCause, Lease, News, exec, watch};
use crate::attempt_dir::{AttemptDir, ExitRecord, ShimSpec};
use crate::clock::boottime_ms;
use crate::values;

/// Runs the attempt whose directory this is, to its end. The worker says first what to run.
pub(super) fn run(dir: &AttemptDir, worker: &UnixStream, signals: &SignalFd) -> io::Result<Code> {
    // Fails only for one that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (spec, orders) = hear_spec(worker)?;
    let Some(_lock) = dir.try_lock()? else { return Ok(Code::StartedBefore) };
    let Some(stdout) = dir.mark_started()? else { return Ok(Code::StartedBefore) };
    let begun = Instant::now();
    let mut record = if is_over(spec.lease) {
        // The machine or the server was stopped for a while: elsewhere it may run already.
        ExitRecord { kill_cause: Some(KillCause::Lease), ..ExitRecord::default() }
    } else {
        match exec::start(dir, &spec, &stdout) {
            Ok(main) => {
                tell(worker, &News::Started);
                watch::until_empty(main, &spec, watch::Ears { worker, signals }, orders)?
            }
            Err(error) => ExitRecord { error: Some(error), ..ExitRecord::default() },
        }
    };
    match values::read(&dir.values()) {
        Ok(values) => record.values = values,
        Err(fault) => record.values_fault = Some(fault),
    }
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = [used.user_time(), used.system_time()].map(|time| time.tv_sec() * 1000 + time.tv_usec() / 1000);
    record.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    record.cpu_ms = u64::try_from(cpu.iter().sum::<i64>()).unwrap_or(0);
    record.peak_memory_kib = u64::try_from(used.max_rss()).unwrap_or(0);
    // Where it cannot be written, the worker that lives still hears it.
    let written = dir.write_exit_record(&record);
    tell(worker, &News::Ended(record));
    written.map(|()| Code::Ended)
}

fn is_over(lease: Option<Lease>) -> bool {
    lease.is_some_and(|lease| lease.term_at_ms <= boottime_ms())
}

/// What to run, and what was said after it.
pub(super) fn hear_spec(worker: &UnixStream) -> io::Result<(ShimSpec, Vec<u8>)> {
    let mut reader = BufReader::new(worker);
    let mut line = Vec::new();
    reader.by_ref().read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::other("the worker was gone before it said what to run"));
    }
    let spec = serde_json::from_slice(&line)?;
    Ok((spec, reader.buffer().to_vec()))
}

/// The worker may be gone; then the watch finds out. One that is stopped has room for the two lines there are.
fn tell(worker: &UnixStream, news: &News) {
    let _ = rustix::net::send(worker, &news.to_line(), rustix::net::SendFlags::NOSIGNAL);
}
