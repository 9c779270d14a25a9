//! Whom a client command trusts, and why it did not reach an encrypted server.

use std::path::Path;

use tidemill_serving::tls::{self, Trouble, Which};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::Target;
use crate::failure::{Done, Failure};

/// Those of the target's file; without one, those that the machine trusts. A plain server needs neither.
pub(super) fn config(target: &Target) -> Done<TlsConfig> {
    let roots = match &target.ca_file {
        Some(file) if target.server.starts_with("https://") => of_file(file)?,
        Some(_) | None => RootCerts::PlatformVerifier,
    };
    let builder = TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(roots);
    Ok(builder.unversioned_rustls_crypto_provider(tls::provider()).build())
}

fn of_file(file: &Path) -> Done<RootCerts> {
    let certificates = tls::certificates(Which::Authorities, file).map_err(|error| {
        Failure::bad_input(format!("--ca-file, TIDEMILL_CA_FILE or tls.ca_file: {file:?}: {}", error.rule))
            .hint("name a file with the certificates of the server's authorities in PEM")
    })?;
    let certificates: Vec<_> =
        certificates.iter().map(|it| Certificate::from_der(it.as_ref()).to_owned()).collect();
    Ok(RootCerts::new_with_certs(&certificates))
}

/// What of a failed call is a matter of encryption. Nothing was sent then.
pub(super) fn trouble(error: &ureq::Error) -> Option<Trouble> {
    match error {
        // They do not give what they hold as their source.
        ureq::Error::Io(error) => tls::trouble(error),
        ureq::Error::Rustls(error) => tls::trouble(error),
        error => tls::trouble(error),
    }
}
