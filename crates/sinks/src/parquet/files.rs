//! Where files are: the local file system, or one that is mounted.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::layout;
use crate::Error;

/// A place with directories of files. Names are relative to its root.
pub trait Files: Send {
    /// Called before anything else: removes what was left half written, and keeps other writers of the partition out
    /// where the place can do that.
    ///
    /// # Errors
    /// [`Error::Overtaken`]; the place.
    fn begin(&mut self, partition: u32) -> Result<(), Error>;

    /// The names in a directory; none where it is not there.
    ///
    /// # Errors
    /// The place.
    fn list(&self, directory: &str) -> Result<Vec<String>, Error>;

    /// A file's content; `None` where it is not there.
    ///
    /// # Errors
    /// The place.
    fn get(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Makes or replaces a file, durably and whole or not at all.
    ///
    /// # Errors
    /// The place. The file may be there or not.
    fn put(&self, directory: &str, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// For people.
    fn place(&self, name: &str) -> String;
}

/// The local file system, or one that is mounted. Files are for other programs to read, so that the mode of the root
/// directory says who may, and not the umask of the process: that keeps its own files to itself.
pub struct LocalFiles {
    root: PathBuf,
    /// Locked for as long as the sink lives.
    lock: Option<File>,
}

impl LocalFiles {
    /// Files below a directory, which is made when the first is written.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), lock: None }
    }

    fn failed(&self, what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let place = path.display().to_string();
        move |source| Error::Outage { what, place, source: source.into() }
    }

    /// The directory with those above it, each new one with the mode of the root.
    fn make(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.root)?;
        let mode = fs::metadata(&self.root)?.permissions();
        let new: Vec<_> = directory.ancestors().take_while(|above| !above.exists()).collect();
        fs::create_dir_all(directory)?;
        new.into_iter().try_for_each(|above| fs::set_permissions(above, mode.clone()))
    }

    /// A file with the root's mode, without the right to execute.
    fn create(&self, path: &Path) -> io::Result<File> {
        let file = File::create(path)?;
        let mode = fs::metadata(&self.root)?.mode() & 0o666;
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    }

    fn sync(&self, directory: &Path) -> Result<(), Error> {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(self.failed("make a file durable", directory))
    }
}

impl Files for LocalFiles {
    fn begin(&mut self, partition: u32) -> Result<(), Error> {
        const WHAT: &str = "prepare the directory of the task logs";
        let directory = self.root.join(layout::TEMPORARY);
        self.make(&directory).map_err(self.failed(WHAT, &directory))?;
        let path = directory.join(format!("lock-{partition}"));
        let lock = File::create(&path).map_err(self.failed(WHAT, &path))?;
        match lock.try_lock() {
            Ok(()) => self.lock = Some(lock),
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::Overtaken { partition, place: self.root.display().to_string() });
            }
            Err(fs::TryLockError::Error(source)) => return Err(self.failed(WHAT, &path)(source)),
        }
        for name in self.list(layout::TEMPORARY)?.iter().filter(|name| layout::is_of(partition, name)) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(self.failed(WHAT, &path))?;
        }
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        let path = self.root.join(directory);
        let failed = || self.failed("list files", &path);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        entries.map(|entry| Ok(entry.map_err(failed())?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn get(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.root.join(directory).join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read a file", &path)(error)),
        }
    }

    fn put(&self, directory: &str, name: &str, bytes: &[u8]) -> Result<(), Error> {
        const WHAT: &str = "write a file";
        let directory = self.root.join(directory);
        self.make(&directory).map_err(self.failed(WHAT, &directory))?;
        let (path, temporary) = (directory.join(name), self.root.join(layout::TEMPORARY).join(name));
        let mut file = self.create(&temporary).map_err(self.failed(WHAT, &temporary))?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(self.failed(WHAT, &temporary))?;
        fs::rename(&temporary, &path).map_err(self.failed(WHAT, &path))?;
        self.sync(&directory)?;
        self.sync(&self.root)
    }

    fn place(&self, name: &str) -> String {
        format!("{name} below {}", self.root.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever may read the root may read what is stored there, whatever the umask.
    #[test]
    fn files_have_the_mode_of_the_root() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o770)).unwrap();
        let mut files = LocalFiles::new(dir.path());
        files.begin(1).unwrap();
        files.put("dt=2026-03-01/h=1", "p1.parquet", b"x").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
        let modes = ["dt=2026-03-01", "dt=2026-03-01/h=1", "dt=2026-03-01/h=1/p1.parquet"].map(mode);
        assert_eq!(modes, [0o770, 0o770, 0o660]);
    }
}
