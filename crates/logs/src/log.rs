//! The log of one attempt in memory: which segments it has, and what of it is in none yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_model::{GroupName, LogStream, ShardId, Token};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::cover::Cover;
use crate::segment::{Close, Part};
use crate::waiting::Waiting;

/// Attempts of one shard that share a directory.
const DIRECTORY_OF: u64 = 1_000;
/// So much of an unfinished line waits for its end before it goes into a segment.
const LINE_BYTES: usize = 64 << 10;
/// And so many times, while nothing else is to be flushed.
const LINE_WAITS: u32 = 3;
/// The most times of arrival of one piece.
const MAX_TIMES: usize = 4_096;

/// Names the log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// That of its worker.
    pub(crate) group: GroupName,
    pub(crate) token: Token,
}

impl Key {
    /// Where its segments are.
    pub(crate) fn directory(&self) -> String {
        let counter = self.token.counter();
        let bundle = counter / DIRECTORY_OF;
        format!("{}/{bundle}/{counter}", shard_directory(&self.group, self.token.shard()))
    }
}

/// Where the logs of a group are that were written for a shard.
pub(crate) fn shard_directory(group: &GroupName, shard: ShardId) -> String {
    format!("{}/{shard}", directory_of(group))
}

/// The directory of a group: its name, where a byte that not every place takes is `=` and two hexadecimal digits.
fn directory_of(group: &GroupName) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let part = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("={byte:02X}") };
    group.as_str().bytes().map(part).collect()
}

/// The group of a directory; nothing, where it is none's.
pub(crate) fn group_of(directory: &str) -> Option<GroupName> {
    let mut parts = directory.split('=');
    let mut name = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        name.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(name).ok()?.as_str().try_into().ok()
}

/// The log of an attempt.
pub(crate) struct Log {
    pub(crate) key: Key,
    state: Mutex<State>,
    changed: Notify,
}

/// What a piece did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many bytes were new.
    New(usize),
    /// It begins behind what is there.
    Gap,
}

/// What is in no segment yet, of one stream.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) begin: u64,
    pub(crate) bytes: Waiting,
    /// Ends of lines before it.
    pub(crate) lines_before: u64,
    pub(crate) times: Vec<(u64, i64)>,
}

impl Tail {
    pub(crate) fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// So much of it goes into the next segment: up to the end of a line, where that is near.
    fn flushed(&self, is_all: bool) -> usize {
        let length = self.bytes.len();
        if is_all {
            return length;
        }
        match self.bytes.last_line_end() {
            Some(end) if length - end <= LINE_BYTES => end + 1,
            None if length <= LINE_BYTES => 0,
            _ => length,
        }
    }

    fn part(&mut self, length: usize) -> Part {
        let end = self.begin + length as u64;
        let times = self.times.iter().filter(|(at, _)| *at < end).copied().collect();
        Part { begin: self.begin, bytes: self.bytes.take(length), lines_before: self.lines_before, times }
    }

    /// What is in a segment now goes.
    fn drop_front(&mut self, length: usize) {
        self.lines_before += self.bytes.lines_in(length);
        self.bytes.drop_front(length);
        self.begin += length as u64;
        // The last time before the rest is the rest's, too.
        let first = self.times.partition_point(|(at, _)| *at <= self.begin).saturating_sub(1);
        self.times.drain(..first);
    }
}

/// What is known of a log.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) cover: Cover,
    pub(crate) tails: [Tail; 3],
    /// What its worker has said.
    pub(crate) close: Close,
    /// Whether that is in a segment.
    pub(crate) is_closed: bool,
    /// Since when something is in no segment.
    waits_since: Option<Instant>,
    is_flushing: bool,
    /// How often an unfinished line was all there was to flush.
    line_waits: u32,
    /// After a failure.
    flush_at: Option<Instant>,
    failures: u32,
    /// It is another store's now.
    is_forgotten: bool,
}

