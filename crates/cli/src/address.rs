//! Where the server of a data directory listens, by the file in which it says so.
//!
//! A server holds the lock of the file for as long as it runs; only who may open the file can, so no other account of
//! the host. A client that finds the file unlocked sends its key to nobody: whoever listens there by now may be anybody.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Its name in the data directory.
pub const ADDRESS_FILE: &str = "api.address";

/// Where a server of the data directory listens now, if one does.
///
/// # Errors
/// The file cannot be read, or others than its owner can open it: it is not trusted with a key then.
pub fn find(data_dir: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(data_dir.join(ADDRESS_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    check(&file, data_dir)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // It was left behind.
        Ok(()) => return Ok(None),
        Err(Errno::WOULDBLOCK) => {}
        Err(error) => return Err(error.into()),
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Whoever writes the file says to whom keys are sent, and whoever can open it can hold its lock.
fn check(file: &File, data_dir: &Path) -> io::Result<()> {
    let (of, dir) = (file.metadata()?, fs::metadata(data_dir)?);
    let may_write = [0, dir.uid(), rustix::process::geteuid().as_raw()];
    if of.is_file() && may_write.contains(&of.uid()) && of.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("{ADDRESS_FILE} is not a file that only the data directory's owner can read and write");
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// As a server says it for as long as the file is open.
#[cfg(test)]
pub(crate) fn published(data_dir: &Path, address: &str) -> File {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let path = data_dir.join(ADDRESS_FILE);
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    writeln!(file, "{address}").unwrap();
    file
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// API-6: an address counts while its server holds the file.
    #[test]
    fn address_counts_while_the_file_is_held() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()).unwrap(), None);
        let held = published(dir.path(), "127.0.0.1:9");
        assert_eq!(find(dir.path()).unwrap().as_deref(), Some("127.0.0.1:9"));
        drop(held);
        assert_eq!(find(dir.path()).unwrap(), None);
    }

    /// API-6: an address that others may write or lock is not trusted with a key.
    #[test]
    fn address_that_others_can_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _held = published(dir.path(), "127.0.0.1:9");
        fs::set_permissions(dir.path().join(ADDRESS_FILE), Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find(dir.path()).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
