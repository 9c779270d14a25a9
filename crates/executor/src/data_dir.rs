//! The executor's data directory.
//!
//! ```text
//! lock                 held by the executor that uses the directory
//! worker.json          format version, the worker's id, the boot it belongs to
//! attempts/TOKEN/      attempts whose end is not on record yet
//! ended/TOKEN/         the others, kept for their output
//! shipped/TOKEN/       those of them whose output a store of logs has, too
//! …/.removing-TOKEN/   what is being removed of these two: no attempt any more
//! ```
//! A worker is (a random id, a boot): after a reboot nothing of before runs any more, and a new worker begins.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tidemill_model::{Sweep, Timestamp, Token, WorkerId};
use uuid::Uuid;

use crate::attempt_dir::AttemptDir;
use crate::{Error, plain_file};

/// Counts the changes of the layout above.
const FORMAT: u32 = 1;
/// Longest file that says who the worker is.
const IDENTITY_MAX_BYTES: u64 = 64 * 1024;
/// The most files of one attempt whose size is looked at.
const MEASURED_MAX: usize = 20_000;

#[derive(Serialize, Deserialize)]
struct Identity {
    format: u32,
    worker: WorkerId,
    boot: String,
}

/// What is being removed has this before its name, beside the others, so that nobody takes the rest of it for an attempt.
const REMOVING: &str = ".removing-";

/// Where attempts are. Cheap to copy; holds nothing open.
#[derive(Debug, Clone)]
pub(crate) struct Attempts {
    /// Of those that have not ended on record.
    pub(crate) open: PathBuf,
    /// Of the others, whose output no store of logs has as a whole.
    pub(crate) ended: PathBuf,
    pub(crate) shipped: PathBuf,
    /// A store of logs has asked for output, in this life of the worker.
    has_store: Arc<AtomicBool>,
}

/// What a sweep did.
pub(crate) struct Swept {
    pub(crate) sweep: Sweep,
    /// Of what it removed, attempts whose output no store of logs has as a whole, though one asks for it.
    pub(crate) not_shipped: u64,
}

pub(crate) struct DataDir {
    pub(crate) worker: WorkerId,
    pub(crate) attempts: Attempts,
    _lock: Lock,
}

/// The right to use the directory.
struct Lock(File);

impl Drop for Lock {
    /// Closing is not enough: a process that is just being started shares the file until its exec.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(%error, "cannot unlock the data directory");
        }
    }
}

impl DataDir {
    /// Takes the directory, making it where it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let attempts = Attempts::below(path);
        for dir in [&attempts.open, &attempts.ended, &attempts.shipped] {
            fs::create_dir_all(dir).map_err(data("make the directory", dir))?;
        }
        close(path, &attempts)?;
        let lock = lock(path)?;
        let boot_file = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(boot_file).map_err(data("read", boot_file))?.trim().to_owned();
        let file = path.join("worker.json");
        let worker = match read_identity(&file)? {
            Some(identity) if identity.boot == boot => identity.worker,
            earlier => {
                if earlier.is_some() {
                    attempts.end_all()?;
                }
                let identity = Identity { format: FORMAT, worker: WorkerId::new(unique("w-")), boot };
                write_identity(&file, &identity).map_err(data("write", &file))?;
                identity.worker
            }
        };
        Ok(Self { worker, attempts, _lock: lock })
    }
}

fn lock(path: &Path) -> Result<Lock, Error> {
    let file = path.join("lock");
    let lock =
        OpenOptions::new().create(true).truncate(false).write(true).mode(plain_file::FILE_MODE).open(&file);
    let lock = lock.map_err(data("open", &file))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(lock)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path: path.to_owned() }),
        Err(error) => Err(data("lock", &file)(error.into())),
    }
}

fn read_identity(file: &Path) -> Result<Option<Identity>, Error> {
    let text = match plain_file::read(file, IDENTITY_MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(data("read", file)(error)),
    };
    let identity: Identity =
        serde_json::from_slice(&text).map_err(|error| data("read", file)(error.into()))?;
    if identity.format != FORMAT {
        return Err(Error::Format { path: file.to_owned(), found: identity.format, wanted: FORMAT });
    }
    Ok(Some(identity))
}

