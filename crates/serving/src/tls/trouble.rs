//! Why an encrypted connection was not made, for people.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// Why an encrypted connection was not made. Nothing was sent on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

/// The trouble among the sources of an error, if it is one of TLS.
pub fn trouble(error: &(dyn Error + 'static)) -> Option<Trouble> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return of(found);
        }
        // What an error of the system holds is not its source: it speaks for it.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn of(error: &rustls::Error) -> Option<Trouble> {
    let trouble = |what: String, remedy| Some(Trouble { what, remedy });
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            trouble("it does not speak TLS".to_owned(), "call it by http://, or switch TLS on there")
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => trouble(
            "its certificate is signed by no authority that is trusted here".to_owned(),
            "name the file of its authority's certificate with --ca-file or tls.ca_file",
        ),
        rustls::Error::InvalidCertificate(
            why @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => trouble(
            format!("its certificate is for another name: {why}"),
            "call it by a name of its certificate; where it is found by its data directory or by its role, tls.api.host, \
             dispatcher.address or executor.advertise say that name",
        ),
        rustls::Error::InvalidCertificate(
            why @ (CertificateError::Expired | CertificateError::ExpiredContext { .. }),
        ) => trouble(format!("its certificate has expired: {why}"), "replace the certificate there"),
        rustls::Error::InvalidCertificate(why) => {
            trouble(format!("its certificate is refused: {why}"), "replace the certificate there")
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied),
        ) => trouble(
            format!("it refuses the certificate shown here ({alert:?})"),
            "show one that its authority (tls.ca_file there) has signed: tls.roles here",
        ),
        _ => None,
    }
}
