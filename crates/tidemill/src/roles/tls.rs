//! Certificates of the roles of this process.

use std::path::Path;

use tidemill_cli::{Done, Failure};
use tidemill_serving::tls::{ClientConfig, FileError, Files, Identity, Roles, ServerSide, Which};

use crate::config::Settings;

/// How this process serves and asks; nothing where the settings name no certificate.
#[derive(Clone)]
pub(crate) struct Tls {
    /// For the interface.
    pub(crate) api: Option<ServerSide>,
    /// For what roles ask one another.
    pub(crate) roles: Option<Roles>,
}

impl Tls {
    /// Reads what the settings name: before any role starts, so that a bad file stops none halfway.
    pub(crate) fn open(settings: &Settings) -> Done<Self> {
        let tls = &settings.tls;
        let (api, roles) = (&tls.api, &tls.roles);
        let api = identity("tls.api", api.certificate_file.as_deref(), api.key_file.as_deref())?;
        let identity = identity("tls.roles", roles.certificate_file.as_deref(), roles.key_file.as_deref())?;
        let roles = identity.zip(tls.ca_file.as_deref()).map(|(identity, ca_file)| {
            Roles::new(identity, ca_file).map_err(|error| bad("tls.roles", &error))
        });
        Ok(Self { api: api.map(ServerSide::for_everybody), roles: roles.transpose()? })
    }

    /// For listeners that roles call.
    pub(crate) fn for_roles(&self) -> Option<ServerSide> {
        self.roles.as_ref().map(Roles::server)
    }
}

/// Whom this process trusts where it asks servers that are no roles of the cluster.
pub(crate) fn for_clients(settings: &Settings) -> Done<ClientConfig> {
    tidemill_serving::tls::trusts(settings.tls.ca_file.as_deref()).map_err(|error| bad("tls", &error))
}

fn identity(
    section: &str,
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Done<Option<std::sync::Arc<Identity>>> {
    let Some((certificate, key)) = certificate.zip(key) else { return Ok(None) };
    let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
    Identity::open(files).map(Some).map_err(|error| bad(section, &error))
}

/// The setting, the file, what is wrong with it, and what to do.
fn bad(section: &str, error: &FileError) -> Failure {
    let FileError { which, file, rule } = error;
    let (setting, hint) = match which {
        Which::Certificate => (
            format!("{section}.certificate_file"),
            "name a file with the certificate in PEM, and after it those that lead to its authority",
        ),
        Which::Key => (
            format!("{section}.key_file"),
            "name a file with the certificate's private key in PEM that no other account can read",
        ),
        Which::Authorities => {
            ("tls.ca_file".to_owned(), "name a file with the certificates of the authorities in PEM")
        }
    };
    Failure::bad_input(format!("{setting}: {file:?}: {rule}")).hint(hint)
}