/// Durable before anything is done under that name.
fn write_identity(file: &Path, identity: &Identity) -> io::Result<()> {
    let temporary = file.with_extension("new");
    plain_file::replace(&temporary, &serde_json::to_vec_pretty(identity)?)?.sync_all()?;
    fs::rename(&temporary, file)?;
    plain_file::open_dir(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// An id that nothing else has, behind a prefix. Half a UUID, 62 random bits: it stands in most records of an attempt, which
/// would be longer with all of it.
pub(crate) fn unique(prefix: &str) -> String {
    let (_, random) = Uuid::new_v4().as_u64_pair();
    format!("{prefix}{random:016x}")
}

/// Only its own account enters the directory, and where jobs run as others, they pass through to their attempts: each
/// attempt's directory says which of them may enter it.
fn close(path: &Path, attempts: &Attempts) -> Result<(), Error> {
    let passable = if geteuid().is_root() { 0o711 } else { plain_file::DIRECTORY_MODE };
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(data("close to other accounts", path))
    };
    // Of earlier versions, which left them open; at most one for each slot.
    for token in attempts.all_open()? {
        let dir = attempts.open(token);
        let mode = fs::symlink_metadata(dir.path()).map_err(data("look at", dir.path()))?.mode();
        if plain_file::is_dir(dir.path()) && mode & 0o007 != 0 {
            set(dir.path(), mode & 0o770)?;
        }
    }
    set(&attempts.ended, plain_file::DIRECTORY_MODE)?;
    set(&attempts.shipped, plain_file::DIRECTORY_MODE)?;
    set(&attempts.open, passable)?;
    set(path, passable)
}

fn remove(path: &Path) -> io::Result<()> {
    if plain_file::is_dir(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn data(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Data { what, path: path.to_owned(), source }
}

/// The attempts of a directory by their names. What has another name is none.
pub(crate) fn all_in(dir: &Path) -> io::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    for entry in fs::read_dir(dir)? {
        tokens.extend(entry?.file_name().to_str().and_then(|name| name.parse::<Token>().ok()));
    }
    tokens.sort_unstable();
    Ok(tokens)
}

impl Attempts {
    /// Below a data directory; touches nothing.
    pub(crate) fn below(path: &Path) -> Self {
        let at = |name| path.join(name);
        Self { open: at("attempts"), ended: at("ended"), shipped: at("shipped"), has_store: Arc::default() }
    }

    /// The directory of an attempt that has not ended on record.
    pub(crate) fn open(&self, token: Token) -> AttemptDir {
        AttemptDir::new(self.open.join(token.to_string()))
    }

    /// The directory of an attempt, wherever it is by now.
    pub(crate) fn find(&self, token: Token) -> Option<AttemptDir> {
        // It may move from one to a later one, never back.
        let places = [&self.open, &self.ended, &self.shipped].map(|place| place.join(token.to_string()));
        places.into_iter().find(|path| plain_file::is_dir(path)).map(AttemptDir::new)
    }

    /// Whether its end is on record, or it ended with an earlier boot of the machine.
    pub(crate) fn is_recorded(&self, token: Token) -> bool {
        [&self.ended, &self.shipped].iter().any(|place| plain_file::is_dir(&place.join(token.to_string())))
    }

    /// The directory of an attempt whose end is on record, and whose output no store of logs has as a whole.
    pub(crate) fn ended(&self, token: Token) -> AttemptDir {
        AttemptDir::new(self.ended.join(token.to_string()))
    }

    /// The directory of an attempt whose output a store of logs has.
    pub(crate) fn shipped(&self, token: Token) -> AttemptDir {
        AttemptDir::new(self.shipped.join(token.to_string()))
    }

    /// A store of logs has its output as a whole, and another one may have said so before. An attempt that has not ended on record
    /// stays where it is.
    pub(crate) fn ship(&self, token: Token) -> io::Result<()> {
        let shipped = self.shipped(token);
        match fs::rename(self.ended(token).path(), shipped.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && plain_file::is_dir(shipped.path()) => {
                Ok(())
            }
            other => other,
        }
    }

    /// A store of logs asks for output.
    pub(crate) fn has_store(&self) {
        self.has_store.store(true, Ordering::Relaxed);
    }

    /// Its end is on record.
    pub(crate) fn end(&self, token: Token) -> io::Result<()> {
        let name = token.to_string();
        fs::rename(self.open.join(&name), self.ended.join(&name))
    }

    fn end_all(&self) -> Result<(), Error> {
        for token in self.all_open()? {
            self.end(token).map_err(data("move", self.open(token).path()))?;
        }
        Ok(())
    }

    /// The attempts that have not ended on record.
    pub(crate) fn all_open(&self) -> Result<Vec<Token>, Error> {
        all_in(&self.open).map_err(data("read", &self.open))
    }

    /// Removes the output of attempts that ended longer ago than `keep`, and follows no link; what one job has made of its
    /// directory does not keep those of others. Ends early where `ends` says so.
    pub(crate) fn sweep(&self, keep: Duration, at: Timestamp, ends: &dyn Fn() -> bool) -> Swept {
        let mut swept = Swept { sweep: Sweep::new(at), not_shipped: 0 };
        let has_store = self.has_store.load(Ordering::Relaxed);
        swept.not_shipped = sweep(&self.ended, keep, ends, &mut swept.sweep);
        if !has_store {
            swept.not_shipped = 0;
        }
        sweep(&self.shipped, keep, ends, &mut swept.sweep);
        swept
    }
}

/// How many attempts it has taken out of the place.
fn sweep(place: &Path, keep: Duration, ends: &dyn Fn() -> bool, swept: &mut Sweep) -> u64 {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) => {
            swept.fail(&format!("{}: {error}", place.display()));
            return 0;
        }
    };
    let now = SystemTime::now();
    let is_old = |path: &Path| {
        // The directory changes for the last time when its end is written down.
        let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        changed.ok().and_then(|changed| now.duration_since(changed).ok()).is_some_and(|age| age >= keep)
    };
    let mut taken = 0;
    // All of them first: what is put aside would be found again.
    let names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    for name in names {
        let path = place.join(&name);
        let is_left = name.as_bytes().starts_with(REMOVING.as_bytes());
        if !is_left && !is_old(&path) {
            continue;
        }
        if ends() {
            break;
        }
        let bytes = bytes_in(&path);
        let removed = match is_left {
            true => remove(&path),
            false => {
                let mut aside = OsString::from(REMOVING);
                aside.push(&name);
                let aside = place.join(aside);
                fs::rename(&path, &aside).and_then(|()| {
                    taken += 1;
                    remove(&aside)
                })
            }
        };
        match removed {
            Ok(()) => {
                swept.removed += 1;
                swept.removed_bytes += bytes;
            }
            Err(error) => {
                let name = name.to_string_lossy();
                swept.fail(&format!("{}: {error}", name.trim_start_matches(REMOVING)));
            }
        }
    }
    taken
}

