//! The reading end of one output's pipe, which is never left unread while somebody can write to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread, read};
use rustix::pipe::{PipeFlags, pipe_with};

use super::gap::Cause;
use crate::attempt_dir::OutputCount;

/// Dropped at once.
const CHUNK: usize = 16 << 10;

pub(super) struct Stream {
    pub(super) pipe: OwnedFd,
    /// Locked over a read, which waits for nothing, and never over a write.
    taken: Mutex<Taken>,
    /// Bytes of the stream that are in its log.
    written: AtomicU64,
    /// By how many bytes it is shorter there, because secrets are hidden.
    hidden: AtomicU64,
}

#[derive(Default)]
struct Taken {
    /// Bytes that were read, or dropped.
    bytes: u64,
    /// Those that were dropped since the last that were read.
    skipped: Option<Skipped>,
}

/// Bytes that were dropped before they reached the log.
pub(super) struct Skipped {
    pub(super) bytes: u64,
    pub(super) cause: Cause,
}

impl Stream {
    /// With the end that the job gets.
    pub(super) fn open() -> rustix::io::Result<(Self, OwnedFd)> {
        let (pipe, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // A job can open its own output to read, and what it takes away is not waited for here.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let (written, hidden) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok((Self { pipe, taken: Mutex::default(), written, hidden }, writer))
    }

    /// How many bytes wait to be read.
    pub(super) fn waiting(&self) -> u64 {
        ioctl_fionread(&self.pipe).unwrap_or(0)
    }

    /// The next bytes, and what is missing before them; 0: there are none.
    pub(super) fn next(&self, buffer: &mut [u8]) -> (Option<Skipped>, usize) {
        let mut taken = self.taken();
        let skipped = taken.skipped.take();
        (skipped, self.read(&mut taken, buffer))
    }

    /// Whether something is missing that the log does not know of.
    pub(super) fn has_skipped(&self) -> bool {
        self.taken().skipped.is_some()
    }

    /// Drops what waits to be read.
    pub(super) fn discard(&self, cause: &Cause) {
        let mut taken = self.taken();
        let mut left = self.waiting();
        let mut buffer = [0; CHUNK];
        while left > 0 {
            let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            let count = self.read(&mut taken, &mut buffer[..most]) as u64;
            if count == 0 {
                return;
            }
            left -= count;
            taken.skipped.get_or_insert_with(|| Skipped { bytes: 0, cause: cause.clone() }).bytes += count;
        }
    }

    pub(super) fn set_written(&self, bytes: u64, hidden: u64) {
        self.hidden.store(hidden, Ordering::Release);
        self.written.store(bytes, Ordering::Release);
    }

    /// What is not in the log is dropped, and so are these bytes of the job that nobody reads any more.
    pub(super) fn count(&self, unread_bytes: u64) -> OutputCount {
        let printed_bytes = self.taken().bytes + unread_bytes;
        let written_bytes = self.written.load(Ordering::Acquire);
        let all_bytes = printed_bytes.saturating_sub(self.hidden.load(Ordering::Acquire));
        OutputCount { written_bytes, dropped_bytes: all_bytes.saturating_sub(written_bytes) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing here is ever half done.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, taken: &mut Taken, buffer: &mut [u8]) -> usize {
        loop {
            match read(&self.pipe, &mut *buffer) {
                Ok(count) => {
                    taken.bytes += count as u64;
                    return count;
                }
                Err(Errno::INTR) => {}
                Err(_) => return 0,
            }
        }
    }
}
