//! What readers ask of a log, whether it is in segments, in memory, or both.

mod chunks;
mod lines;
mod search;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tidemill_model::{KeptLog, KeptStream, LogMatch, LogStream};

pub(crate) use chunks::chunks;
pub(crate) use lines::lines;
pub(crate) use search::{Wanted, search};

use crate::Error;
use crate::log::Log;
use crate::segment::{BLOCK, Close, count_lines};
use crate::store::Store;

/// The most text of one answer, bytes of the log.
const MAX_BYTES: usize = 1 << 20;
/// So often a log is looked for again whose segment another store has just taken in.
pub(crate) const TRIES: u32 = 3;
/// The longest text of a line that was looked for, characters.
const LINE_CHARACTERS: usize = 1_000;

/// Does it again where a segment is gone that another store has taken into one of its own.
macro_rules! again {
    ($reader:expr, $work:expr) => {{
        let mut tries = 0;
        loop {
            match $work.await {
                Err($crate::Error::Gone { .. }) if tries < $crate::reading::TRIES => {
                    tries += 1;
                    $reader.store.look_again(&$reader.log).await?;
                }
                done => break done,
            }
        }
    }};
}
pub(crate) use again;

/// A log, and the store that has it.
pub(crate) struct Reader {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
}

impl Reader {
    /// Up to which byte a stream is there, and whether more may come.
    pub(crate) fn end(&self, stream: LogStream) -> (u64, bool) {
        let state = self.log.state();
        (state.tail(stream).end(), state.close == Close::Open)
    }

