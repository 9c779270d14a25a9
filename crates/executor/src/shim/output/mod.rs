//! The job's output: two pipes, whose readers outlive the worker, and never wait for the disk with the deadlines.
//!
//! ```text
//! job ── stdout ──► pipe ──┐                      ┌──► DIR/stdout
//!     ── stderr ──► pipe ──┴─ the copying thread ─┴──► DIR/stderr, DIR/times
//!                        ▲    (hides secrets)
//!                        └ the shim's own thread reads where that one cannot, and drops what it reads
//! ```
//! The thread begins when a job that has written something still runs a moment later: what a short one has written stays in
//! the pipe until its end, and costs no thread. A log that cannot be written, or that is too long, has a line that says what is
//! missing ([`gap`]). Start reading at [`Output`], then [`copier`] and [`log`].
//!
//! The reading never stops while somebody of the job can write: nobody waits for a full pipe longer than one write may take.

mod copier;
mod gap;
mod log;
mod mask;
mod pipe;
#[cfg(test)]
mod tests;
mod times;

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::process::setpriority_process;

use self::copier::{Copier, Shared};
use self::gap::Cause;
pub(super) use self::gap::MARK as GAP_MARK;
use self::log::{Log, Place};
use self::mask::Mask;
pub(super) use self::mask::Secrets;
pub(crate) use self::mask::check as check_secrets;
use self::pipe::Stream;
use self::times::Times;
use crate::attempt_dir::{AttemptDir, OutputCount};

/// How long bytes wait in the pipe before a thread is started for them, milliseconds.
const HOLD_MS: u64 = 5;
/// How long one write may take before what comes meanwhile is dropped, milliseconds.
const WRITE_MAX_MS: u64 = 10_000;
/// Between two looks at a thread that copies, milliseconds.
const LOOK_MS: u64 = 5_000;
/// Between two rounds of dropping, milliseconds.
const DROP_MS: u64 = 20;
/// How long the thread may take to copy the rest once the job has ended.
const END_MAX: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 128 << 10;

pub(super) struct Output {
    shared: Arc<Shared>,
    /// The job's ends. They stay open here: a pipe without a writer is ready to be read all the time, and would wake the shim
    /// again and again.
    writers: [OwnedFd; 2],
    state: State,
    /// Of the thread that copies, where it is not the shim's own.
    priority: Option<i32>,
}

enum State {
    /// Nothing has come; or something has, and a thread is due at this time, on CLOCK_BOOTTIME.
    Held {
        copier: Arc<Mutex<Copier>>,
        start_at_ms: Option<u64>,
    },
    Copying(Copying),
}

/// The thread that copies.
struct Copying {
    stop: Arc<OwnedFd>,
    /// Says that all is copied.
    ended: Receiver<()>,
    look_at_ms: u64,
}

impl Output {
    /// Of an attempt whose marker was just made: it is the log of stdout.
    pub(super) fn open(
        dir: &AttemptDir,
        marker: File,
        max_bytes: Option<u64>,
        secrets: Option<Arc<Secrets>>,
    ) -> io::Result<Self> {
        let logs = [Place::Open(marker), Place::Path(dir.stderr())].map(|place| Log::new(place, max_bytes));
        let masks = [secrets.clone(), secrets].map(Mask::new);
        let [(stdout, to_stdout), (stderr, to_stderr)] = [Stream::open()?, Stream::open()?];
        let shared = Arc::new(Shared::new([stdout, stderr]));
        let copier =
            Arc::new(Mutex::new(Copier::new(Arc::clone(&shared), (logs, masks), Times::new(dir.times()))));
        let state = State::Held { copier, start_at_ms: None };
        Ok(Self { shared, writers: [to_stdout, to_stderr], state, priority: None })
    }

    /// The thread that copies comes no sooner for the processor than this says: its job may print as fast as it can.
    pub(super) fn copy_at(&mut self, priority: i32) {
        self.priority = Some(priority);
    }

    /// What the job writes to: stdout, stderr.
    pub(super) fn writers(&self) -> [&OwnedFd; 2] {
        self.writers.each_ref()
    }

    /// What is to be waited for until there is something to read.
    pub(super) fn sources(&self) -> Option<[&OwnedFd; 2]> {
        let is_quiet = matches!(self.state, State::Held { start_at_ms: None, .. });
        is_quiet.then(|| self.shared.streams.each_ref().map(|stream| &stream.pipe))
    }

