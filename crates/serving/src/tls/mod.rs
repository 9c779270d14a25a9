//! Encrypted listeners and their clients (OPS-10): TLS 1.2 and 1.3, by files of PEM.
//!
//! ```text
//!  everybody ─► the interface: shows a certificate, asks for none
//!  roles ◄────► live port, workers' logs: each side shows one, and each is signed by the cluster's authority
//! ```

mod files;
mod identity;
mod trouble;

use std::path::Path;
use std::sync::Arc;

pub use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_rustls::TlsAcceptor;

pub use files::{FileError, Files, Which, certificates};
pub use identity::Identity;
pub use trouble::{Trouble, trouble};

/// The algorithms; named wherever TLS is set up, so that nothing depends on who has set a default.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// How a listener is encrypted.
#[derive(Clone)]
pub struct ServerSide(Arc<ServerConfig>);

impl ServerSide {
    /// For a listener that everybody calls: it shows its certificate, and asks for none.
    pub fn for_everybody(identity: Arc<Identity>) -> Self {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has what both versions need")
            .with_no_client_auth();
        Self::new(builder.with_cert_resolver(identity))
    }

    fn new(mut config: ServerConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

impl std::fmt::Debug for ServerSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerSide")
    }
}

/// How the roles of a cluster speak with one another: whoever has no certificate that the authority has signed is none
/// of them, on either side.
#[derive(Clone)]
pub struct Roles {
    server: ServerSide,
    client: ClientConfig,
}

impl Roles {
    /// With this certificate, and the authority of this file.
    ///
    /// # Errors
    /// A file cannot be used, or the authority has not signed the certificate for both sides.
    pub fn new(identity: Arc<Identity>, ca_file: &Path) -> Result<Self, FileError> {
        let roots = files::authorities(ca_file)?;
        signed(&identity, &roots, ca_file)?;
        let refused = |error: &dyn std::fmt::Display| {
            FileError::new(Which::Authorities, ca_file, format!("cannot be used: {error}"))
        };
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .build()
            .map_err(|error| refused(&error))?;
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has what both versions need")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(&identity) as _);
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has what both versions need")
            .with_root_certificates(roots)
            .with_client_cert_resolver(identity);
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { server: ServerSide::new(server), client })
    }

    /// For a listener that roles call.
    pub fn server(&self) -> ServerSide {
        self.server.clone()
    }

    /// For a client of such a listener.
    pub fn client(&self) -> ClientConfig {
        self.client.clone()
    }
}

impl std::fmt::Debug for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Roles")
    }
}

/// For a client of servers that show a certificate and ask for none: it trusts the authorities of the file and no others,
/// without a file those that the machine trusts.
///
/// # Errors
/// The file cannot be used, or the machine does not say whom it trusts.
pub fn trusts(ca_file: Option<&Path>) -> Result<ClientConfig, FileError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has what both versions need");
    let mut config = match ca_file {
        Some(file) => builder.with_root_certificates(files::authorities(file)?).with_no_client_auth(),
        None => builder
            .with_platform_verifier()
            .map_err(|error| {
                let rule = format!("is not set, and whom the machine trusts cannot be found out: {error}");
                FileError::new(Which::Authorities, Path::new(""), rule)
            })?
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// For a client that makes no encrypted connection: it trusts nobody, and needs nothing of the machine.
pub fn trusts_nobody() -> ClientConfig {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has what both versions need")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// Others refuse a certificate of another authority, so it is refused here, where the message is of use. One whose time
/// is over is only told, see [`Identity`].
fn signed(identity: &Identity, roots: &RootCertStore, ca_file: &Path) -> Result<(), FileError> {
    let key = identity.current();
    let (own, others) = key.cert.split_first().expect("a certificate was read");
    let roots = Arc::new(roots.clone());
    let bad = |why: String| {
        let rule = format!("is refused by {} (tls.ca_file): {why}", ca_file.display());
        Err(FileError::new(Which::Certificate, &identity.files().certificate, rule))
    };
    let server = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
    let client = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let (server, client) = match (server, client) {
        (Ok(server), Ok(client)) => (server, client),
        (Err(error), _) | (_, Err(error)) => return bad(error.to_string()),
    };
    // Whether it is for the name that others call is known to them only.
    let name = ServerName::try_from("any.invalid").expect("it is a name");
    let now = UnixTime::now();
    let checks = [
        server.verify_server_cert(own, others, &name, &[], now).map(drop),
        client.verify_client_cert(own, others, now).map(drop),
    ];
    for checked in checks {
        match checked {
            Ok(()) => {}
            Err(rustls::Error::InvalidCertificate(why)) => match why {
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }
                | CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => {}
                CertificateError::UnknownIssuer => {
                    return bad("none of the authorities in there has signed it".to_owned());
                }
                why => return bad(format!("{why} (it has to be good for servers and clients)")),
            },
            Err(error) => return bad(error.to_string()),
        }
    }
    Ok(())
}
