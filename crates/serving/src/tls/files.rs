//! Certificates and keys in files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use super::provider;

/// All certificates that a system trusts are a fifth of this.
const MOST_BYTES: u64 = 4 << 20;

/// Where a certificate and its key are, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, and after it those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// A certificate.
    Certificate,
    /// Its key.
    Key,
    /// Certificates of authorities.
    Authorities,
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {rule}", file.display())]
pub struct FileError {
    /// What it is for.
    pub which: Which,
    /// Its path.
    pub file: PathBuf,
    /// What it should be, or what is wrong.
    pub rule: String,
}

impl FileError {
    pub(super) fn new(which: Which, file: &Path, rule: impl Into<String>) -> Self {
        Self { which, file: file.to_owned(), rule: rule.into() }
    }
}

/// The certificates of a file, at least one.
///
/// # Errors
/// It cannot be read, or there is none in it.
pub fn certificates(which: Which, file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let bad = |rule: String| FileError::new(which, file, rule);
    let text = read(&mut open(file).map_err(&bad)?).map_err(&bad)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| bad(format!("has a damaged certificate in it: {error}")))?;
    match found.is_empty() {
        true => {
            Err(bad("has no certificate in it: it must hold PEM, -----BEGIN CERTIFICATE-----".to_owned()))
        }
        false => Ok(found),
    }
}

/// The authorities of a file, at least one.
pub(super) fn authorities(file: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(Which::Authorities, file)? {
        roots.add(certificate).map_err(|error| {
            FileError::new(Which::Authorities, file, format!("has a damaged certificate in it: {error}"))
        })?;
    }
    Ok(roots)
}

impl Files {
    pub(super) fn load(&self) -> Result<CertifiedKey, FileError> {
        let chain = certificates(Which::Certificate, &self.certificate)?;
        let bad = |rule: String| FileError::new(Which::Key, &self.key, rule);
        let mut file = open(&self.key).map_err(&bad)?;
        let mode = file.metadata().map_err(|error| bad(format!("cannot be read: {error}")))?.mode();
        if mode & 0o007 != 0 {
            let mode = mode & 0o777;
            return Err(bad(format!(
                "can be used by every account (mode {mode:03o}): take that away with chmod o-rwx"
            )));
        }
        let text = read(&mut file).map_err(&bad)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                bad("has no private key in it: it must hold PEM, not encrypted by a passphrase".to_owned())
            }
            error => bad(format!("has a damaged key in it: {error}")),
        })?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                bad(format!("is not the key of the first certificate in {}", self.certificate.display()))
            }
            rustls::Error::InvalidCertificate(why) => {
                let rule = format!("has a damaged certificate in it: {why}");
                FileError::new(Which::Certificate, &self.certificate, rule)
            }
            error => bad(format!("has a key that cannot be used: {error}")),
        })
    }

    /// It differs once a file was replaced or written.
    pub(super) fn stamp(&self) -> Stamp {
        [&self.certificate, &self.key].map(|file| {
            let of = fs::metadata(file).ok()?;
            Some((of.modified().ok()?, of.ino(), of.size()))
        })
    }
}

pub(super) type Stamp = [Option<(SystemTime, u64, u64)>; 2];

fn open(file: &Path) -> Result<File, String> {
    let of = fs::metadata(file).map_err(|error| unreadable(&error))?;
    if !of.is_file() {
        return Err("is not a plain file".to_owned());
    }
    File::open(file).map_err(|error| unreadable(&error))
}

fn read(file: &mut File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("is larger than {MOST_BYTES} bytes"));
    }
    Ok(bytes)
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}
