//! The directory of one attempt: what stands in it, and who may write what.
//!
//! ```text
//! script.EXT  the job's text, where it has one            worker, before the shim starts
//! output_path what exists if it has succeeded, where its  worker, before the shim starts
//!             job says so
//! run         a symbolic link to nowhere: its text names  worker, before the shim starts
//!             batch, job and logical time
//! work/       the job's working directory                 the job
//! stdout      what the job has printed; that it is there  its shim, which makes it, or a worker that starts,
//!             says that exec has happened, or never will  exclusively, under the lock
//! stderr      what the job has printed there              its shim, with the first byte
//! times       when what was printed arrived               its shim, where that goes on for a while
//! worker      what the worker says of the attempt         the worker, with the first line
//! values.json what it passes to children, if anything    the job; made empty by its shim, where the job
//!                                                         runs as another account
//! work_ids    ids of what it has started elsewhere, a     the job; made empty likewise
//!             line each, if it says so
//! control     where the next worker finds the shim        the shim, once its worker is gone
//! exit.json   how it ended; its tree is empty             shim, atomically
//! ```
//! The directory is the worker's own, and only where the job runs as another account may the group of that account
//! pass through it (0710) to what was given to the account: `work/` (0700), the script and the values (0600). A job of the worker's own account can put anything in place of any of these, so that all of them are
//! opened as [`plain_file`] does it.
//!
//! The directory itself is the lock (`flock`): held while the shim lives, or by a worker that starts, while it
//! looks. There are few files on purpose: making one costs a file system more than anything else done here.
//!
//! Nothing here is synced to the disk. It has to outlive processes, which the page cache does; it need not
//! outlive the machine, because a worker's identity does not either: after a reboot another worker begins,
//! no grant of the old one counts for it, and nothing of the old one runs.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use tidemill_derive::skip_none;
use tidemill_model::{Excess, ExternalWorkId, LimitKind, RunSpec, RunningAttempt, Timestamp, Token};

use crate::external_work::{ExternalState, ExternalWorkConfig};
use crate::limits::ShimLimits;
use crate::plain_file;
use crate::shim::{KillCause, Lease};

/// Longest record of an end, bytes: it holds values and messages, which have bounds of their own.
const RECORD_MAX_BYTES: u64 = 1 << 20;
/// So much of a job's report of external work is read, bytes: more than a thousand of the longest ids take.
const REPORT_MAX_BYTES: u64 = 256 << 10;
/// Longest output path, bytes; longer than any that a definition may have.
const PATH_MAX_BYTES: u64 = 1 << 20;

/// A record of when output arrived, bytes.
pub(crate) const TIMES_RECORD_BYTES: usize = 17;
/// The most records of an attempt.
pub(crate) const TIMES_MAX: u64 = 1_000_000;

/// What a shim runs: the first line that it hears.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimSpec {
    /// Program and arguments; the program is looked up in the job's `PATH` if it has no slash.
    pub argv: Vec<String>,
    /// The whole environment of the job.
    pub env: BTreeMap<String, String>,
    /// From TERM to KILL when the worker is gone, milliseconds.
    pub grace_ms: u64,
    /// Until when it may live; absent: as long as it likes.
    pub lease: Option<Lease>,
    /// The longest that it may run, milliseconds; absent: as long as it likes.
    pub limit_ms: Option<u64>,
    /// The account that it runs as; absent: the shim's own.
    pub run_as: Option<String>,
    /// Its umask; absent: the shim's own.
    pub umask: Option<u32>,
    /// The longest log of each of its two outputs, bytes; absent: as long as it likes.
    pub output_max_bytes: Option<u64>,
    /// Its limits; absent: none.
    pub limits: Option<Box<ShimLimits>>,
    /// How work that it starts elsewhere is found and ended; absent: it starts none.
    pub external: Option<Box<ShimExternal>>,
    /// Secrets that no log of it shows, at most 64 of 6 bytes or more each, of 65,536 together. Absent where there are none, so that an older shim
    /// reads the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
}

/// What a shim does about work that its job starts elsewhere (EXE-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimExternal {
    /// How it is found and ended.
    pub config: ExternalWorkConfig,
    /// What it carries.
    pub tag: String,
    /// Earlier attempts, what is left of which is ended before the job starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierWork>,
}

/// What an earlier attempt may have left elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierWork {
    /// What it carries.
    pub tag: String,
    /// What is known of it.
    pub ids: Vec<ExternalWorkId>,
}