    /// There is something to read.
    pub(super) fn notice(&mut self, now_ms: u64) {
        if let State::Held { start_at_ms, .. } = &mut self.state {
            start_at_ms.get_or_insert(now_ms.saturating_add(HOLD_MS));
        }
    }

    /// Does what is due, and says when to look again.
    pub(super) fn act(&mut self, now_ms: u64) -> Option<u64> {
        match &mut self.state {
            State::Held { start_at_ms: None, .. } => None,
            State::Held { start_at_ms: Some(at_ms), .. } if now_ms < *at_ms => Some(*at_ms),
            State::Held { copier, start_at_ms } => match start(copier, self.priority) {
                Ok((stop, ended)) => {
                    let look_at_ms = now_ms.saturating_add(LOOK_MS);
                    self.state = State::Copying(Copying { stop, ended, look_at_ms });
                    Some(look_at_ms)
                }
                Err(_) => {
                    let again_at_ms = now_ms.saturating_add(DROP_MS);
                    *start_at_ms = Some(again_at_ms);
                    self.discard(&Cause::NoThread);
                    Some(again_at_ms)
                }
            },
            State::Copying(copying) if now_ms < copying.look_at_ms => Some(copying.look_at_ms),
            State::Copying(copying) => {
                let has_ended = copying.ended.try_recv() != Err(TryRecvError::Empty);
                let is_stuck = self.shared.writing_for_ms() > WRITE_MAX_MS;
                let cause = match (has_ended, is_stuck) {
                    (true, _) => Some(Cause::NoThread),
                    (false, true) => Some(Cause::SlowWrite(WRITE_MAX_MS)),
                    (false, false) => None,
                };
                let look_at_ms = now_ms.saturating_add(if cause.is_some() { DROP_MS } else { LOOK_MS });
                copying.look_at_ms = look_at_ms;
                cause.iter().for_each(|cause| self.discard(cause));
                Some(look_at_ms)
            }
        }
    }

    /// What was read so far of each, and does not have to be in its log yet.
    pub(super) fn so_far(&self) -> [OutputCount; 2] {
        self.shared.streams.each_ref().map(|stream| stream.count(0))
    }

    fn discard(&self, cause: &Cause) {
        self.shared.streams.iter().for_each(|stream| stream.discard(cause));
    }

    /// Copies what waits, where none of the job's processes is left, and says what is in the logs and what is not. A log that
    /// takes nothing is waited for within a bound.
    pub(super) fn finish(self) -> [OutputCount; 2] {
        let is_whole = match self.state {
            State::Held { start_at_ms: None, .. }
                if self.shared.streams.iter().all(|stream| stream.waiting() == 0) =>
            {
                return Default::default();
            }
            // Where the job has ended, nothing is left to be kept in time.
            State::Held { copier, .. } => {
                copier.lock().unwrap_or_else(PoisonError::into_inner).finish();
                true
            }
            State::Copying(copying) => {
                // There is room for one number.
                let _ = rustix::io::write(&*copying.stop, &1_u64.to_ne_bytes());
                // One that does not end in time waits for the disk.
                copying.ended.recv_timeout(END_MAX).is_ok()
            }
        };
        // What comes after all was copied is not of the job.
        self.shared.streams.each_ref().map(|stream| stream.count(if is_whole { 0 } else { stream.waiting() }))
    }
}

/// Starts the thread. What it needs stays where it is if that fails.
fn start(copier: &Arc<Mutex<Copier>>, priority: Option<i32>) -> io::Result<(Arc<OwnedFd>, Receiver<()>)> {
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let (has_ended, ended): (SyncSender<()>, _) = sync_channel(1);
    let (copier, stopped) = (Arc::clone(copier), Arc::clone(&stop));
    let copy = move || {
        // Of this thread alone.
        priority.map(|priority| setpriority_process(None, priority));
        let mut copier = copier.lock().unwrap_or_else(PoisonError::into_inner);
        copier.copy_until(&stopped);
        copier.finish();
        // Nobody waits for it where the shim's own thread has given it up.
        let _ = has_ended.send(());
    };
    Builder::new().name("output".to_owned()).stack_size(STACK_BYTES).spawn(copy)?;
    Ok((stop, ended))
}
