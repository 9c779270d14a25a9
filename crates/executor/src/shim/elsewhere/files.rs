//! Ids that a job reports in its file, and those that lines of its output name.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use tidemill_model::ExternalWorkId;

use crate::attempt_dir::{AttemptDir, ReportedWork};
use crate::external_work::{ExternalWorkConfig, Pattern};
use crate::plain_file;
use crate::shim::output::GAP_MARK;

/// Longest line that can name an id, bytes.
const LINE_MAX: usize = 4 << 10;
const CHUNK: usize = 64 << 10;

pub(super) struct Files<'a> {
    dir: AttemptDir,
    config: &'a ExternalWorkConfig,
    pattern: Option<Pattern<'a>>,
    logs: Vec<LogLines>,
}

impl<'a> Files<'a> {
    pub(super) fn new(dir: &AttemptDir, config: &'a ExternalWorkConfig) -> Self {
        let pattern = config.pattern.as_deref().and_then(Pattern::parse);
        let logs = pattern.iter().flat_map(|_| [dir.stdout(), dir.stderr()]).map(LogLines::new).collect();
        Self { dir: dir.clone(), config, pattern, logs }
    }

    /// The ids in lines of the output that were not read yet.
    pub(super) fn printed(&mut self) -> Vec<ExternalWorkId> {
        self.printed_lines(false)
    }

    /// The same, once nobody writes any more.
    pub(super) fn last_printed(&mut self) -> Vec<ExternalWorkId> {
        self.printed_lines(true)
    }

    fn printed_lines(&mut self, is_over: bool) -> Vec<ExternalWorkId> {
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
    pub(super) fn reported(&self) -> Report {
        let ReportedWork { lines, is_whole } = self.dir.reported_work();
        let ids = lines.lines().filter_map(|line| self.config.id(line.trim())).collect();
        Report { ids, is_whole }
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

/// The lines of a log, each once, but those next to a gap: the line before it may lack its end, and the one after it its beginning.
struct LogLines {
    path: PathBuf,
    offset: u64,
    /// Of the line that is not whole yet; absent: it is too long.
    begun: Option<Vec<u8>>,
    /// The last line, until it is known what follows it.
    last: Option<String>,
    is_after_gap: bool,
}

impl LogLines {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, begun: Some(Vec::new()), last: None, is_after_gap: false }
    }

    /// A line without its end is none, whoever writes.
    fn each_new(&mut self, is_over: bool, mut of: impl FnMut(&str)) {
        let Ok(mut file) = open_at(&self.path, self.offset) else { return };
        let (before, mut chunk) = (self.offset, vec![0; CHUNK]);
        while let Ok(count) = file.read(&mut chunk) {
            if count == 0 {
                break;
            }
            self.offset += count as u64;
            self.take(&chunk[..count], &mut of);
        }
        // The line of a gap is written together with what ends the line before it.
        let is_last = is_over || self.offset == before;
        if let Some(last) = self.last.take_if(|_| is_last) {
            of(&last);
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
            if is_whole {
                let line = self.begun.replace(Vec::new());
                self.end_line(line.as_deref().map(String::from_utf8_lossy).as_deref(), of);
            }
        }
    }

    /// Absent: it is too long.
    fn end_line(&mut self, line: Option<&str>, of: &mut impl FnMut(&str)) {
        let last = self.last.take();
        let is_gap = line.is_some_and(|line| line.starts_with(GAP_MARK));
        if let Some(last) = last.filter(|_| !is_gap) {
            of(&last);
        }
        let is_after_gap = std::mem::replace(&mut self.is_after_gap, is_gap);
        let counts = !is_gap && !is_after_gap;
        self.last = line.filter(|_| counts).map(|line| line.trim_end_matches('\r').to_owned());
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
        let none = Vec::<String>::new();
        assert_eq!(read("a\nb", false), none, "what follows it is not known");
        assert_eq!(read("c\r\n", false), ["a"]);
        assert_eq!(read("", false), ["bc"]);
        assert_eq!(read(&"x".repeat(LINE_MAX + 1), false), none);
        assert_eq!(read("y\nd\ne\ncut", false), ["d"]);
        assert_eq!(read("", true), ["e"], "without its end it may be another one");
    }

    /// EXE-13: a line next to a gap may be part of another one.
    #[test]
    fn lines_next_to_a_gap_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let gap = format!("{GAP_MARK}offset=7 dropped=9 reason=x");
        std::fs::write(&path, format!("a\ncut\n{gap}\nrest\nb\ncut\n{gap}\n{gap}\nrest\nc\n")).unwrap();
        let mut found = Vec::new();
        LogLines::new(path).each_new(true, |line| found.push(line.to_owned()));
        assert_eq!(found, ["a", "b", "c"]);
    }
}
