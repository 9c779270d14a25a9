//! Where files are: the local file system, or one that is mounted.

use std::fs::{self, File};
use std::io::{self, Write};
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

/// The local file system, or one that is mounted.
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

    fn sync(&self, directory: &Path) -> Result<(), Error> {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(self.failed("make a file durable", directory))
    }
}

impl Files for LocalFiles {
    fn begin(&mut self, partition: u32) -> Result<(), Error> {
        const WHAT: &str = "prepare the directory of the task logs";
        let directory = self.root.join(layout::TEMPORARY);
        fs::create_dir_all(&directory).map_err(self.failed(WHAT, &directory))?;
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
        fs::create_dir_all(&directory).map_err(self.failed(WHAT, &directory))?;
        let (path, temporary) = (directory.join(name), self.root.join(layout::TEMPORARY).join(name));
        let mut file = File::create(&temporary).map_err(self.failed(WHAT, &temporary))?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(self.failed(WHAT, &temporary))?;
        fs::rename(&temporary, &path).map_err(self.failed(WHAT, &path))?;
        self.sync(&directory)?;
        self.sync(&self.root)
    }

    fn place(&self, name: &str) -> String {
        format!("{name} below {}", self.root.display())
    }
}
