use memchr::memmem;
use tidemill_model::{LogMatches, LogStream};

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
    let finder = memmem::Finder::new(&needle);
    let (end, is_open) = reader.end(wanted.stream);
    let stop = end.min(wanted.offset.saturating_add(SEARCHED_MAX));
    let mut at = Position::begin(reader, wanted).await?;
    let mut matches = Vec::new();
    // From there on nothing was found yet.
    let mut from = at.offset;
    while from < stop && matches.len() < wanted.limit {
        let length = usize::try_from(stop - from).unwrap_or(WINDOW).min(WINDOW);
        let bytes = reader.read_all(wanted.stream, from..from + length as u64).await?;
        if bytes.is_empty() {
            break;
        }
        let window = fold(&bytes, wanted.ignore_case);
        let Some(found) = finder.find(&window) else {
            at.pass(&bytes, from, from + bytes.len() as u64);
            let is_all = from + bytes.len() as u64 >= stop;
            // What begins in this window may end in the next one.
            let kept = if is_all { 0 } else { (needle.len() - 1).min(bytes.len() - 1) };
            from += (bytes.len() - kept) as u64;
            continue;
        };
        let place = from + found as u64;
        at.pass(&bytes, from, place);
        matches.push(reader.line_at(wanted.stream, at.lines + 1, at.line_begin, place).await?);
        // The rest of the line.
        from = next_line(reader, wanted.stream, place, end).await?;
        if from > at.offset {
            (at.offset, at.lines, at.line_begin) = (from, at.lines + 1, from);
        }
    }
    let is_end = !is_open && from >= end;
    Ok(LogMatches { matches, offset: from, is_end })
}

fn fold(bytes: &[u8], ignore_case: bool) -> Vec<u8> {
    if ignore_case { bytes.to_ascii_lowercase() } else { bytes.to_vec() }
}

/// Behind the end of the line with this byte.
async fn next_line(reader: &Reader, stream: LogStream, place: u64, end: u64) -> Result<u64, Error> {
    let mut from = place;
    while from < end {
        let bytes = reader.read(stream, from, 64 << 10).await?;
        if bytes.is_empty() {
            break;
        }
        if let Some(newline) = memchr::memchr(b'\n', &bytes) {
            return Ok(from + newline as u64 + 1);
        }
        from += bytes.len() as u64;
    }
    Ok(from.max(place + 1))
}

/// How far lines are counted.
struct Position {
    offset: u64,
    /// Ends of lines before it.
    lines: u64,
    /// Where its line begins, or the search did.
    line_begin: u64,
}

impl Position {
    /// From the beginning of the line with that byte.
    async fn begin(reader: &Reader, wanted: &Wanted) -> Result<Self, Error> {
        let (end, _) = reader.end(wanted.stream);
        let offset = wanted.offset.min(end);
        let lines = reader.lines_before(wanted.stream, offset).await?;
        let line_begin = reader.line_begin(wanted.stream, lines + 1).await?.unwrap_or(offset);
        Ok(Self { offset, lines, line_begin })
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
