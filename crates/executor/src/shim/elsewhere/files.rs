//! Ids that a job reports in its file, and those that lines of its output name.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use tidemill_model::ExternalWorkId;

use crate::attempt_dir::AttemptDir;
use crate::external_work::{ExternalWorkConfig, Pattern};
use crate::plain_file;

/// So much of the file of ids is read, bytes: more than a thousand of the longest take.
const REPORT_MAX_BYTES: u64 = 256 << 10;
/// Longest line that can name an id, bytes.
const LINE_MAX: usize = 4 << 10;
const CHUNK: usize = 64 << 10;

pub(super) struct Files<'a> {
    report: PathBuf,
    config: &'a ExternalWorkConfig,
    pattern: Option<Pattern<'a>>,
    logs: Vec<LogLines>,
}

impl<'a> Files<'a> {
    pub(super) fn new(dir: &AttemptDir, config: &'a ExternalWorkConfig) -> Self {
        let pattern = config.pattern.as_deref().and_then(Pattern::parse);
        let logs = pattern.iter().flat_map(|_| [dir.stdout(), dir.stderr()]).map(LogLines::new).collect();
        Self { report: dir.work_ids(), config, pattern, logs }
    }

    /// The ids in lines of the output that were not read yet. A line that is not whole counts once nobody writes any more.
    pub(super) fn printed(&mut self, is_over: bool) -> Vec<ExternalWorkId> {
        let mut ids = Vec::new();
        let Self { config, pattern, logs, .. } = self;
        if let Some(pattern) = pattern {
            for log in logs {
                log.each_new(is_over, |line| {
                    ids.extend(pattern.word_in(line).and_then(|word| config.id(word)));
                });
            }
        }
        ids
    }

    /// All that the job has reported so far.
    pub(super) fn reported(&self, is_over: bool) -> Report {
        let mut bytes = Vec::new();
        let read = plain_file::open(&self.report)
            .and_then(|file| file.take(REPORT_MAX_BYTES + 1).read_to_end(&mut bytes));
        let is_cut = match read {
            Ok(_) => bytes.len() as u64 > REPORT_MAX_BYTES,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let end = if is_over && !is_cut { bytes.len() } else { whole(&bytes) };
        let text = String::from_utf8_lossy(&bytes[..end]);
        let ids = text.lines().filter_map(|line| self.config.id(line.trim())).collect();
        Report { ids, is_whole: !is_cut }
    }
}

/// What stands in the file of ids.
pub(super) struct Report {
    pub(super) ids: Vec<ExternalWorkId>,
    /// There is no more that could not be read.
    pub(super) is_whole: bool,
}

/// How much of it is whole lines.
pub(super) fn whole(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The lines of a log, each once.
struct LogLines {
    path: PathBuf,
    offset: u64,
    /// Of the line that is not whole yet; absent: it is too long.
    begun: Option<Vec<u8>>,
}

impl LogLines {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, begun: Some(Vec::new()) }
    }

    fn each_new(&mut self, is_over: bool, mut of: impl FnMut(&str)) {
        let Ok(mut file) = open_at(&self.path, self.offset) else { return };
        let mut chunk = vec![0; CHUNK];
        while let Ok(count) = file.read(&mut chunk) {
            if count == 0 {
                break;
            }
            self.offset += count as u64;
            self.take(&chunk[..count], &mut of);
        }
        if is_over && let Some(last) = self.begun.take() {
            of(&String::from_utf8_lossy(&last));
        }
    }

    fn take(&mut self, bytes: &[u8], of: &mut impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            if let Some(begun) = &mut self.begun {
                begun.extend_from_slice(text);
            }
            let is_too_long = self.begun.as_ref().is_some_and(|begun| begun.len() > LINE_MAX);
            if is_too_long {
                self.begun = None;
            }
            if is_whole && let Some(line) = self.begun.replace(Vec::new()) {
                of(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            }
        }
    }
}

fn open_at(path: &Path, offset: u64) -> std::io::Result<File> {
    let mut file = plain_file::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXE-13: a line is read once, however it is cut, and one that is too long names nothing.
    #[test]
    fn lines_of_a_log_are_read_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut lines = LogLines::new(path.clone());
        let mut read = |text: &str, is_over: bool| {
            use std::io::Write as _;
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let mut found = Vec::new();
            lines.each_new(is_over, |line| found.push(line.to_owned()));
            found
        };
        assert_eq!(read("a\nb", false), ["a"]);
        assert_eq!(read("c\r\n", false), ["bc"]);
        assert_eq!(read(&"x".repeat(LINE_MAX + 1), false), Vec::<String>::new());
        assert_eq!(read("y\nd\ne", false), ["d"]);
        assert_eq!(read("", true), ["e"]);
    }
}
