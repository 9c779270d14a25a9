//! The data directory: on a local disk, and of one process at a time.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statfs};

use crate::Error;

/// Of a file that is written again, as much at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A directory that is ours for as long as this lives.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: fs::File,
}

impl Directory {
    /// Makes the directory where needed, checks its file system, and locks it.
    pub(crate) fn take(path: &Path) -> Result<Self, Error> {
        let failed =
            |error: io::Error| Error::open(format!("open the data directory {}", path.display()), error);
        fs::create_dir_all(path).map_err(failed)?;
        let found = statfs(path).map_err(|error| failed(error.into()))?;
        if let Some(kind) = network_file_system(magic(found.f_type)) {
            return Err(Error::NetworkFileSystem { directory: path.to_owned(), kind });
        }
        let lock = lock_file(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where the log itself is.
    pub(crate) fn file(&self) -> PathBuf {
        Self::file_in(&self.path)
    }

    /// Where the log of this directory is.
    pub(crate) fn file_in(path: &Path) -> PathBuf {
        path.join("log.db")
    }

    /// Where what is not yet in the log's file is.
    pub(crate) fn write_ahead_log(&self) -> PathBuf {
        self.path.join("log.db-wal")
    }

    /// Makes durable what an earlier process wrote and did not live to sync, before anything is opened. The log's file itself
    /// needs nothing: what is not durable of it is in the write-ahead log, too.
    pub(crate) fn sync_left(&self) -> io::Result<()> {
        let file = match OpenOptions::new().read(true).write(true).open(self.write_ahead_log()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // Written again, for after a sync that failed the system takes it for written.
        let (mut chunk, mut at) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let bytes = file.read_at(&mut chunk, at)?;
            if bytes == 0 {
                break;
            }
            file.write_all_at(&chunk[..bytes], at)?;
            at += bytes as u64;
        }
        file.sync_all()?;
        self.sync()
    }

    /// The same for somebody who only reads, beside a process that may write.
    pub(crate) fn sync_read(path: &Path) -> io::Result<()> {
        match fs::File::open(path.join("log.db-wal")) {
            Ok(file) => file.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        fs::File::open(path)?.sync_all()
    }

    /// Makes the directory's entries durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }

    /// What the log takes on disk.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let size = |name: &str| match fs::metadata(self.path.join(name)) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(Error::Usage { source: error.into() }),
        };
        ["log.db", "log.db-wal", "log.db-shm"].into_iter().map(size).sum()
    }
}

fn lock_file(directory: &Path) -> Result<fs::File, Error> {
    let path = directory.join("lock");
    let failed = |error: io::Error| Error::open(format!("lock {}", path.display()), error);
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(failed)?;
            let holder = holder.trim().to_owned();
            return Err(Error::Locked { directory: directory.to_owned(), holder });
        }
        Err(error) => return Err(failed(error.into())),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// The kernel's magic number is 32 bits, in a signed or unsigned, long or short field by architecture.
fn magic(f_type: impl TryInto<i128>) -> u32 {
    let wide = f_type.try_into().unwrap_or_default();
    u32::try_from(wide & i128::from(u32::MAX)).expect("masked to 32 bits")
}

/// Names of file systems whose locks and syncs are another machine's, or a program's, word. From
/// `linux/magic.h`.
const fn network_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517B => Some("SMB"),
        0xFE53_4D42 => Some("SMB2"),
        0xFF53_4D42 => Some("CIFS"),
        0x6573_5546 => Some("FUSE"),
        0x5346_414F | 0x6B41_4653 => Some("AFS"),
        0x0102_1997 => Some("9P"),
        0x00C3_6400 => Some("Ceph"),
        0x0BD0_0BD0 => Some("Lustre"),
        0x7375_7245 => Some("Coda"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636F => Some("OCFS2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_file_system(magic(0x6969_i64)), Some("NFS"));
        assert_eq!(network_file_system(magic(0xFF53_4D42_u32.cast_signed())), Some("CIFS"));
        assert_eq!(network_file_system(magic(0xEF53_u64)), None, "ext4 is local");
    }

    #[test]
    fn second_holder_is_told_who_has_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Directory::take(directory.path()).unwrap();
        let Err(Error::Locked { holder, .. }) = Directory::take(directory.path()) else {
            panic!("the directory was given away twice");
        };
        assert_eq!(holder, std::process::id().to_string());
        drop(first);
        assert!(Directory::take(directory.path()).is_ok(), "the lock goes with its holder");
    }
}
