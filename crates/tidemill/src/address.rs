//! The address file of a data directory: where its server listens, and the proof that it does.
//!
//! A server holds the lock of the file for as long as it runs; only who may open the file can, so no other account of
//! the host. A client that finds the file unlocked sends its key to nobody: whoever listens there by now may be anybody.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::config::TlsApiSettings;
use crate::failure::{Done, Failure};

/// Its name in the data directory.
pub(crate) const ADDRESS_FILE: &str = "api.address";

/// The address, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Published {
    path: PathBuf,
    locked: File,
}

impl Published {
    /// Says where this process serves the data directory.
    pub(crate) fn new(data_dir: &Path, mut address: SocketAddr, tls: &TlsApiSettings) -> Done<Self> {
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
        // Without a scheme it is http, as it has always been.
        let url = tls.url(address);
        let text = url.strip_prefix("http://").unwrap_or(&url);
        let path = data_dir.join(ADDRESS_FILE);
        let next = data_dir.join("api.address.new");
        let publish = || -> io::Result<File> {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
            // Before it can be found.
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            writeln!(file, "{text}")?;
            fs::rename(&next, &path)?;
            Ok(file)
        };
        let locked =
            publish().map_err(|error| Failure::caused(format!("cannot write {}", path.display()), &error))?;
        Ok(Self { path, locked })
    }

    /// Nobody serves there any more.
    pub(crate) fn withdraw(self) -> Done {
        let is_there =
            || -> io::Result<bool> { Ok(number(&self.locked)? == number(&File::open(&self.path)?)?) };
        match is_there().and_then(|is_there| if is_there { fs::remove_file(&self.path) } else { Ok(()) }) {
            // Another interface of the same directory has ended since it put its own there.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed
                .map_err(|error| Failure::caused(format!("cannot remove {}", self.path.display()), &error)),
        }
    }
}

/// Which file it is, whatever its name.
fn number(file: &File) -> io::Result<(u64, u64)> {
    let of = file.metadata()?;
    Ok((of.dev(), of.ino()))
}

/// Where a server of the data directory listens now, if one does.
pub(crate) fn find(data_dir: &Path) -> io::Result<Option<String>> {
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const PLAIN: TlsApiSettings = TlsApiSettings { certificate_file: None, key_file: None, host: None };

    /// API-6: an address counts for as long as its server lives.
    #[test]
    fn address_left_behind_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()).unwrap(), None);
        let published = Published::new(dir.path(), "127.0.0.1:9".parse().unwrap(), &PLAIN).unwrap();
        assert_eq!(find(dir.path()).unwrap().as_deref(), Some("127.0.0.1:9"));
        drop(published);
        assert!(dir.path().join(ADDRESS_FILE).exists(), "as after a kill");
        assert_eq!(find(dir.path()).unwrap(), None);
        Published::new(dir.path(), "127.0.0.1:9".parse().unwrap(), &PLAIN).unwrap().withdraw().unwrap();
        assert!(!dir.path().join(ADDRESS_FILE).exists());
        let everywhere = Published::new(dir.path(), "0.0.0.0:9".parse().unwrap(), &PLAIN).unwrap();
        assert_eq!(find(dir.path()).unwrap().as_deref(), Some("127.0.0.1:9"));
        drop(everywhere);
    }

    /// What a later server of the directory has put there stays.
    #[test]
    fn only_its_own_address_is_withdrawn() {
        let dir = tempfile::tempdir().unwrap();
        let first = Published::new(dir.path(), "127.0.0.1:9".parse().unwrap(), &PLAIN).unwrap();
        let second = Published::new(dir.path(), "127.0.0.1:10".parse().unwrap(), &PLAIN).unwrap();
        first.withdraw().unwrap();
        assert_eq!(find(dir.path()).unwrap().as_deref(), Some("127.0.0.1:10"));
        second.withdraw().unwrap();
        assert_eq!(find(dir.path()).unwrap(), None);
    }

    /// API-6: an address that others may write or lock is not trusted with a key.
    #[test]
    fn address_that_others_can_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _published = Published::new(dir.path(), "127.0.0.1:9".parse().unwrap(), &PLAIN).unwrap();
        let open = Permissions::from_mode(0o644);
        fs::set_permissions(dir.path().join(ADDRESS_FILE), open).unwrap();
        assert_eq!(find(dir.path()).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
