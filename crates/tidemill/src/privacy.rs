//! What other accounts of this host see of our processes and files: nothing but names.
//!
//! ```text
//!  data_dir/                0700; as root 0711, so that a job's account reaches its own attempt
//!    *.key tables.sqlite*   0600
//!    log/                   0700
//!    worker/                0700; as root 0711
//!      attempts/TOKEN/      what the job's account enters: docs/security.md
//! ```
//! The modes of new files come from the process's umask, so that no library has to be told. Jobs get the umask that
//! this process was started with.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior, umask};
use tidemill_cli::{Done, Failure};

use crate::config::Settings;

/// The umask of a role: its files are its own account's.
const UMASK: u32 = 0o077;
/// What a directory keeps of a wider mode.
const CLOSED: u32 = 0o700;
/// The same where jobs of other accounts pass through.
const PASSABLE: u32 = 0o711;
/// The bit by which everybody may make files in a directory, as in `/tmp`.
const STICKY: u32 = 0o1000;

static STARTED_WITH: OnceLock<u32> = OnceLock::new();

/// Memory, environment and descriptors of this process are nobody else's to read through `/proc`, nor to trace: not
/// for a job of the same account either. It holds until another program is executed.
pub(crate) fn hide_process() {
    // It fails for no value that there is; without it, the start of an executor says less than it should, no more.
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    debug_assert!(hidden.is_ok(), "the value is known to the kernel");
}

/// From here on new files are this account's alone. Must come before the first thread and the first file of a role.
pub(crate) fn begin() {
    let before = umask(Mode::from_raw_mode(UMASK));
    // Twice only in one process that runs a role in another, where the first one counts.
    let _ = STARTED_WITH.set(before.as_raw_mode());
}

/// Closes to others what is there already of the data directory and the keys, and says so.
pub(crate) fn close(settings: &Settings) {
    let mut closed = Vec::new();
    for dir in [settings.data_dir.as_path(), settings.keys_dir()] {
        close_tree(dir, &mut closed);
    }
    if !closed.is_empty() {
        let names = closed.join(", ");
        tracing::warn!("other accounts of this host could read these; they are closed to them now: {names}");
    }
}

/// The umask that this process was started with, once it has another.
pub(crate) fn umask_of_start() -> Option<u32> {
    STARTED_WITH.get().copied()
}

/// Makes a directory of ours where it is not there.
pub(crate) fn make_dir(dir: &Path) -> Done {
    let cannot =
        |error: io::Error| Failure::caused(format!("cannot make the directory {}", dir.display()), &error);
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(cannot)?;
    fs::set_permissions(dir, Permissions::from_mode(mode_of_dir())).map_err(cannot)
}

/// Only root becomes other accounts.
fn mode_of_dir() -> u32 {
    if geteuid().is_root() { PASSABLE } else { CLOSED }
}

/// A directory and what this program writes into it. What else may lie there is its owner's business.
fn close_tree(dir: &Path, closed: &mut Vec<String>) {
    let Ok(found) = fs::metadata(dir) else { return };
    if found.mode() & STICKY != 0 {
        tracing::warn!("{} is everybody's; only the files in it are closed to other accounts", dir.display());
    } else {
        take_rights(dir, mode_of_dir(), closed);
    }
    // One that cannot be read fails where it is used, with what to do.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if !is_ours(&entry.file_name().to_string_lossy()) || kind.is_symlink() {
            continue;
        }
        let is_worker = entry.file_name() == "worker";
        take_rights(&entry.path(), if is_worker { mode_of_dir() } else { CLOSED }, closed);
    }
}

fn is_ours(name: &str) -> bool {
    matches!(name, "log" | "worker" | "example" | "work" | "api.address" | "tidemill.log")
        || name.ends_with(".key")
        || name.starts_with("tables.sqlite")
        || name.starts_with("tidemill-verify-")
}

fn take_rights(path: &Path, most: u32, closed: &mut Vec<String>) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.mode() & 0o7777;
    if mode & 0o077 & !most == 0 {
        return;
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & (0o7000 | most))) {
        Ok(()) => closed.push(path.display().to_string()),
        Err(error) => {
            tracing::warn!(%error, "cannot close {} to other accounts: its mode stays {mode:o}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// What others could read is closed once; an owner's own rights, stricter modes and files of other names stay.
    #[test]
    fn wider_modes_are_closed_once() {
        let dir = tempfile::tempdir().unwrap();
        let modes = [("admin.key", 0o644), ("tables.sqlite-wal", 0o664), ("log", 0o755), ("mine.sh", 0o755)];
        for (name, wide) in modes {
            let path = dir.path().join(name);
            if name == "log" {
                fs::create_dir(&path).unwrap()
            } else {
                fs::write(&path, "").unwrap()
            }
            fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let mut closed = Vec::new();
        close_tree(dir.path(), &mut closed);
        assert_eq!(closed.len(), 4, "{closed:?}");
        assert_eq!(mode(dir.path()), mode_of_dir());
        let now = modes.map(|(name, _)| mode(&dir.path().join(name)));
        assert_eq!(now, [0o600, 0o600, 0o700, 0o755]);

        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        closed.clear();
        close_tree(dir.path(), &mut closed);
        assert_eq!(
            (closed.as_slice(), mode(dir.path())),
            (&[][..], 0o700),
            "a stricter mode is its owner's request"
        );
    }

    /// A directory such as `/tmp` is not taken away from everybody.
    #[test]
    fn directory_of_everybody_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        close_tree(dir.path(), &mut Vec::new());
        assert_eq!(mode(dir.path()), 0o1777);
    }
}