/// What became of work that an attempt has started elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExternalRecord {
    /// How each ended, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<ExternalWorkId, Option<ExternalState>>,
    /// Nobody could make sure that all of it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// These states say whether the attempt has succeeded, if there are any; it has not where they are not all known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
}

/// What became of one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputCount {
    /// Bytes of it that are in its log.
    pub written_bytes: u64,
    /// Bytes that are not; the log says where they are missing, and why.
    pub dropped_bytes: u64,
}

impl OutputCount {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How an attempt ended. Written when no process of it is left.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The main process's exit code, where there was one.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process, where one did.
    pub signal: Option<i32>,
    /// Why it was ended, where it did not end by itself.
    pub kill_cause: Option<KillCause>,
    /// Why it could not be started, where it could not.
    pub error: Option<String>,
    /// What it passes on to children.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Why what it passes on cannot be taken.
    pub values_fault: Option<String>,
    /// From exec to the end of the tree, milliseconds.
    pub duration_ms: u64,
    /// User and system time of the tree, milliseconds.
    pub cpu_ms: u64,
    /// The most memory of the whole tree that was seen, or the largest resident set of any one process of it, KiB; not below
    /// the shim's own few MiB.
    pub peak_memory_kib: u64,
    /// What it has printed to stdout; absent: nothing, or the record is of an earlier version.
    #[serde(default, skip_serializing_if = "OutputCount::is_empty")]
    pub stdout: OutputCount,
    /// What it has printed to stderr; absent likewise.
    #[serde(default, skip_serializing_if = "OutputCount::is_empty")]
    pub stderr: OutputCount,
    /// The most processes and threads at once that were seen.
    pub peak_processes: Option<u32>,
    /// Read from disks, KiB.
    pub read_kib: Option<u64>,
    /// Written to disks, KiB.
    pub written_kib: Option<u64>,
    /// What it wanted more of than there was.
    pub excess: Option<Excess>,
    /// Limits that it had and nobody could keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<LimitKind>,
    /// What it started elsewhere; absent: its type starts nothing there, or it was not started.
    pub external: Option<ExternalRecord>,
}

