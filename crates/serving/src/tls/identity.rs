//! A certificate and its key, which may be replaced while they are used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, SignatureScheme};

use super::files::{FileError, Files, Stamp};
use super::provider;

/// The files are looked at no more often.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate and its key. New connections get what the files hold: they are looked at with a handshake, once in a
/// second at most. What they hold cannot be used: what was used last is used on, and an error is told once.
///
/// A certificate whose time is over is used all the same, and told as an error: whoever checks it refuses it, but jobs run
/// on, and they would not if a start failed by it.
pub struct Identity {
    files: Files,
    used: Mutex<Used>,
}

struct Used {
    key: Arc<CertifiedKey>,
    stamp: Stamp,
    looked_at: Instant,
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn open(files: Files) -> Result<Arc<Self>, FileError> {
        let stamp = files.stamp();
        let key = Arc::new(files.load()?);
        tell_untimely(&files, &key);
        let used = Mutex::new(Used { key, stamp, looked_at: Instant::now() });
        Ok(Arc::new(Self { files, used }))
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.looked_at.elapsed() >= LOOK {
            used.looked_at = Instant::now();
            self.renew(&mut used);
        }
        Arc::clone(&used.key)
    }

    fn renew(&self, used: &mut Used) {
        let stamp = self.files.stamp();
        if stamp == used.stamp {
            return;
        }
        used.stamp = stamp;
        let certificate = self.files.certificate.display();
        match self.files.load() {
            Ok(key) => {
                used.key = Arc::new(key);
                tracing::info!("the certificate {certificate} was renewed; new connections get it");
                tell_untimely(&self.files, &used.key);
            }
            Err(error) => tracing::error!(
                %error,
                "the certificate {certificate} was changed and cannot be used; the one before is used on: {error}"
            ),
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn tell_untimely(files: &Files, key: &CertifiedKey) {
    let certificate = files.certificate.display();
    if let Some(why) = untimely(key) {
        tracing::error!(
            "the certificate {certificate} {why}; those who check it refuse it until it is replaced"
        );
    }
}

/// Why it is not the time of a certificate, if that is so. Its time is looked at before its authority.
fn untimely(key: &CertifiedKey) -> Option<&'static str> {
    let (own, others) = key.cert.split_first()?;
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).ok()?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
    let name = ServerName::try_from("any.invalid").expect("it is a name");
    match verifier.verify_server_cert(own, others, &name, &[], UnixTime::now()) {
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Some("has expired"),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Some("is not valid yet"),
        Ok(_) | Err(_) => None,
    }
}
