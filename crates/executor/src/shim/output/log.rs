//! The file of one output: what it holds of the stream, and where it says that something is missing.
//!
//! ```text
//! ┌──────── head ────────┬──────── line of the gap ────────┬─── tail ───┐
//! │ the stream's first   │ [tidemill] output gap: offset=… │ its last   │
//! │ bytes, as they come  │ dropped=… reason=…              │ 64 KiB     │
//! └──────────────────────┴─────────────────────────────────┴────────────┘
//! ```
//! The tail is kept in memory once the head has its length, and written when the stream has ended. A stream that is not longer
//! than its limit has no gap. After an error the log is tried again every second, and at the end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::gap::{Cause, Gap};
use crate::plain_file;

/// The longest tail, bytes.
const TAIL_MAX: u64 = 64 << 10;
/// Between two tries to write to a log that takes nothing.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Where the log is.
pub(super) enum Place {
    Open(File),
    /// Made with its first byte: to make a file costs more than anything else that an attempt without output does.
    Path(PathBuf),
}

pub(super) struct Log {
    place: Place,
    /// What the stream may have of the file, bytes.
    max_bytes: Option<u64>,
    /// Bytes of the stream so far.
    offset: u64,
    /// Those of them that are in the file.
    written: u64,
    /// All that is in the file: lines of gaps are, too.
    in_file: u64,
    ends_line: bool,
    /// What comes after the file's end and is not marked there yet. The tail comes after it.
    gap: Option<Gap>,
    tail: VecDeque<u8>,
    try_at: Option<Instant>,
}

impl Log {
    pub(super) fn new(place: Place, max_bytes: Option<u64>) -> Self {
        Self {
            place,
            max_bytes,
            offset: 0,
            written: 0,
            in_file: 0,
            ends_line: true,
            gap: None,
            tail: VecDeque::new(),
            try_at: None,
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How long the file is.
    pub(super) fn in_file(&self) -> u64 {
        self.in_file
    }

    /// Whether what comes next goes to the end of the file at once.
    pub(super) fn appends(&self) -> bool {
        let has_room = self.head_max().is_none_or(|max| self.in_file < max);
        has_room && self.tail.is_empty() && self.gap.is_none()
    }

    /// The next bytes of the stream.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let room = self.head_max().map_or(u64::MAX, |max| max.saturating_sub(self.in_file));
        let head = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let (head, tail) = bytes.split_at(if self.tail.is_empty() { head } else { 0 });
        self.append(head);
        self.keep(tail);
    }

    /// The next bytes of the stream, which are gone.
    pub(super) fn skip(&mut self, bytes: u64, cause: Cause) {
        if bytes == 0 {
            return;
        }
        // What is dropped is one piece, so the tail begins again behind it.
        let tail = std::mem::take(&mut self.tail).len() as u64;
        let begin = self.offset - tail;
        self.offset += bytes;
        self.widen(begin, tail + bytes, cause);
    }

    /// Whether something is missing that the file can say before the stream ends. What the limit drops still becomes more.
    pub(super) fn has_to_mark(&self) -> bool {
        self.gap.as_ref().is_some_and(|gap| !matches!(gap.cause, Cause::Limit(_)))
    }

    /// Tries again to say what is missing, where it is time.
    pub(super) fn try_again(&mut self) {
        if self.has_to_mark() && self.is_due() {
            self.mark();
        }
    }

    /// The stream has ended.
    pub(super) fn end(&mut self) {
        self.mark();
        let tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        if self.gap.is_none() {
            // What still fails here cannot be marked either; the count says how much it is.
            let _ = self.write(&tail);
        }
    }

    /// How long the head becomes. A stream that has a limit leaves room for its tail.
    fn head_max(&self) -> Option<u64> {
        self.max_bytes.map(|max| max - tail_max(max))
    }

    fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let begin = self.offset;
        self.offset += bytes.len() as u64;
        if self.gap.is_some() && self.is_due() {
            self.mark();
        }
        if let Some(gap) = &mut self.gap {
            gap.bytes += bytes.len() as u64;
            return;
        }
        let (count, written) = self.write(bytes);
        if let Err(error) = written {
            let left = (bytes.len() - count) as u64;
            self.widen(begin + count as u64, left, Cause::Write(error.to_string().into()));
            self.try_at = Some(Instant::now() + TRY_AGAIN);
        }
    }

    /// Behind the head: the last bytes stay.
    fn keep(&mut self, bytes: &[u8]) {
        let Some(max) = self.max_bytes.filter(|_| !bytes.is_empty()) else { return };
        let begin = self.offset - self.tail.len() as u64;
        self.offset += bytes.len() as u64;
        let tail_max = usize::try_from(tail_max(max)).expect("it is short");
        let over = (self.tail.len() + bytes.len()).saturating_sub(tail_max);
        if over > 0 {
            self.widen(begin, over as u64, Cause::Limit(max));
        }
        let of_tail = over.min(self.tail.len());
        self.tail.drain(..of_tail);
        self.tail.extend(&bytes[over - of_tail..]);
    }

    /// So many bytes are missing from there on, behind those that are missing already.
    fn widen(&mut self, begin: u64, bytes: u64, cause: Cause) {
        match &mut self.gap {
            Some(gap) => gap.bytes += bytes,
            None => self.gap = Some(Gap { offset: begin, bytes, cause }),
        }
    }

    fn is_due(&self) -> bool {
        self.try_at.is_none_or(|at| Instant::now() >= at)
    }

    /// Writes the line of the gap, as a whole or not at all.
    fn mark(&mut self) {
        let Some(gap) = &self.gap else { return };
        let line = format!("{}{gap}\n", if self.ends_line { "" } else { "\n" });
        let (length, ends_line, written) = (self.in_file, self.ends_line, self.written);
        let (_, marked) = self.write(line.as_bytes());
        // The line is none of the stream's.
        self.written = written;
        if marked.is_ok() {
            (self.gap, self.try_at) = (None, None);
            return;
        }
        if let Place::Open(file) = &self.place
            && file.set_len(length).is_ok()
        {
            (self.in_file, self.ends_line) = (length, ends_line);
        }
        self.try_at = Some(Instant::now() + TRY_AGAIN);
    }

    /// How much of it was written, and what kept the rest.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut done = 0;
        while done < bytes.len() {
            match self.file().and_then(|mut file| file.write(&bytes[done..])) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    done += count;
                    self.written += count as u64;
                    self.in_file += count as u64;
                    self.ends_line = bytes[done - 1] == b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    fn file(&mut self) -> io::Result<&File> {
        if let Place::Path(path) = &self.place {
            self.place = Place::Open(plain_file::create(path)?);
        }
        match &self.place {
            Place::Open(file) => Ok(file),
            Place::Path(_) => unreachable!("it was opened above"),
        }
    }
}

/// Of a short output, half is the tail.
fn tail_max(max_bytes: u64) -> u64 {
    TAIL_MAX.min(max_bytes / 2)
}
