//! What the worker says of an attempt: `DIR/worker`, a stream beside what its job prints (LOG-2).
//!
//! ```text
//! 2026-11-27T23:08:05.123Z a kill was ordered (asked): it has 10000 ms to end by itself
//! 2026-11-27T23:08:15.127Z it was ended by signal 9 (SIGKILL): killed on request
//! ```
//! Of an attempt that runs and ends by itself within its limits, nothing is said. No attempt depends on its lines: what cannot be
//! written is missing.

use std::io::{self, Write as _};

use nix::sys::signal::Signal;
use tidemill_model::{Excess, ExcessKind, Timestamp};

use crate::attempt_dir::{AttemptDir, ExitRecord, OutputCount};
use crate::plain_file;
use crate::shim::KillCause;
use crate::worker::{ProcessEnd, VANISHED, killed, said_of_excess};

/// Bytes of all lines.
const MAX_BYTES: u64 = 64 << 10;
/// Characters of a line.
const MAX_LINE: usize = 1_000;
/// Another life of the worker hears from its shim.
pub(super) const TAKEN_OVER: &str = "the worker has started anew, and has taken it over";

pub(super) fn of_kill(grace_ms: u64, because: KillCause) -> String {
    format!("a kill was ordered ({because}): it has {grace_ms} ms to end by itself")
}

/// When it is now. A note may wait until it is written.
pub(super) fn now() -> Timestamp {
    jiff::Timestamp::now().into()
}

/// Says this, which was so at that time.
pub(super) fn add(dir: &AttemptDir, at: Timestamp, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    match append(dir, at, lines) {
        Ok(()) => {}
        // Nothing of it is left: an attempt that could not begin, or whose job has removed its directory.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        Err(error) => {
            tracing::warn!(dir = %dir.path().display(), %error, "what the worker says of an attempt is not kept");
        }
    }
}

/// What a line quotes may hold anything.
fn shown(line: &str) -> String {
    let line: String = line.chars().take(MAX_LINE).collect();
    line.replace(char::is_control, " ")
}

fn append(dir: &AttemptDir, at: Timestamp, lines: &[String]) -> io::Result<()> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("{at} {}\n", shown(line)));
    }
    let mut file = plain_file::append(&dir.worker())?;
    if file.metadata()?.len() + text.len() as u64 > MAX_BYTES {
        return Ok(());
    }
    file.write_all(text.as_bytes())
}

/// Says how it ended, where that is not as usual. A worker may learn that again in its next life, and says it once.
pub(super) fn add_end(dir: &AttemptDir, end: &ProcessEnd) {
    add_once(dir, now(), of_end(end));
}

/// The same, of its record.
pub(super) fn add_record(dir: &AttemptDir, at: Timestamp, record: &ExitRecord) {
    add_once(dir, at, of_record(record));
}

fn add_once(dir: &AttemptDir, at: Timestamp, mut lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    if let Ok(said) = plain_file::read(&dir.worker(), MAX_BYTES) {
        let said = String::from_utf8_lossy(&said);
        let said: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        lines.retain(|line| !said.contains(&shown(line).as_str()));
    }
    add(dir, at, &lines);
}

/// Whether there is anything to say of an end.
pub(super) fn has_of_end(record: &ExitRecord) -> bool {
    !of_record(record).is_empty()
}

fn of_end(end: &ProcessEnd) -> Vec<String> {
    match end {
        ProcessEnd::NotStarted(why) => vec![format!("it could not be started: {why}")],
        ProcessEnd::Vanished => vec![VANISHED.to_owned()],
        ProcessEnd::Recorded(record) | ProcessEnd::Checked { record, .. } => of_record(record),
        ProcessEnd::Judged { record, .. } => record.as_ref().map(of_record).unwrap_or_default(),
        // It goes to another worker, or the next attempt says why.
        ProcessEnd::NoRoom(_) | ProcessEnd::Abandoned => Vec::new(),
    }
}

fn of_record(record: &ExitRecord) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(record.error.as_ref().map(|error| format!("it could not be started: {error}")));
    let because = record.kill_cause.map(|because| killed(because).1);
    match (record.signal, because) {
        (Some(signal), because) => {
            let name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
            let because = because.map(|because| format!(": {because}")).unwrap_or_default();
            lines.push(format!("it was ended by signal {signal} ({name}){because}"));
        }
        (None, Some(because)) => lines.push(because),
        (None, None) => {}
    }
    lines.extend(record.excess.map(of_excess));
    if !record.unenforced.is_empty() {
        let kinds: Vec<&str> = record.unenforced.iter().map(|kind| kind.field()).collect();
        lines.push(format!("limits that could not be kept here: {}", kinds.join(", ")));
    }
    for (name, OutputCount { dropped_bytes, .. }) in [("stdout", record.stdout), ("stderr", record.stderr)] {
        if dropped_bytes > 0 {
            lines.push(format!("{dropped_bytes} bytes of its {name} are not kept; the log says where"));
        }
    }
    lines
}