/// Locks a directory that is open, unless somebody else has the lock. It lasts as long as any descriptor that was inherited of
/// this one.
pub(crate) fn try_lock(directory: &File) -> io::Result<bool> {
    match flock(directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A socket in a directory that is open, however long the directory's path is.
pub(crate) fn control_in(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/control", directory.as_raw_fd()))
}

/// What a job has reported to have started elsewhere.
pub(crate) struct ReportedWork {
    /// An id each, if it is one.
    pub(crate) lines: String,
    /// There is no more that could not be read.
    pub(crate) is_whole: bool,
}

/// The directory of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir(PathBuf);

impl AttemptDir {
    /// Names it; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The last part of its path: the token.
    pub(crate) fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or("attempt")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// What the job passes to children.
    pub(crate) fn values(&self) -> PathBuf {
        self.0.join("values.json")
    }

    /// What the job reports to have started elsewhere.
    pub(crate) fn work_ids(&self) -> PathBuf {
        self.0.join("work_ids")
    }

    /// What stands there so far. A line counts with its end: what is cut may be another id.
    pub(crate) fn reported_work(&self) -> ReportedWork {
        let mut bytes = Vec::new();
        let read = plain_file::open(&self.work_ids())
            .and_then(|file| file.take(REPORT_MAX_BYTES + 1).read_to_end(&mut bytes));
        let is_cut = match read {
            Ok(_) => bytes.len() as u64 > REPORT_MAX_BYTES,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let is_whole = !is_cut && end == bytes.len();
        bytes.truncate(end);
        ReportedWork { lines: String::from_utf8_lossy(&bytes).into_owned(), is_whole }
    }

    pub(crate) fn stdout(&self) -> PathBuf {
        self.0.join("stdout")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.0.join("stderr")
    }

    /// When output arrived.
    pub(crate) fn times(&self) -> PathBuf {
        self.0.join("times")
    }

    /// What the worker says of the attempt.
    pub(crate) fn worker(&self) -> PathBuf {
        self.0.join("worker")
    }

    /// Makes the directory, which must not be there, and the job's own below it.
    pub(crate) fn create(&self) -> io::Result<()> {
        let mut make = DirBuilder::new();
        make.mode(plain_file::DIRECTORY_MODE);
        make.create(&self.0)?;
        make.create(self.work())
    }

    /// What it runs, for a later life of the worker (ADR 47). A link takes one system call and no block of the disk.
    pub(crate) fn note_run(&self, spec: &RunSpec) -> io::Result<()> {
        let RunSpec { batch, job, logical_time, ending, .. } = spec;
        let of = if ending.is_some() { "/final" } else { "" };
        symlink(format!("{batch}/{job}/{logical_time}{of}"), self.0.join("run"))
    }

    /// What was noted, unless that was an earlier version, or a job of the worker's own account has put something in its place.
    pub(crate) fn noted_run(&self, token: Token) -> Option<RunningAttempt> {
        let noted = fs::read_link(self.0.join("run")).ok()?;
        let mut parts = noted.to_str()?.split('/');
        let (batch, job) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let logical_time = parts.next()?.parse().ok()?;
        let is_final = match (parts.next(), parts.next()) {
            (None, _) => false,
            (Some("final"), None) => true,
            _ => return None,
        };
        Some(RunningAttempt { token, batch, job, logical_time, is_final })
    }

    /// What has to exist for success, for whoever learns how it ended.
    pub(crate) fn note_output_path(&self, path: &str) -> io::Result<()> {
        plain_file::create(&self.0.join("output_path"))?.write_all(path.as_bytes())
    }

    /// When the output path was noted, just before the attempt began.
    pub(crate) fn output_path_noted_at(&self) -> io::Result<Timestamp> {
        let noted_at = fs::symlink_metadata(self.0.join("output_path"))?.modified()?;
        let since = noted_at.duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
        let ms = i64::try_from(since.as_millis()).map_err(io::Error::other)?;
        Timestamp::from_millisecond(ms).map_err(io::Error::other)
    }

    pub(crate) fn output_path(&self) -> Option<String> {
        let bytes = plain_file::read(&self.0.join("output_path"), PATH_MAX_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Nothing of the attempt has begun, and nothing will.
    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(dir = %self.0.display(), %error, "cannot remove the directory of an attempt");
        }
    }

    /// How it ended; `None` while it has not, or if that was never written down.
    pub fn exit_record(&self) -> io::Result<Option<ExitRecord>> {
        match plain_file::read(&self.0.join("exit.json"), RECORD_MAX_BYTES) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        fs::symlink_metadata(self.0.join("exit.json")).is_ok()
    }

    /// There as a whole or not at all.
    pub(crate) fn write_exit_record(&self, record: &ExitRecord) -> io::Result<()> {
        let temporary = self.0.join("exit.json.new");
        plain_file::replace(&temporary, &serde_json::to_vec(record)?)?;
        fs::rename(&temporary, self.0.join("exit.json"))
    }

    /// Whoever makes the marker decides: the shim execs, a starting worker makes sure that no shim will.
    /// Gives the log of its stdout, if it was this call.
    pub(crate) fn mark_started(&self) -> io::Result<Option<File>> {
        match plain_file::create(&self.stdout()) {
            Ok(stdout) => Ok(Some(stdout)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A line to its shim, which waits for the next worker. Waits for nothing.
    pub(crate) fn connect_to_shim(&self) -> io::Result<UnixStream> {
        let directory = plain_file::open_dir(&self.0)?;
        let control = SocketAddrUnix::new(control_in(&directory))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &control)?;
        Ok(socket.into())
    }

    /// The lock, or `None` where somebody else has it.
    pub(crate) fn try_lock(&self) -> io::Result<Option<File>> {
        let directory = plain_file::open_dir(&self.0)?;
        Ok(try_lock(&directory)?.then_some(directory))
    }

    /// The lock, waited for.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let directory = plain_file::open_dir(&self.0)?;
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

    use super::*;

    /// EXE-10: what an attempt runs is read back as it was noted; what something else has put there is none.
    #[test]
    fn noted_run_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = AttemptDir::new(dir.path());
        assert_eq!(attempt.noted_run(Token(8)), None);
        for (text, is_final) in [
            ("5/6/2026-07-01T09:00:00Z", Some(false)),
            ("5/6/2026-07-01T09:00:00Z/final", Some(true)),
            ("5/6", None),
            ("5/x/2026-07-01T09:00:00Z", None),
            ("5/6/2026-07-01T09:00:00Z/other", None),
            ("/etc/passwd", None),
        ] {
            let _ = fs::remove_file(dir.path().join("run"));
            symlink(text, dir.path().join("run")).unwrap();
            let noted = attempt.noted_run(Token(8));
            assert_eq!(noted.map(|run| run.is_final), is_final, "{text}");
            let of =
                |run: RunningAttempt| (run.token.0, run.batch.0, run.job.0, run.logical_time.to_string());
            let wanted = is_final.map(|_| (8, 5, 6, "2026-07-01T09:00:00.000Z".to_owned()));
            assert_eq!(noted.map(of), wanted, "{text}");
        }
    }
}