/// What goes into the next segment.
pub(crate) struct Batch {
    pub(crate) parts: [Part; 3],
    pub(crate) close: Close,
}

impl Batch {
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}

impl State {
    /// Of a log whose segments these are; each stream has so many ends of lines in them.
    pub(crate) fn new(cover: Cover, lines: [u64; 3]) -> Self {
        let ends = cover.ends();
        let close = cover.close();
        let mut tails: [Tail; 3] = Default::default();
        for (tail, (end, lines)) in tails.iter_mut().zip(ends.into_iter().zip(lines)) {
            (tail.begin, tail.lines_before) = (end, lines);
        }
        Self { cover, tails, close, is_closed: close != Close::Open, ..Self::default() }
    }

    /// Of an attempt that has printed nothing, and ended.
    pub(crate) fn silent() -> Self {
        Self { close: Close::Ended, is_closed: true, ..Self::default() }
    }

    /// The same log, which its worker goes on with after all.
    pub(crate) fn again(self) -> Self {
        Self { close: Close::Open, is_closed: false, ..self }
    }

    /// With which byte of each stream it goes on.
    pub(crate) fn ends(&self) -> [u64; 3] {
        self.tails.each_ref().map(Tail::end)
    }

    pub(crate) fn tail(&self, stream: LogStream) -> &Tail {
        &self.tails[stream.index()]
    }

    fn unflushed(&self) -> usize {
        self.tails.iter().map(|tail| tail.bytes.len()).sum()
    }

    /// The next bytes of a stream, as they come: again, or too early.
    pub(crate) fn take(
        &mut self,
        stream: LogStream,
        offset: u64,
        bytes: &[u8],
        times: &[(u64, i64)],
    ) -> Taken {
        if self.close != Close::Open || self.is_forgotten {
            return Taken::New(0);
        }
        let tail = &mut self.tails[stream.index()];
        let end = tail.end();
        if offset > end {
            return Taken::Gap;
        }
        let known = usize::try_from(end - offset).unwrap_or(usize::MAX).min(bytes.len());
        let news = &bytes[known..];
        if news.is_empty() {
            return Taken::New(0);
        }
        // The time of the first new byte, where it is older than that byte, and those after it.
        let first = times.partition_point(|(at, _)| *at <= end).saturating_sub(1);
        let stop = offset + bytes.len() as u64;
        for (at, ms) in times[first..].iter().take(MAX_TIMES) {
            let at = (*at).max(end);
            if at < stop && tail.times.last().is_none_or(|(last, _)| *last < at) {
                tail.times.push((at, *ms));
            }
        }
        tail.bytes.push(news);
        self.waits_since.get_or_insert_with(Instant::now);
        Taken::New(news.len())
    }

    /// The worker has sent all of it, which has these lengths; whether that is so here. More than the worker has now was there once.
    pub(crate) fn end(&mut self, bytes: [u64; 3]) -> bool {
        let is_all = self.ends().iter().zip(bytes).all(|(end, bytes)| *end >= bytes);
        if is_all && self.close == Close::Open {
            self.close = Close::Ended;
        }
        is_all
    }