fn of_excess(excess: Excess) -> String {
    let Excess { kind, limit, seen } = excess;
    let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
    let seen = seen.map(|seen| format!(" ({seen} were seen)")).unwrap_or_default();
    said_of_excess(Some(excess)).unwrap_or_else(|| match kind {
        ExcessKind::Output => format!("it printed more than its limit of {limit} MiB{seen}"),
        _ => {
            format!("it took more memory than the {limit} MiB at which an alarm is raised{seen}, and went on")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tidemill_model::LimitKind;

    use super::*;

    fn said(dir: &AttemptDir) -> Vec<String> {
        let text = fs::read_to_string(dir.worker()).unwrap_or_default();
        let without_time = |line: &str| {
            let (time, line) = line.split_once(' ').unwrap();
            assert!(time.parse::<Timestamp>().is_ok() && time.len() == 24, "{time}");
            line.to_owned()
        };
        text.lines().map(without_time).collect()
    }

    fn of(record: ExitRecord) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let dir = AttemptDir::new(dir.path());
        assert_eq!(has_of_end(&record), !of_record(&record).is_empty());
        for _ in 0..2 {
            add_end(&dir, &ProcessEnd::Recorded(record.clone()));
        }
        said(&dir)
    }

    /// LOG-2, EXE-7: an end that is not as usual is told once, with what it was; an ordinary one costs no file.
    #[test]
    fn only_an_unusual_end_is_told() {
        let none = ExitRecord::default;
        assert_eq!(of(ExitRecord { exit_code: Some(0), ..none() }), [""; 0]);
        assert_eq!(of(ExitRecord { exit_code: Some(3), ..none() }), [""; 0]);
        assert_eq!(of(ExitRecord { signal: Some(11), ..none() }), ["it was ended by signal 11 (SIGSEGV)"]);
        let asked = ExitRecord { signal: Some(15), kill_cause: Some(KillCause::Asked), ..none() };
        assert_eq!(of(asked), ["it was ended by signal 15 (SIGTERM): killed on request"]);
        let lease = ExitRecord { exit_code: Some(1), kill_cause: Some(KillCause::Lease), ..none() };
        assert_eq!(of(lease), ["killed because the worker's lease ran out"]);
        let error = ExitRecord { error: Some("cannot start \"x\":\nnone".to_owned()), ..none() };
        assert_eq!(of(error), ["it could not be started: cannot start \"x\": none"]);
        let excess =
            |kind| ExitRecord { excess: Some(Excess { kind, limit: Some(5), seen: Some(7) }), ..none() };
        assert_eq!(
            of(excess(ExcessKind::Memory)),
            ["it wanted more memory than its limit of 5 MiB (7 were seen)"]
        );
        assert_eq!(of(excess(ExcessKind::Output)), ["it printed more than its limit of 5 MiB (7 were seen)"]);
        assert!(
            of(excess(ExcessKind::MemoryAlarm))[0].contains("alarm is raised (7 were seen), and went on")
        );
        let unenforced = ExitRecord { unenforced: vec![LimitKind::Cpu, LimitKind::Memory], ..none() };
        assert_eq!(of(unenforced), ["limits that could not be kept here: cpu_percent, memory_mb"]);
        let stderr = OutputCount { written_bytes: 1, dropped_bytes: 9 };
        assert_eq!(
            of(ExitRecord { stderr, ..none() }),
            ["9 bytes of its stderr are not kept; the log says where"]
        );
    }

    /// LOG-2: the lines take no more than their bound, and go into no other file.
    #[test]
    fn lines_are_bounded_and_go_through_no_link() {
        let below = tempfile::tempdir().unwrap();
        let dir = AttemptDir::new(below.path());
        for _ in 0..1_000 {
            add(&dir, now(), &["x".repeat(2_000)]);
        }
        let length = fs::metadata(dir.worker()).unwrap().len();
        assert!(length <= MAX_BYTES && length > MAX_BYTES - 2_000, "{length}");
        fs::remove_file(dir.worker()).unwrap();
        fs::write(below.path().join("other"), "text").unwrap();
        symlink(below.path().join("other"), dir.worker()).unwrap();
        add(&dir, now(), &["a line".to_owned()]);
        assert_eq!(fs::read_to_string(below.path().join("other")).unwrap(), "text");
        add(&AttemptDir::new(below.path().join("none")), now(), &["a line".to_owned()]);
        assert!(!below.path().join("none").exists());
    }

    /// LOG-2: a line says when it was so, however long it has waited to be written.
    #[test]
    fn line_has_the_time_of_what_it_says() {
        let below = tempfile::tempdir().unwrap();
        let dir = AttemptDir::new(below.path());
        add(&dir, Timestamp::UNIX_EPOCH, &["a line".to_owned()]);
        let record = ExitRecord { signal: Some(9), ..ExitRecord::default() };
        add_record(&dir, Timestamp::UNIX_EPOCH, &record);
        let text = fs::read_to_string(dir.worker()).unwrap();
        assert!(text.lines().all(|line| line.starts_with("1970-01-01T00:00:00.000Z ")), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}
