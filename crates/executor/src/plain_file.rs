//! Opens files where a job may have put something else.
//!
//! What a job can write to is the job's: in place of a file it may leave a link to a file of the worker, a FIFO that
//! nobody writes to, or a device. Every file below the directory of attempts is opened here: no link is followed,
//! nothing is waited for, and what is no plain file is refused.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open as open_at};
use rustix::io::Errno;

/// Only the account of the worker, or the one that a file is handed over to, reads it.
pub(crate) const FILE_MODE: u32 = 0o600;
/// The same of a directory.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// Opens a plain file to be read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = match open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | SAFE, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::NXIO) => return Err(not_plain()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain()) }
}

/// What a plain file holds, which has to be at most so many bytes.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("is longer than {max_bytes} bytes")));
    }
    Ok(bytes)
}

/// Makes a file that must not be there, to be written at its end.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | SAFE;
    Ok(open_at(path, how, Mode::from_raw_mode(FILE_MODE))?.into())
}

/// Opens a plain file to be written at its end, and makes it where there is nothing.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | SAFE;
    let file = match open_at(path, how, Mode::from_raw_mode(FILE_MODE)) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(not_plain()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain()) }
}

/// Makes a file with this in it, in place of whatever is there but a directory.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = create(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Opens a directory, for what is done with it as a file.
pub(crate) fn open_dir(path: &Path) -> io::Result<File> {
    Ok(open_at(path, OFlags::RDONLY | OFlags::DIRECTORY | SAFE, Mode::empty())?.into())
}

/// Whether there is a directory, and no link to one.
pub(crate) fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

fn not_plain() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is not a plain file")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// LOG-2: neither a FIFO, which would be waited for, nor a link is opened or written through.
    #[test]
    fn only_plain_files_are_opened_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("plain"), "text").unwrap();
        assert_eq!(read(&at("plain"), 4).unwrap(), b"text");
        assert_eq!(read(&at("plain"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        symlink(at("plain"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "fifo", "."] {
            assert_eq!(open(&at(name)).unwrap_err().to_string(), "is not a plain file", "{name}");
            assert!(create(&at(name)).is_err(), "{name}");
            assert_eq!(append(&at(name)).unwrap_err().to_string(), "is not a plain file", "{name}");
        }
        let reader = open_at(at("fifo"), OFlags::RDONLY | OFlags::NONBLOCK | SAFE, Mode::empty()).unwrap();
        assert!(append(&at("fifo")).is_err(), "nor one that is read");
        drop(reader);
        for text in ["be", "gun"] {
            append(&at("appended")).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(read(&at("appended"), 9).unwrap(), b"begun");
        for name in ["link", "fifo", "none"] {
            replace(&at(name), b"new").unwrap();
            assert_eq!(read(&at(name), 9).unwrap(), b"new", "{name}");
        }
        assert_eq!(read(&at("plain"), 9).unwrap(), b"text", "not written through the link");
        symlink(dir.path(), at("directory")).unwrap();
        assert!(!is_dir(&at("directory")) && open_dir(&at("directory")).is_err());
    }
}