/// What the files below a path take, as far as can be seen, and as far as a bound on how many are looked at.
fn bytes_in(path: &Path) -> u64 {
    let (mut bytes, mut left) = (0_u64, vec![path.to_owned()]);
    for _ in 0..MEASURED_MAX {
        let Some(path) = left.pop() else { break };
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        if metadata.is_dir() {
            left.extend(
                fs::read_dir(&path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())),
            );
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_keeps_its_name_over_restarts_and_loses_it_with_the_boot() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap().worker;
        let again = DataDir::open(dir.path()).unwrap();
        assert_eq!(again.worker, first);
        fs::create_dir(again.attempts.open(Token(4096)).path()).unwrap();
        drop(again);

        let file = dir.path().join("worker.json");
        let identity = Identity { boot: "another".to_owned(), ..read_identity(&file).unwrap().unwrap() };
        write_identity(&file, &identity).unwrap();
        let rebooted = DataDir::open(dir.path()).unwrap();
        assert_ne!(rebooted.worker, first);
        assert_eq!(rebooted.attempts.all_open().unwrap(), []);
        assert!(rebooted.attempts.find(Token(4096)).is_some());
    }

    #[test]
    fn directory_is_used_by_one_executor_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let _first = DataDir::open(dir.path()).unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(Error::Locked { .. })));
    }

    #[test]
    fn another_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("worker.json"), r#"{"format":2,"worker":"w","boot":"b"}"#).unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(Error::Format { found: 2, .. })));
    }

    /// CLN-1: only what has ended on record, and only when it is old enough; what it took is counted, and what cannot be removed is
    /// named and keeps nothing else.
    #[test]
    fn sweep_removes_what_is_ended_and_old() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = DataDir::open(dir.path()).unwrap().attempts;
        for token in [Token(1), Token(2), Token(3)] {
            fs::create_dir(attempts.open(token).path()).unwrap();
            fs::write(attempts.open(token).path().join("stdout"), [b'x'; 10_000]).unwrap();
        }
        attempts.end(Token(1)).unwrap();
        attempts.end(Token(3)).unwrap();
        attempts.ship(Token(3)).unwrap();
        assert!(attempts.ship(Token(2)).is_err() && attempts.ship(Token(9)).is_err());
        assert_eq!([1, 2, 3].map(|token| attempts.is_recorded(Token(token))), [true, false, true]);
        assert_eq!(all_in(&attempts.ended).unwrap(), [Token(1)]);
        assert!(attempts.find(Token(3)).is_some(), "what was shipped is still read here");
        let sweep = |keep| attempts.sweep(keep, Timestamp::UNIX_EPOCH, &|| false).sweep;
        assert_eq!(sweep(Duration::from_secs(3600)), Sweep::new(Timestamp::UNIX_EPOCH));
        assert_eq!(
            attempts.sweep(Duration::ZERO, Timestamp::UNIX_EPOCH, &|| true).sweep.removed,
            0,
            "it ends early"
        );
        let swept = sweep(Duration::ZERO);
        assert_eq!((swept.removed, swept.failed), (2, 0));
        assert!(swept.removed_bytes >= 20_000, "{swept:?}");
        assert!(attempts.find(Token(1)).is_none() && attempts.find(Token(2)).is_some());
        fs::remove_dir_all(&attempts.ended).unwrap();
        let failed = sweep(Duration::ZERO);
        assert!(failed.failed == 1 && failed.failures[0].contains("No such file"), "{failed:?}");
    }

    /// CLN-1: one directory that cannot be removed is named, and those beside it are removed all the same.
    #[test]
    fn directory_that_cannot_be_removed_keeps_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = DataDir::open(dir.path()).unwrap().attempts;
        let tokens = [1, 2, 3, 4, 5].map(Token);
        for token in tokens {
            fs::create_dir_all(attempts.open(token).path().join("work")).unwrap();
            attempts.end(token).unwrap();
        }
        let work = attempts.ended.join("3").join("work");
        let run = |command: &mut std::process::Command| {
            assert!(command.status().unwrap().success(), "this test runs as root")
        };
        run(std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&work));
        let swept = attempts.sweep(Duration::ZERO, Timestamp::UNIX_EPOCH, &|| false).sweep;
        let aside = attempts.ended.join(".removing-3");
        run(std::process::Command::new("umount").arg(aside.join("work")));
        assert_eq!((swept.removed, swept.failed), (4, 1), "{swept:?}");
        assert!(swept.failures[0].starts_with("3: "), "{swept:?}");
        // What is half removed is no attempt any more, and is removed the next time, however young.
        assert!(tokens.iter().all(|token| !attempts.is_recorded(*token)) && aside.is_dir());
        let again = attempts.sweep(Duration::from_secs(3600), Timestamp::UNIX_EPOCH, &|| false).sweep;
        assert_eq!((again.removed, again.failed, aside.exists()), (1, 0, false));
    }

    /// LOG-1: what is removed before a store of logs has it is counted, where one asks for it; without one that is as it should be.
    #[test]
    fn what_is_removed_before_a_store_has_it_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = DataDir::open(dir.path()).unwrap().attempts;
        let lost = |token: i64| {
            for token in [token, token + 1].map(Token) {
                fs::create_dir(attempts.open(token).path()).unwrap();
                attempts.end(token).unwrap();
            }
            attempts.ship(Token(token)).unwrap();
            attempts.ship(Token(token)).unwrap();
            let swept = attempts.sweep(Duration::ZERO, Timestamp::UNIX_EPOCH, &|| false);
            assert_eq!(swept.sweep.removed, 2);
            swept.not_shipped
        };
        assert_eq!(lost(1), 0);
        attempts.clone().has_store();
        assert_eq!(lost(3), 1);
    }
}
