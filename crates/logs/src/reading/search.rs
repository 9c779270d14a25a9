use memchr::memmem;
use tidemill_model::{LogMatch, LogMatches, LogStream};

use super::Reader;
use crate::Error;
use crate::segment::count_lines;

/// So much is read at once.
const WINDOW: usize = 1 << 20;
/// So much is searched for one answer.
const SEARCHED_MAX: u64 = 256 << 20;

/// What is looked for.
pub(crate) struct Wanted {
    pub(crate) stream: LogStream,
    pub(crate) text: String,
    /// Whether `a` is `A`, of the letters of ASCII.
    pub(crate) ignore_case: bool,
    pub(crate) offset: u64,
    /// Lines at most.
    pub(crate) limit: usize,
}

/// Lines that have a text in them, each once.
pub(crate) async fn search(reader: &Reader, wanted: &Wanted) -> Result<LogMatches, Error> {
    let needle = fold(wanted.text.as_bytes(), wanted.ignore_case);
    let (end, is_open) = reader.end(wanted.stream);
    let begin = wanted.offset.min(end);
    let stop = end.min(begin.saturating_add(SEARCHED_MAX));
    let at = Position::begin(reader, wanted.stream, begin).await?;
    let mut search =
        Search { reader, wanted, finder: memmem::Finder::new(&needle), stop, at, matches: Vec::new() };
    let mut from = begin;
    while from < stop && search.matches.len() < wanted.limit {
        let length = usize::try_from(stop - from).unwrap_or(WINDOW).min(WINDOW);
        let bytes = reader.read_all(wanted.stream, from..from + length as u64).await?;
        if bytes.is_empty() {
            break;
        }
        let window_end = from + bytes.len() as u64;
        let done = search.window(&bytes, from).await?;
        if done < window_end || search.matches.len() >= wanted.limit || (window_end >= end && !is_open) {
            from = done;
            continue;
        }
        if done > window_end {
            from = done;
            continue;
        }
        // What begins in this window may end in what follows; a line that was found does not count again.
        let kept = (needle.len() - 1) as u64;
        let rest = window_end.saturating_sub(kept).max(search.at.found_up_to).max(begin);
        if window_end >= stop {
            from = rest;
            break;
        }
        from = if rest > from { rest } else { window_end };
    }
    Ok(LogMatches { matches: search.matches, offset: from, is_end: !is_open && from >= end })
}

fn fold(bytes: &[u8], ignore_case: bool) -> Vec<u8> {
    if ignore_case { bytes.to_ascii_lowercase() } else { bytes.to_vec() }
}

struct Search<'a> {
    reader: &'a Reader,
    wanted: &'a Wanted,
    finder: memmem::Finder<'a>,
    stop: u64,
    at: Position,
    matches: Vec<LogMatch>,
}

impl Search<'_> {
    /// Looks through bytes that begin there. Gives up to where everything is looked through.
    async fn window(&mut self, bytes: &[u8], begin: u64) -> Result<u64, Error> {
        let folded = fold(bytes, self.wanted.ignore_case);
        let mut from = 0;
        while let Some(found) = self.finder.find(&folded[from..]) {
            let place = begin + (from + found) as u64;
            self.at.pass(bytes, begin, place);
            let (line, offset) = (self.at.lines + 1, self.at.line_begin);
            let stream = self.wanted.stream;
            self.matches.push(self.reader.line_at(stream, (line, offset), place, (bytes, begin)).await?);
            // The rest of the line.
            let next = match memchr::memchr(b'\n', &bytes[from + found..]) {
                Some(end) => begin + (from + found + end) as u64 + 1,
                None => self.next_line(begin + bytes.len() as u64).await?,
            };
            self.at.next_line(next);
            from = usize::try_from(next - begin).unwrap_or(usize::MAX);
            if from >= bytes.len() || self.matches.len() >= self.wanted.limit {
                return Ok(next);
            }
        }
        let end = begin + bytes.len() as u64;
        self.at.pass(bytes, begin, end);
        Ok(end)
    }

    /// Behind the end of the line that goes on there; no further than what is searched at once.
    async fn next_line(&self, from: u64) -> Result<u64, Error> {
        let mut from = from;
        while from < self.stop {
            let bytes = self.reader.read(self.wanted.stream, from, WINDOW).await?;
            if bytes.is_empty() {
                break;
            }
            if let Some(end) = memchr::memchr(b'\n', &bytes) {
                return Ok(from + end as u64 + 1);
            }
            from += bytes.len() as u64;
        }
        Ok(from)
    }
}

/// How far lines are counted.
struct Position {
    offset: u64,
    /// Ends of lines before it.
    lines: u64,
    /// Where its line begins, or the search did.
    line_begin: u64,
    /// Behind the last line that was found.
    found_up_to: u64,
}

impl Position {
    /// At that byte.
    async fn begin(reader: &Reader, stream: LogStream, offset: u64) -> Result<Self, Error> {
        let lines = reader.lines_before(stream, offset).await?;
        let line_begin = reader.line_begin(stream, lines + 1).await?.unwrap_or(offset);
        Ok(Self { offset, lines, line_begin, found_up_to: 0 })
    }

    /// The line is over there.
    fn next_line(&mut self, begin: u64) {
        (self.offset, self.lines, self.line_begin, self.found_up_to) = (begin, self.lines + 1, begin, begin);
    }

    /// Counts what lies between here and there, of bytes that begin at `begin`.
    fn pass(&mut self, bytes: &[u8], begin: u64, to: u64) {
        let index = |at: u64| usize::try_from(at - begin).unwrap_or(0).min(bytes.len());
        let passed = &bytes[index(self.offset.max(begin))..index(to.max(begin))];
        self.lines += count_lines(passed);
        if let Some(last) = memchr::memrchr(b'\n', passed) {
            self.line_begin = self.offset.max(begin) + last as u64 + 1;
        }
        self.offset = self.offset.max(to);
    }
}
