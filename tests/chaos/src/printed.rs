//! What attempts have printed, by their own marks on disk, against what their logs have.
//!
//! A job prints the same lines whatever happens, so its log has to be the beginning of one known stream of bytes, but for
//! pieces of which the log itself says that they are missing.

use std::collections::BTreeMap;

use tidemill_model::LogStream;

use crate::jobs;

/// What the line begins with that stands for a piece that is missing.
const GAP: &[u8] = b"[tidemill] output gap: ";
/// No job prints more, bytes.
const STREAM_MAX: u64 = 64 << 20;

/// What an attempt said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) batch: i64,
    /// Its number, from 1.
    pub(crate) attempt: u32,
    /// Lines of stdout and of stderr that it had printed when it last said so.
    pub(crate) lines: [u64; 2],
    /// It came to its end by itself, so those are all.
    pub(crate) is_whole: bool,
}

/// What the marks say, by token.
pub(crate) fn printed(marks: &str) -> BTreeMap<i64, Printed> {
    let mut all: BTreeMap<i64, Printed> = BTreeMap::new();
    for mark in marks.lines() {
        let words: Vec<_> = mark.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word: &&str| word.parse::<i64>().ok());
        let (Some(token), Some(second), Some(third)) = (number(1), number(2), number(3)) else { continue };
        let attempt = all.entry(token).or_default();
        match words[0] {
            "start" => (attempt.batch, attempt.attempt) = (second, u32::try_from(third).unwrap_or(0)),
            "printed" => attempt.lines = [second.unsigned_abs(), third.unsigned_abs()],
            "end" | "fail" => attempt.is_whole = true,
            _ => {}
        }
    }
    all
}

/// What a log was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Pieces that are missing, as it says itself.
    pub(crate) gaps: usize,
}

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// What is there is right, and the rest is missing.
    Short(String),
    /// It has what was not printed, or not there.
    Other(String),
}

/// Compares a log with what the attempt has printed to one of its two streams.
pub(crate) fn judge(token: i64, printed: &Printed, stream: LogStream, log: &[u8]) -> Result<Found, Wrong> {
    let mut expected = Expected { token, stream, bytes: Vec::new(), ends: vec![0] };
    let (mut at, mut rest, mut gaps) = (0, log, 0);
    while let Some(Gap { offset, dropped, before, behind }) = next_gap(rest)? {
        gaps += 1;
        let length = offset.checked_sub(at).ok_or_else(|| other(format!("a gap begins at {}", offset)))?;
        // A line that was not finished is, before the line of the gap.
        let before = match before.split_last() {
            Some((b'\n', line)) if line.len() as u64 == length => line,
            _ => before,
        };
        if before.len() as u64 != length {
            let what = format!("{} bytes stand between {at} and the gap at {}", before.len(), offset);
            return Err(other(what));
        }
        expected.compare(at, before)?;
        (at, rest) = (offset.saturating_add(dropped), behind);
    }
    expected.compare(at, rest)?;
    let end = at + rest.len() as u64;
    let lines = printed.lines[stream.index()];
    let acknowledged = expected.end_of(lines)?;
    if end < acknowledged {
        return Err(Wrong::Short(format!("it ends at byte {end}, and line {lines} ends at {acknowledged}")));
    }
    if printed.is_whole && end > acknowledged {
        return Err(other(format!("it ends at byte {end}, and its last line, {lines}, at {acknowledged}")));
    }
    if gaps == 0 && expected.ends.binary_search(&end).is_err() {
        return Err(other(format!("it ends at byte {end}, within a line")));
    }
    Ok(Found { gaps })
}

fn other(what: String) -> Wrong {
    Wrong::Other(what)
}

/// A piece that is missing, as its line says.
struct Gap<'l> {
    offset: u64,
    dropped: u64,
    /// What stands before its line, and what behind.
    before: &'l [u8],
    behind: &'l [u8],
}

