//! The address file of a data directory: where its server listens, and the proof that it does.
//!
//! A server holds the lock of the file for as long as it runs; [`tidemill_cli::address`] reads it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use tidemill_cli::address::ADDRESS_FILE;
use tidemill_cli::{Done, Failure};

use crate::config::TlsApiSettings;

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

#[cfg(test)]
mod tests {
    use tidemill_cli::address::find;

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
}
