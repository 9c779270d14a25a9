//! The directory of one attempt: what stands in it, and who may write what.
//!
//! ```text
//! spec.json   what the shim runs                    worker, before the shim starts
//! script.EXT  the job's text, where it has one      worker, before the shim starts
//! work/       the job's working directory           the job
//! lock        held while the shim lives             shim; a worker that starts, while it looks
//! started     exec has happened, or never will      shim or a worker that starts, exclusively, under `lock`
//! stdout      the job's own writes, unbuffered      the job
//! stderr
//! exit.json   how it ended; its tree is empty       shim, atomically
//! ```
//!
//! Nothing here is synced to the disk. It has to outlive processes, which the page cache does; it need not
//! outlive the machine, because a worker's identity does not either: after a reboot another worker begins,
//! no grant of the old one counts for it, and nothing of the old one runs. (Three syncs per attempt were half
//! of its cost.)

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::shim::{KilledBecause, Lease};

/// What a shim runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimSpec {
    /// Program and arguments; the program is looked up in the shim's `PATH` if it has no slash.
    pub argv: Vec<String>,
    /// The whole environment of the job.
    pub env: BTreeMap<String, String>,
    /// From TERM to KILL when the worker is gone, milliseconds.
    pub grace_ms: u64,
    /// Until when it may live; absent: as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

/// How an attempt ended. Written when no process of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The main process's exit code, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the main process, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why it was ended, where it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_because: Option<KilledBecause>,
    /// Why it could not be started, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From exec to the end of the tree, milliseconds.
    pub duration_ms: u64,
    /// User and system time of the tree, milliseconds.
    pub cpu_ms: u64,
    /// Largest resident set of any one process of the tree, KiB; not below the shim's own few MiB.
    pub peak_memory_kib: u64,
}

/// The directory of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir(PathBuf);

impl AttemptDir {
    /// Names it; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(crate) fn stdout(&self) -> PathBuf {
        self.0.join("stdout")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.0.join("stderr")
    }

    /// Makes the directory, which must not be there, and what the shim needs.
    pub(crate) fn create(&self, spec: &ShimSpec) -> io::Result<()> {
        fs::create_dir(&self.0)?;
        fs::create_dir(self.work())?;
        fs::write(self.0.join("spec.json"), serde_json::to_vec(spec)?)
    }

    /// What the shim is to run.
    pub(crate) fn spec(&self) -> io::Result<ShimSpec> {
        Ok(serde_json::from_slice(&fs::read(self.0.join("spec.json"))?)?)
    }

    /// How it ended; `None` while it has not, or if that was never written down.
    pub fn exit_record(&self) -> io::Result<Option<ExitRecord>> {
        match fs::read(self.0.join("exit.json")) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether its end is written down.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.join("exit.json").exists()
    }

    /// There as a whole or not at all.
    pub(crate) fn write_exit_record(&self, record: &ExitRecord) -> io::Result<()> {
        let temporary = self.0.join("exit.json.new");
        fs::write(&temporary, serde_json::to_vec(record)?)?;
        fs::rename(&temporary, self.0.join("exit.json"))
    }

    /// Whoever makes the marker decides: the shim execs, a starting worker makes sure that no shim will.
    /// Says whether it was this call.
    pub(crate) fn mark_started(&self) -> io::Result<bool> {
        match OpenOptions::new().write(true).create_new(true).open(self.0.join("started")) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lock, or `None` where somebody else has it.
    pub(crate) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.lock_file()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The lock, waited for.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let file = self.lock_file()?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn lock_file(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).open(self.0.join("lock"))
    }
}