    /// The worker has lost the rest.
    pub(crate) fn cut(&mut self) {
        if self.close == Close::Open {
            self.close = Close::Cut;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends() == [0; 3]
    }

    /// Whether something is to go into a segment now.
    pub(crate) fn is_due(&self, now: Instant, after: Duration, most: usize) -> bool {
        let is_waiting = self.is_flushing || self.flush_at.is_some_and(|at| now < at);
        let is_old = self.waits_since.is_some_and(|since| now - since >= after);
        let is_over = self.close != Close::Open && !self.is_closed;
        !is_waiting && (is_over || is_old || self.unflushed() >= most)
    }

    /// Takes what goes into the next segment, at most so many bytes. One at a time: [`Self::flushed`] or [`Self::failed`] has to
    /// follow. `with_lines`: unfinished ones, too, since their memory is wanted.
    pub(crate) fn begin_flush(&mut self, most: usize, with_lines: bool) -> Option<Batch> {
        if self.is_flushing || self.is_closed || self.is_forgotten {
            return None;
        }
        let is_all = with_lines || self.close != Close::Open || self.line_waits >= LINE_WAITS;
        let mut room = most;
        let parts = self.tails.each_mut().map(|tail| {
            let length = tail.flushed(is_all).min(room);
            room -= length;
            tail.part(length)
        });
        let mut batch = Batch { parts, close: self.close };
        if batch.bytes() < self.unflushed() {
            // What is left goes into another one.
            batch.close = Close::Open;
        }
        if batch.bytes() == 0 && batch.close == Close::Open {
            self.line_waits += 1;
            self.waits_since = (self.unflushed() > 0).then(Instant::now);
            return None;
        }
        self.line_waits = 0;
        self.is_flushing = true;
        Some(batch)
    }

    /// The batch is in a segment. Gives how many bytes less are in memory.
    pub(crate) fn flushed(&mut self, batch: &Batch, cover: Cover) -> usize {
        if self.is_forgotten {
            return 0;
        }
        for (tail, part) in self.tails.iter_mut().zip(&batch.parts) {
            tail.drop_front(part.bytes.len());
        }
        self.cover = cover;
        self.is_flushing = false;
        (self.flush_at, self.failures) = (None, 0);
        self.is_closed = batch.close != Close::Open;
        self.waits_since = (self.unflushed() > 0).then(Instant::now);
        batch.bytes()
    }

    /// It is another store's now. Gives how many bytes less are in memory.
    pub(crate) fn forget(&mut self) -> usize {
        let held = self.unflushed();
        self.is_forgotten = true;
        for tail in &mut self.tails {
            tail.bytes.clear();
        }
        held
    }

    /// It is not, and is tried again after a while that grows.
    pub(crate) fn failed(&mut self) {
        const PAUSE: Duration = Duration::from_millis(500);
        const MOST_DOUBLED: u32 = 4;
        self.is_flushing = false;
        self.flush_at = Some(Instant::now() + PAUSE * (1 << self.failures.min(MOST_DOUBLED)));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Log {
    pub(crate) fn new(key: Key, state: State) -> Arc<Self> {
        Arc::new(Self { key, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Nothing here is ever half done.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for more.
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Ready with the next change after this call was first waited for.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushed(state: &mut State) -> Option<([usize; 3], Close)> {
        let batch = state.begin_flush(usize::MAX, false)?;
        state.flushed(&batch, Cover::default());
        Some((batch.parts.each_ref().map(|part| part.bytes.len()), batch.close))
    }

    /// LOG-4: every group has a directory that all places take, and is found by it.
    #[test]
    fn group_is_found_by_its_directory() {
        for (group, directory) in [("etl.a_b-1", "etl.a_b-1"), ("报表", "=E6=8A=A5=E8=A1=A8")] {
            let group = GroupName::try_from(group).unwrap();
            assert_eq!(directory_of(&group), directory);
            assert_eq!(group_of(directory), Some(group));
        }
        for none in ["=E6", "=zz", "a=", "", ".."] {
            assert_eq!(group_of(none), None, "{none}");
        }
    }

    /// LOG-1: what comes again is not taken twice, and what comes too early not at all.
    #[test]
    fn pieces_that_come_again_or_too_early_change_nothing() {
        let mut state = State::default();
        let stdout = LogStream::Stdout;
        assert_eq!(state.take(stdout, 0, b"abc", &[(0, 10)]), Taken::New(3));
        assert_eq!(state.take(stdout, 0, b"abc", &[(0, 10)]), Taken::New(0));
        assert_eq!(state.take(stdout, 2, b"cd", &[(2, 10), (3, 20)]), Taken::New(1));
        assert_eq!(state.take(stdout, 5, b"f", &[]), Taken::Gap);
        assert_eq!(state.tail(stdout).bytes.copy(0..4), &b"abcd"[..]);
        assert_eq!(state.tail(stdout).times, [(0, 10), (3, 20)]);
        assert!(!state.end([5, 0, 0]), "a byte is missing");
        assert!(state.end([4, 0, 0]));
        assert_eq!(state.take(stdout, 4, b"x", &[]), Taken::New(0));
    }

    /// LOG-1: a line goes into a segment as a whole, unless it is long or the log ends.
    #[test]
    fn unfinished_line_waits_for_its_end() {
        let mut state = State::default();
        assert_eq!(state.take(LogStream::Stdout, 0, b"ab", &[]), Taken::New(2));
        assert_eq!(flushed(&mut state), None);
        assert_eq!(state.take(LogStream::Stdout, 2, b"c\nde", &[]), Taken::New(4));
        assert_eq!(
            state.take(LogStream::Stderr, 0, &[b'x'; LINE_BYTES + 1], &[]),
            Taken::New(LINE_BYTES + 1)
        );
        assert_eq!(flushed(&mut state), Some(([4, LINE_BYTES + 1, 0], Close::Open)));
        assert_eq!((state.tail(LogStream::Stdout).begin, state.tail(LogStream::Stdout).lines_before), (4, 1));
        assert!(state.end([6, LINE_BYTES as u64 + 1, 0]));
        assert_eq!(flushed(&mut state), Some(([2, 0, 0], Close::Ended)));
        assert_eq!(flushed(&mut state), None, "it is closed");
    }

    /// LOG-1: a segment has at most so many bytes, and only the last one closes the log; an unfinished line goes, too, where its
    /// memory is wanted or it has waited long.
    #[test]
    fn batch_is_bounded_and_lines_do_not_wait_for_ever() {
        let mut state = State::default();
        state.take(LogStream::Stdout, 0, b"one\ntwo\nend", &[]);
        let mut lengths = |most, with_lines| {
            let batch = state.begin_flush(most, with_lines)?;
            state.flushed(&batch, Cover::default());
            Some((batch.bytes(), batch.close))
        };
        assert_eq!(lengths(5, false), Some((5, Close::Open)));
        assert_eq!(lengths(100, false), Some((3, Close::Open)));
        for _ in 0..LINE_WAITS {
            assert_eq!(lengths(100, false), None);
        }
        assert_eq!(lengths(2, false), Some((2, Close::Open)));
        assert_eq!(lengths(100, true), Some((1, Close::Open)));
        state.take(LogStream::Stderr, 0, b"abc\n", &[]);
        assert!(state.end([11, 4, 0]));
        let mut rest = |most| {
            let batch = state.begin_flush(most, false)?;
            state.flushed(&batch, Cover::default());
            Some((batch.bytes(), batch.close))
        };
        assert_eq!((rest(3), rest(3), rest(3)), (Some((3, Close::Open)), Some((1, Close::Ended)), None));
    }

    /// LOG-1: one flush at a time; after a failure nothing is lost, and it is tried again later.
    #[test]
    fn failed_flush_loses_nothing_and_is_tried_again() {
        let mut state = State::default();
        state.take(LogStream::Worker, 0, b"a\n", &[(0, 1)]);
        let batch = state.begin_flush(usize::MAX, false).unwrap();
        assert!(state.begin_flush(usize::MAX, false).is_none(), "one at a time");
        assert_eq!(batch.parts[2].times, [(0, 1)]);
        state.failed();
        assert!(!state.is_due(Instant::now(), Duration::ZERO, 1));
        assert!(state.is_due(Instant::now() + Duration::from_secs(1), Duration::ZERO, 1));
        assert_eq!(flushed(&mut state), Some(([0, 0, 2], Close::Open)));
    }
}
