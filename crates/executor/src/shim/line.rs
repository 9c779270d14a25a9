//! The shim's line to its worker, and to the worker that comes after it.
//!
//! ```text
//! worker ─── the socket that it gave ───► shim
//!   ✕ killed, restarted, another version     │ opens a door: DIR/door, a socket that only its account may use
//! next worker ── finds DIR locked, knocks ──►│ says that the job runs, hears orders as before
//! ```
//! The door is opened when it is needed, so a start costs nothing more. Until somebody comes, lease and limit hold as
//! before. A shim whose door cannot be opened can never be found, and ends its job.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::Mode;
use rustix::net::SendFlags;
use rustix::process::umask;

use super::News;
use crate::attempt_dir::door_in;
use crate::plain_file::FILE_MODE;

/// Between two looks whether the door is where it was, milliseconds: a job of the worker's own account may have removed it.
const LOOK_MS: u64 = 5_000;

pub(super) struct Line<'a> {
    /// The attempt's directory, which the shim has locked.
    directory: &'a File,
    worker: Option<UnixStream>,
    door: Option<Door>,
}

struct Door {
    listener: UnixListener,
    /// The number of its file.
    inode: u64,
}

impl<'a> Line<'a> {
    pub(super) fn new(directory: &'a File, worker: UnixStream) -> Self {
        Self { directory, worker: Some(worker), door: None }
    }

    /// What is to be waited for: the next order, or the next worker.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let door = || self.door.as_ref().map(|door| door.listener.as_fd());
        self.worker.as_ref().map(|worker| worker.as_fd()).or_else(door)
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
        let Some(door) = &self.door else { return Heard::Nothing };
        // One that went away again, or that is not of this account.
        let Ok((worker, _)) = door.listener.accept() else { return Heard::Nothing };
        let is_own = rustix::net::sockopt::socket_peercred(&worker)
            .is_ok_and(|peer| peer.uid == rustix::process::geteuid());
        if !is_own {
            return Heard::Nothing;
        }
        self.worker = Some(worker);
        Heard::WorkerCame
    }

    /// The worker is gone, or the door may be: from here on the next worker finds the shim.
    ///
    /// # Errors
    /// It does not: the directory is gone, or nothing can be made there.
    pub(super) fn open_door(&mut self) -> io::Result<()> {
        self.worker = None;
        let path = door_in(self.directory);
        let is_there = |door: &Door| fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == door.inode);
        if self.door.as_ref().is_some_and(is_there) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // No other thread makes a file meanwhile: there is none.
        let own = umask(!Mode::from_raw_mode(FILE_MODE));
        let listener = UnixListener::bind(&path);
        umask(own);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        let inode = fs::symlink_metadata(&path)?.ino();
        self.door = Some(Door { listener, inode });
        Ok(())
    }

    /// When to see to the door again.
    pub(super) fn look_at_ms(&self, now_ms: u64) -> Option<u64> {
        self.worker.is_none().then(|| now_ms.saturating_add(LOOK_MS))
    }

    pub(super) fn has_worker(&self) -> bool {
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
        if self.door.is_some() {
            let _ = fs::remove_file(door_in(self.directory));
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
