//! Copies both outputs from their pipes into their logs. Only this waits for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

use super::log::{Log, TRY_AGAIN};
use super::mask::Mask;
use super::pipe::Stream;
use super::times::Times;

/// Read at once: as much as a pipe holds.
const CHUNK: usize = 64 << 10;
/// After fewer bytes than these, more are waited for: a sixteenth of a pipe.
const FEW: usize = 4 << 10;
const GATHER: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// What the thread that copies and the shim's own both see.
pub(super) struct Shared {
    pub(super) streams: [Stream; 2],
    begun: Instant,
    /// When the write began that goes on, milliseconds since `begun`; 0: none does.
    writing_since_ms: AtomicU64,
}

impl Shared {
    pub(super) fn new(streams: [Stream; 2]) -> Self {
        Self { streams, begun: Instant::now(), writing_since_ms: AtomicU64::new(0) }
    }

    /// For how long a write has been going on, milliseconds.
    pub(super) fn writing_for_ms(&self) -> u64 {
        match self.writing_since_ms.load(Ordering::Acquire) {
            0 => 0,
            since_ms => self.now_ms().saturating_sub(since_ms),
        }
    }

    /// Does what may wait for the disk.
    fn write(&self, write: impl FnOnce()) {
        self.writing_since_ms.store(self.now_ms(), Ordering::Release);
        write();
        self.writing_since_ms.store(0, Ordering::Release);
    }

    /// Never 0.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
    }
}

pub(super) struct Copier {
    shared: Arc<Shared>,
    logs: [Log; 2],
    masks: [Mask; 2],
    times: Times,
    buffer: Vec<u8>,
}

impl Copier {
    pub(super) fn new(shared: Arc<Shared>, (logs, masks): ([Log; 2], [Mask; 2]), times: Times) -> Self {
        Self { shared, logs, masks, times, buffer: Vec::new() }
    }

    /// Copies what comes, until there is something to read in `stop`.
    pub(super) fn copy_until(&mut self, stop: &OwnedFd) {
        let shared = Arc::clone(&self.shared);
        let again = Timespec::try_from(TRY_AGAIN).expect("it is short");
        loop {
            let has_to_mark = self.logs.iter().any(Log::has_to_mark);
            let mut fds = [&shared.streams[0].pipe, &shared.streams[1].pipe, stop]
                .map(|source| PollFd::new(source, PollFlags::IN));
            if poll(&mut fds, has_to_mark.then_some(&again)).is_err() {
                // Signals come to the shim's own thread alone.
                continue;
            }
            let [stdout, stderr, is_over] = fds.map(|fd| !fd.revents().is_empty());
            if is_over {
                return;
            }
            let ready = [(0, stdout), (1, stderr)].into_iter().filter(|(_, is_ready)| *is_ready);
            let copied: usize = ready.map(|(number, _)| self.copy(number, CHUNK)).sum();
            for (number, stream) in shared.streams.iter().enumerate() {
                // The write was over that took too long, and nothing has come since.
                if stream.has_skipped() {
                    self.copy(number, 0);
                }
            }
            if has_to_mark {
                shared.write(|| self.logs.iter_mut().for_each(Log::try_again));
            }
            if copied < FEW {
                // A job that prints line by line is not worth a wake-up for each.
                let _ = poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&GATHER));
            }
        }
    }

    /// Copies what waits: all that those wrote who are no more. Who can still write has no part in the job, and is not waited
    /// for.
    pub(super) fn finish(&mut self) {
        let shared = Arc::clone(&self.shared);
        for (number, stream) in shared.streams.iter().enumerate() {
            let mut left = stream.waiting();
            while left > 0 {
                match self.copy(number, usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))) {
                    0 => break,
                    count => left -= count as u64,
                }
            }
            // What was dropped last.
            self.copy(number, 0);
            let left = self.masks[number].end();
            self.write(number, !left.is_empty(), |log| {
                log.take(&left);
                log.end();
            });
        }
    }

    /// One piece, of at most so many bytes. Gives how many there were.
    fn copy(&mut self, number: usize, most: usize) -> usize {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(CHUNK, 0);
        let (skipped, count) = self.shared.streams[number].next(&mut buffer[..most]);
        let mask = &mut self.masks[number];
        // What came before the gap is followed by nothing.
        let before = if skipped.is_some() { mask.end() } else { Vec::new() };
        let bytes = mask.take(&buffer[..count]);
        self.write(number, !bytes.is_empty(), |log| {
            if let Some(skipped) = skipped {
                log.take(&before);
                log.skip(skipped.bytes, skipped.cause);
            }
            log.take(&bytes);
        });
        drop(bytes);
        self.buffer = buffer;
        count
    }

    /// The time stands there before the bytes do, so that whoever finds these finds their time.
    fn write(&mut self, number: usize, has_bytes: bool, write: impl FnOnce(&mut Log)) {
        let (log, times, shared) = (&mut self.logs[number], &mut self.times, &self.shared);
        shared.write(|| {
            let length = log.in_file();
            if has_bytes && log.appends() {
                times.note(number, length);
            }
            write(log);
            if log.in_file() > length {
                times.note(number, length);
            }
        });
        shared.streams[number].set_written(log.written(), self.masks[number].hidden());
    }
}
