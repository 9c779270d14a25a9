//! Segments as files of a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tidemill_log::Source;

use super::{Listing, Object, Store};

/// Files below a directory, which is made when the first is written.
pub struct DirectoryStore {
    root: PathBuf,
}

impl DirectoryStore {
    /// Below this directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }
}

impl Store for DirectoryStore {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn list(&self, name: &str) -> Result<Listing, Source> {
        let entries = match fs::read_dir(self.path(name)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
            Err(error) => return Err(error.into()),
        };
        let mut listing = Listing::default();
        for entry in entries {
            let entry = entry?;
            // Nobody who writes segments gives them such a name.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                // Written under another name a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            if metadata.is_dir() {
                listing.directories.push(name);
            } else if metadata.is_file() {
                listing.objects.push(Object { name, bytes: metadata.len() });
            }
        }
        listing.objects.sort();
        listing.directories.sort();
        Ok(listing)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, Source> {
        let mut file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::new();
        file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Source> {
        let path = self.path(name);
        let directory = path.parent().ok_or("an object is in a directory")?;
        make(directory)?;
        let file = path.file_name().and_then(|file| file.to_str()).ok_or("an object has a name")?;
        // One that a killed process left is written over.
        let partial = directory.join(format!(".{file}.partial"));
        let mut out =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let written = out.write_all(bytes).and_then(|()| out.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&partial, &path)) {
            // What failed is told; that its beginning stays is not worth another word.
            let _ = fs::remove_file(&partial);
            return Err(error.into());
        }
        File::open(directory)?.sync_all()?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), Source> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Makes a directory and those above it, each entry durable.
fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make(above)?;
    }
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}