/// The first one.
fn next_gap(log: &[u8]) -> Result<Option<Gap<'_>>, Wrong> {
    let mut begin = 0;
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        let end = begin + line.len();
        if let Some(said) = line.strip_prefix(GAP) {
            let said = String::from_utf8_lossy(said);
            let number = |name: &str| {
                let words = said.split_whitespace();
                words.filter_map(|word| word.strip_prefix(name)).find_map(|text| text.parse().ok())
            };
            let (Some(offset), Some(dropped)) = (number("offset="), number("dropped=")) else {
                return Err(other(format!("the line of a gap cannot be read: {said}")));
            };
            return Ok(Some(Gap { offset, dropped, before: &log[..begin], behind: &log[end..] }));
        }
        begin = end;
    }
    Ok(None)
}

/// All that a job may print to one stream, as far as it was asked for.
struct Expected {
    token: i64,
    stream: LogStream,
    bytes: Vec<u8>,
    /// Where the first so many lines end.
    ends: Vec<u64>,
}

impl Expected {
    fn grow(&mut self) {
        let line = jobs::line(self.token, self.stream, self.ends.len() as u64);
        self.bytes.extend(line.as_bytes());
        self.ends.push(self.bytes.len() as u64);
    }

    fn grow_to(&mut self, end: u64) -> Result<(), Wrong> {
        if end > STREAM_MAX {
            return Err(other(format!("it goes on to byte {end}, and no job prints so much")));
        }
        while (self.bytes.len() as u64) < end {
            self.grow();
        }
        Ok(())
    }

    /// Where so many lines end.
    fn end_of(&mut self, lines: u64) -> Result<u64, Wrong> {
        let index = usize::try_from(lines).unwrap_or(usize::MAX);
        while self.ends.len() <= index {
            self.grow_to(self.bytes.len() as u64 + 1)?;
        }
        Ok(self.ends[index])
    }