    /// Bytes of a stream from there on: at least one where there is one, at most so many.
    pub(crate) async fn read(
        &self,
        stream: LogStream,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Bytes, Error> {
        again!(self, self.try_read(stream, offset, max_bytes))
    }

    async fn try_read(&self, stream: LogStream, offset: u64, max_bytes: usize) -> Result<Bytes, Error> {
        let most = offset.saturating_add(max_bytes as u64);
        let extent = {
            let state = self.log.state();
            let tail = state.tail(stream);
            if offset >= tail.begin {
                let index = |at: u64| usize::try_from(at.min(tail.end()) - tail.begin).unwrap_or(0);
                let range = if offset >= tail.end() { 0..0 } else { index(offset)..index(most) };
                return Ok(tail.bytes.copy(range));
            }
            state.cover.find(stream, offset).cloned()
        };
        // The beginning of a log that is kept no more as a whole.
        let Some(extent) = extent else { return Ok(Bytes::new()) };
        extent.segment.read(stream, offset..most.min(extent.range.end)).await
    }

    /// All bytes of a range, which is short.
    async fn read_all(&self, stream: LogStream, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while range.start + (bytes.len() as u64) < range.end {
            let offset = range.start + bytes.len() as u64;
            let wanted = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
            let more = self.read(stream, offset, wanted).await?;
            if more.is_empty() {
                break;
            }
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    /// Ends of lines before a byte.
    async fn lines_before(&self, stream: LogStream, offset: u64) -> Result<u64, Error> {
        let extent = {
            let state = self.log.state();
            let tail = state.tail(stream);
            if offset >= tail.begin {
                let length = usize::try_from(offset.min(tail.end()) - tail.begin).unwrap_or(0);
                return Ok(tail.lines_before + tail.bytes.lines_in(length));
            }
            state.cover.find(stream, offset).cloned()
        };
        let Some(extent) = extent else { return Ok(0) };
        let begin = extent.segment.range(stream).start;
        let block = (offset - begin) / BLOCK;
        let footer = extent.segment.footer().await?.of(stream);
        let in_segment =
            usize::try_from(block).ok().and_then(|block| footer.blocks.get(block)).map_or(0, |of| of.0);
        let rest = extent.segment.read(stream, begin + block * BLOCK..offset).await?;
        Ok(footer.lines_before + in_segment + count_lines(&rest))
    }

    /// Where a line begins, from 1; nothing, where there are not so many.
    async fn line_begin(&self, stream: LogStream, line: u64) -> Result<Option<u64>, Error> {
        // This many ends of lines are before it.
        let Some(wanted) = line.checked_sub(1).filter(|wanted| *wanted > 0) else { return Ok(Some(0)) };
        let extents = {
            let state = self.log.state();
            let tail = state.tail(stream);
            if let Some(in_tail) = wanted.checked_sub(tail.lines_before + 1) {
                let end = usize::try_from(in_tail).ok().and_then(|number| tail.bytes.line_end(number));
                return Ok(end.map(|end| tail.begin + end as u64 + 1));
            }
            state.cover.extents(stream).to_vec()
        };
        // The last segment that has fewer before it.
        let (mut low, mut high) = (0, extents.len());
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            let before = extents[middle].segment.footer().await?.of(stream).lines_before;
            if before < wanted { low = middle } else { high = middle }
        }
        let Some(extent) = extents.get(low) else { return Ok(None) };
        let footer = extent.segment.footer().await?.of(stream);
        let in_segment = wanted.saturating_sub(footer.lines_before);
        let block = footer.blocks.partition_point(|(before, _)| *before < in_segment).saturating_sub(1);
        let (before, _) = footer.blocks.get(block).copied().unwrap_or_default();
        let own = extent.segment.range(stream);
        let begin = own.start + block as u64 * BLOCK;
        let bytes = extent.segment.read(stream, begin..(begin + BLOCK).min(own.end)).await?;
        let number = usize::try_from(in_segment - before).unwrap_or(usize::MAX);
        let end = number.checked_sub(1).and_then(|number| memchr::memchr_iter(b'\n', &bytes).nth(number));
        Ok(end.map(|end| begin + end as u64 + 1))
    }

    /// How many lines a stream has; the last one counts without its end, too.
    async fn lines(&self, stream: LogStream) -> Result<KeptStream, Error> {
        let (bytes, _) = self.end(stream);
        let ends = self.lines_before(stream, bytes).await?;
        let last = match bytes.checked_sub(1) {
            Some(last) => self.read(stream, last, 1).await?.first().copied(),
            None => None,
        };
        let unfinished = last.is_some_and(|last| last != b'\n');
        Ok(KeptStream { bytes, lines: ends + u64::from(unfinished) })
    }

    /// What there is.
    pub(crate) async fn summary(&self) -> Result<KeptLog, Error> {
        let close = self.log.state().close;
        let mut first = None;
        for stream in [LogStream::Stderr, LogStream::Stdout] {
            if first.is_none() {
                first = self.first_error(stream).await?;
            }
        }
        Ok(KeptLog {
            stdout: self.lines(LogStream::Stdout).await?,
            stderr: self.lines(LogStream::Stderr).await?,
            worker: self.lines(LogStream::Worker).await?,
            is_end: close != Close::Open,
            is_cut: close == Close::Cut,
            first_error: first,
        })
    }

    async fn first_error(&self, stream: LogStream) -> Result<Option<LogMatch>, Error> {
        let extents = self.log.state().cover.extents(stream).to_vec();
        for extent in extents {
            if let Some((before, at)) = extent.segment.footer().await?.of(stream).error {
                return self.error_at(stream, before, at).await.map(Some);
            }
        }
        let found = {
            let state = self.log.state();
            let tail = state.tail(stream);
            tail.bytes
                .first_error()
                .map(|at| (tail.lines_before + tail.bytes.lines_in(at), tail.begin + at as u64))
        };
        match found {
            Some((before, at)) => self.error_at(stream, before, at).await.map(Some),
            None => Ok(None),
        }
    }

    /// A segment may begin within a line.
    async fn error_at(&self, stream: LogStream, before: u64, at: u64) -> Result<LogMatch, Error> {
        let begin = self.line_begin(stream, before + 1).await?.unwrap_or(at);
        self.line_at(stream, (before + 1, begin), at, (&[], 0)).await
    }

    /// The line with this number, which begins there; of a long one what is around the byte `at`. `near` are bytes that begin
    /// somewhere near, which need not be read again.
    async fn line_at(
        &self,
        stream: LogStream,
        (line, offset): (u64, u64),
        at: u64,
        near: (&[u8], u64),
    ) -> Result<LogMatch, Error> {
        let around = LINE_CHARACTERS as u64 / 2;
        let begin = if at - offset > around { at - around } else { offset };
        let known = begin.checked_sub(near.1).and_then(|skip| near.0.get(usize::try_from(skip).ok()?..));
        let mut bytes = match known.and_then(|known| known.get(..LINE_CHARACTERS)) {
            Some(known) => known.to_vec(),
            None => self.read_all(stream, begin..begin + LINE_CHARACTERS as u64).await?,
        };
        let behind = usize::try_from(at - begin).unwrap_or(0).min(bytes.len());
        if let Some(end) = memchr::memchr(b'\n', &bytes[behind..]) {
            bytes.truncate(behind + end);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(LogMatch { stream, line, offset, text: text.trim_end_matches('\r').to_owned() })
    }
}
