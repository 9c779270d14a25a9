//! Whose certificates are trusted.

use std::fs;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::{Cause, Error};

/// Those of this file; without one, those that the machine trusts.
///
/// # Errors
/// [`Error::Refused`] where the file has none.
pub(super) fn config(ca_file: Option<&str>) -> Result<TlsConfig, Error> {
    let roots = match ca_file {
        None => RootCerts::PlatformVerifier,
        Some(file) => of_file(file).map_err(|source| Error::Refused {
            what: "be the file of trusted certificates (sinks.elasticsearch.ca_file)",
            place: file.to_owned(),
            source,
        })?,
    };
    let builder = TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(roots);
    Ok(builder.unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider())).build())
}

fn of_file(file: &str) -> Result<RootCerts, Cause> {
    let mut certificates = Vec::new();
    for item in parse_pem(&fs::read(file)?) {
        if let PemItem::Certificate(certificate) = item? {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err("there is no certificate in it".into()),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}