    /// Whether these are the bytes from there on.
    fn compare(&mut self, at: u64, bytes: &[u8]) -> Result<(), Wrong> {
        self.grow_to(at.saturating_add(bytes.len() as u64))?;
        let begin = usize::try_from(at).unwrap_or(usize::MAX);
        let there = &self.bytes[begin.min(self.bytes.len())..];
        let Some(differs) = there.iter().zip(bytes).position(|(there, here)| there != here) else {
            return Ok(());
        };
        let byte = at + differs as u64;
        let number = self.ends.partition_point(|end| *end <= byte);
        let begin = bytes[..differs].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = bytes[begin..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(100)]).into_owned();
        Err(other(format!("at byte {byte}, within line {number}, it has {line:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::process::{Command, Stdio};

    const OUT: LogStream = LogStream::Stdout;

    fn log(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
        numbers.into_iter().map(|number| jobs::line(7, OUT, number)).collect::<String>().into_bytes()
    }

    fn whole(lines: u64) -> Printed {
        Printed { batch: 1, attempt: 1, lines: [lines, 0], is_whole: true }
    }

    fn killed(lines: u64) -> Printed {
        Printed { is_whole: false, ..whole(lines) }
    }

    fn is_other(printed: &Printed, log: &[u8]) -> bool {
        matches!(judge(7, printed, OUT, log), Err(Wrong::Other(_)))
    }

    fn is_short(printed: &Printed, log: &[u8]) -> bool {
        matches!(judge(7, printed, OUT, log), Err(Wrong::Short(_)))
    }

    /// LOG-1: each line once, in order; one that was killed may have printed more than it could say.
    #[test]
    fn log_that_has_every_line_once_is_right() {
        assert_eq!(judge(7, &whole(30), OUT, &log(1..=30)), Ok(Found { gaps: 0 }));
        assert_eq!(judge(7, &whole(0), OUT, b""), Ok(Found { gaps: 0 }));
        for more in 30..33 {
            assert_eq!(judge(7, &killed(30), OUT, &log(1..=more)), Ok(Found { gaps: 0 }), "{more}");
        }
    }

    /// LOG-1: the planted logs: a line is missing, stands twice, stands elsewhere, is another one's, or is half.
    #[test]
    fn wrong_logs_are_found() {
        for printed in [whole(30), killed(30)] {
            let without_one = log((1..=30).filter(|number| *number != 17));
            assert!(is_other(&printed, &without_one));
            assert!(is_other(&printed, &log((1..=17).chain(17..=30))));
            assert!(is_other(&printed, &log((1..=16).chain([18, 17]).chain(19..=30))));
            assert!(is_other(&printed, &log((1..=30).chain([30]))));
            assert!(is_other(&printed, &[log(1..=29), jobs::line(8, OUT, 30).into_bytes()].concat()));
            assert!(is_other(&printed, &[&log(1..=30)[..], b"7 stdout"].concat()));
            assert!(is_short(&printed, &log(1..=29)));
            assert!(is_short(&printed, &log(1..=30)[..100]));
            assert!(is_short(&printed, b""));
        }
        assert!(is_other(&whole(30), &log(1..=31)));
        let what = judge(7, &whole(30), OUT, &log((1..=16).chain(18..=30)));
        assert!(matches!(&what, Err(Wrong::Other(what)) if what.contains("line 17")), "{what:?}");
    }

    /// EXE-6: a gap says how much is missing, and everything else has to be there.
    #[test]
    fn gap_stands_for_what_it_says_and_for_no_more() {
        let all = log(1..=30);
        let with_gap = |begin: usize, end: usize, said: usize, line_end: &str| {
            let said = format!(
                "{line_end}[tidemill] output gap: offset={begin} dropped={said} reason=it was full\n"
            );
            [&all[..begin], said.as_bytes(), &all[end..]].concat()
        };
        let (line, half) = (log(1..=10).len(), log(1..=10).len() + 5);
        for printed in [whole(30), killed(30)] {
            assert_eq!(judge(7, &printed, OUT, &with_gap(line, 500, 500 - line, "")), Ok(Found { gaps: 1 }));
            assert_eq!(
                judge(7, &printed, OUT, &with_gap(half, 500, 500 - half, "\n")),
                Ok(Found { gaps: 1 })
            );
            let to_the_end = with_gap(half, all.len(), all.len() - half, "\n");
            assert_eq!(judge(7, &printed, OUT, &to_the_end), Ok(Found { gaps: 1 }));
            // It drops one byte more than it says.
            assert!(judge(7, &printed, OUT, &with_gap(line, 501, 500 - line, "")).is_err());
            assert!(judge(7, &printed, OUT, &with_gap(half, all.len(), all.len() - half - 1, "\n")).is_err());
        }
        assert!(is_other(&whole(30), &with_gap(line, 500, usize::MAX, "")));
        assert!(is_other(&whole(30), b"[tidemill] output gap: offset=x\n"));
        assert!(is_other(&whole(30), b"abc\n[tidemill] output gap: offset=1 dropped=5 reason=x\n"));
    }

    /// The program prints what is expected of it, and says so.
    #[test]
    fn program_prints_the_lines_that_are_expected() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("witness")).unwrap();
        jobs::write_program(dir.path()).unwrap();
        // Of these, one prints much, and one fails.
        for (token, is_failure) in [(23 * 4, false), (101 * 3, true)] {
            let mut command = Command::new("sh");
            command.args(["-c", &jobs::command(dir.path(), 2, 40)]).stdin(Stdio::null());
            command.envs([("TIDEMILL_JOB", "a/b"), ("TIDEMILL_LOGICAL_TIME", "2026")]);
            command.envs([("TIDEMILL_BATCH", "5"), ("TIDEMILL_ATTEMPT", "2")]);
            let output = command.env("TIDEMILL_TOKEN", token.to_string()).output().unwrap();
            assert_eq!(output.status.code(), Some(if is_failure { 7 } else { 0 }));
            let marks = std::fs::read_to_string(dir.path().join("witness/lines")).unwrap();
            let all = printed(&marks);
            let printed = &all[&token];
            assert_eq!((printed.batch, printed.attempt, printed.is_whole), (5, 2, true));
            assert!(printed.lines[0] >= if is_failure { 2 } else { 2_000 }, "{printed:?}");
            for (stream, log) in [(OUT, &output.stdout), (LogStream::Stderr, &output.stderr)] {
                assert_eq!(judge(token, printed, stream, log), Ok(Found { gaps: 0 }), "{token} {stream:?}");
            }
        }
    }
}
