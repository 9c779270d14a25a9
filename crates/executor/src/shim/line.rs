//! The shim's line to its worker, and to the worker that comes after it.
//!
//! ```text
//! worker ─── the socket that it gave ──────► shim
//!   ✕ killed, restarted, another version       │ listens on DIR/control, which only its account may use
//! next worker ── finds DIR locked, connects ──►│ says that the job runs, hears orders as before
//! ```
//! It listens when that is needed, so a start costs nothing more. Until somebody comes, lease and limit hold as
//! before. A thread makes the socket, since the disk may hang, and what keeps the deadlines must not wait for it.
//! A control socket that cannot be made is tried again. A shim whose directory is gone, or elsewhere, can never be found, and ends its
//! job.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

use nix::sys::signal::Signal as NixSignal;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::net::SendFlags;

use super::News;
use crate::attempt_dir::{AttemptDir, ExitRecord, control_in};
use crate::machine::boottime_ms;

/// Between two looks whether the control socket is where it was, milliseconds: a job of the worker's own account may have removed it.
const LOOK_MS: u64 = 5_000;
/// How long a look is waited for at first, milliseconds; then as long as it has taken already.
const WAIT_MS: std::ops::RangeInclusive<u64> = 5..=1_000;
const LOOK_SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Before how an attempt ended is written down again.
const WRITE_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

pub(super) struct Line<'a> {
    /// The attempt's directory, which the shim has locked.
    directory: &'a File,
    /// Where it was when the shim began.
    path: &'a Path,
    worker: Option<UnixStream>,
    control: Option<Control>,
    look: Option<Look>,
    look_at_ms: u64,
    /// Nobody is let in before the next look.
    is_deaf: bool,
}

struct Control {
    listener: UnixListener,
    /// The number of its file.
    inode: u64,
}

/// What a thread does for the control socket, and since when.
struct Look {
    found: Receiver<Found>,
    begun_at_ms: u64,
}

enum Found {
    /// It is where it was.
    There,
    Made(Control),
    NotMade {
        is_lost: bool,
    },
}

impl Look {
    fn begin(line: &Line<'_>, begun_at_ms: u64) -> io::Result<Self> {
        let (directory, path) = (line.directory.try_clone()?, line.path.to_owned());
        let inode = line.control.as_ref().map(|control| control.inode);
        let (tell, found) = sync_channel(1);
        // Who does not wait for it any more is ending.
        let look = move || drop(tell.send(find(&directory, &path, inode)));
        Builder::new().name("control".to_owned()).spawn(look)?;
        Ok(Self { found, begun_at_ms })
    }
}

/// Sees to it that the socket is there.
fn find(directory: &File, attempt: &Path, inode: Option<u64>) -> Found {
    if is_elsewhere(directory, attempt) {
        return Found::NotMade { is_lost: true };
    }
    let path = control_in(directory);
    let is_there = |inode| fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == inode);
    if inode.is_some_and(is_there) {
        return Found::There;
    }
    match Control::open(&path) {
        Ok(control) => Found::Made(control),
        Err(_) => Found::NotMade { is_lost: directory.metadata().is_ok_and(|found| found.nlink() == 0) },
    }
}

/// Whether the attempt's directory is somewhere by now where no worker looks. Where everything above it was moved, a worker may look
/// there.
fn is_elsewhere(directory: &File, attempt: &Path) -> bool {
    let Ok(own) = directory.metadata() else { return false };
    if fs::metadata(attempt).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
        return false;
    }
    let names = |path: &Path| {
        [path.file_name(), path.parent().and_then(Path::file_name)].map(|name| name.map(OsStr::to_owned))
    };
    let place = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    place.is_ok_and(|place| names(&place) != names(attempt))
}

impl Control {
    fn open(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // Its mode follows from the mask of the shim.
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let inode = fs::symlink_metadata(path)?.ino();
        Ok(Self { listener, inode })
    }
}

impl<'a> Line<'a> {
    pub(super) fn new(directory: &'a File, path: &'a Path, worker: UnixStream) -> Self {
        let worker = Some(worker);
        Self { directory, path, worker, control: None, look: None, look_at_ms: 0, is_deaf: false }
    }

