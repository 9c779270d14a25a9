//! When output arrived (LOG-2): `DIR/times`, for whoever shows both outputs in the order in which they came.
//!
//! ```text
//! ┌───────────┬──────────────────────┬───────────────────────────┐
//! │ stream, 1 │ offset in its log, 8 │ milliseconds since 1970, 8│  the least first; at most one of a stream in 100 ms
//! └───────────┴──────────────────────┴───────────────────────────┘
//! ```
//! The file is made when a stream has its second: of what was printed at once, the time of the log says when. No output depends on
//! these times, so what cannot be written is missing.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::attempt_dir::{TIMES_MAX, TIMES_RECORD_BYTES};
use crate::plain_file;

/// Between two records of a stream.
const EVERY: Duration = Duration::from_millis(100);

pub(super) struct Times {
    path: PathBuf,
    file: Option<File>,
    /// Of each stream, when it had its last record.
    last: [Option<Instant>; 2],
    /// What is not written yet: at most the first record of each.
    waiting: Vec<u8>,
    /// How many records the file has.
    count: u64,
}

impl Times {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, last: [None; 2], waiting: Vec::new(), count: 0 }
    }

    /// Bytes of a stream are written to its log, from this one on.
    pub(super) fn note(&mut self, stream: usize, offset: u64) {
        let (now, last) = (Instant::now(), &mut self.last[stream]);
        if self.count >= TIMES_MAX || last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return;
        }
        let is_first = last.replace(now).is_none();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        self.waiting.push(u8::try_from(stream).expect("there are two"));
        self.waiting.extend(offset.to_le_bytes());
        self.waiting.extend(ms.to_le_bytes());
        if !is_first || self.file.is_some() {
            self.write();
        }
    }

    fn write(&mut self) {
        let records = std::mem::take(&mut self.waiting);
        if self.file.is_none() {
            self.file = plain_file::create(&self.path).ok();
        }
        let is_whole = self.file.as_mut().is_some_and(|file| file.write_all(&records).is_ok());
        if is_whole {
            self.count += records.len() as u64 / TIMES_RECORD_BYTES as u64;
            return;
        }
        // Of a record that is not whole nothing stays, or no other one is written.
        let length = self.count * TIMES_RECORD_BYTES as u64;
        if self.file.as_ref().is_none_or(|file| file.set_len(length).is_err()) {
            self.count = TIMES_MAX;
        }
    }
}