    /// What is to be waited for: the next order, or the next worker.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let control =
            || self.control.as_ref().filter(|_| !self.is_deaf).map(|control| control.listener.as_fd());
        self.worker.as_ref().map(|worker| worker.as_fd()).or_else(control)
    }

    /// Reads orders, or lets a worker in. Says whether a worker has come, or has gone.
    pub(super) fn hear(&mut self, orders: &mut Vec<u8>) -> Heard {
        let Some(worker) = &self.worker else { return self.let_in() };
        let mut chunk = [0; 1024];
        match rustix::io::read(worker, &mut chunk) {
            Ok(0) => Heard::WorkerGone,
            Ok(count) => {
                orders.extend_from_slice(&chunk[..count]);
                Heard::Nothing
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::WorkerGone,
        }
    }

    fn let_in(&mut self) -> Heard {
        let Some(control) = &self.control else { return Heard::Nothing };
        match control.listener.accept() {
            Ok((worker, _)) => {
                let peer = rustix::net::sockopt::socket_peercred(&worker);
                if peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid()) {
                    self.worker = Some(worker);
                    return Heard::WorkerCame;
                }
            }
            // It went away again.
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) => {}
            // There is no room for its socket, which waits meanwhile.
            Err(_) => self.is_deaf = true,
        }
        Heard::Nothing
    }

    /// The worker is gone.
    pub(super) fn lose_worker(&mut self) {
        self.worker = None;
        self.look_at_ms = 0;
    }

    /// While there is no worker: sees to it that the next one finds the shim. `false`: it never will, for the directory is gone.
    pub(super) fn see_to_control(&mut self, now_ms: u64) -> bool {
        if self.worker.is_some() || now_ms < self.look_at_ms {
            return true;
        }
        let Some(look) = &self.look else {
            self.is_deaf = false;
            self.look = Look::begin(self, now_ms).ok();
            // Where there is no room for a thread, there may be some later.
            self.look_at_ms = now_ms.saturating_add(self.look.as_ref().map_or(LOOK_MS, |_| *WAIT_MS.start()));
            return true;
        };
        let found = look.found.try_recv();
        if found.as_ref().err() == Some(&TryRecvError::Empty) {
            let waited_ms = now_ms.saturating_sub(look.begun_at_ms);
            self.look_at_ms = now_ms.saturating_add(waited_ms.clamp(*WAIT_MS.start(), *WAIT_MS.end()));
            return true;
        }
        self.look = None;
        self.look_at_ms = now_ms.saturating_add(LOOK_MS);
        match found.unwrap_or(Found::NotMade { is_lost: false }) {
            Found::There => true,
            Found::Made(control) => {
                self.control = Some(control);
                true
            }
            Found::NotMade { is_lost } => {
                self.control = None;
                !is_lost
            }
        }
    }

    /// When to see to the control socket again.
    pub(super) fn look_at_ms(&self) -> Option<u64> {
        self.worker.is_none().then_some(self.look_at_ms)
    }

    /// Writes down how the attempt ended. Where that cannot be done, a worker that lives still hears it; one that is gone is
    /// waited for, and the writing is tried again meanwhile, until the shim itself is told to end.
    pub(super) fn write_down(
        &mut self,
        dir: &AttemptDir,
        record: &ExitRecord,
        signals: &SignalFd,
    ) -> io::Result<()> {
        loop {
            let written = dir.write_exit_record(record);
            if written.is_ok() || self.has_worker() || !self.see_to_control(boottime_ms()) {
                return written;
            }
            while let Some(signal) = signals.read_signal()? {
                if signal.ssi_signo != NixSignal::SIGCHLD as u32 {
                    return written;
                }
            }
            let mut fds: Vec<_> = self
                .source()
                .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN))
                .into_iter()
                .collect();
            poll(&mut fds, Some(if self.look.is_some() { &LOOK_SOON } else { &WRITE_AGAIN }))?;
            let heard = fds.iter().any(|fd| !fd.revents().is_empty());
            drop(fds);
            if heard {
                self.let_in();
            }
        }
    }

    /// Whether a worker hears. That it is gone is only noticed where it is read from.
    fn has_worker(&mut self) -> bool {
        let Some(worker) = &self.worker else { return false };
        let mut fds = [PollFd::new(worker, PollFlags::empty())];
        // What is hung up is told without being asked for.
        if poll(&mut fds, Some(&NO_WAIT)).is_ok() && fds[0].revents().contains(PollFlags::HUP) {
            self.lose_worker();
        }
        self.worker.is_some()
    }

    /// The worker may be gone; then the watch finds out. One that is stopped has room for the few lines there are.
    pub(super) fn tell(&self, news: &News) {
        if let Some(worker) = &self.worker {
            let _ = rustix::net::send(worker, &news.to_line(), SendFlags::NOSIGNAL);
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.control.is_some() || self.look.is_some() {
            let _ = fs::remove_file(control_in(self.directory));
        }
    }
}

/// What became of the line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    WorkerGone,
    WorkerCame,
}
