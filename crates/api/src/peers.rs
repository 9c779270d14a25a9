//! How roles ask one another over HTTP: encrypted where the cluster's roles are, plain where not.

use tidemill_serving::tls::{self, Roles};

use crate::Error;

/// Builds clients for what other roles serve.
pub(crate) struct Peers {
    /// Begins every address.
    pub(crate) scheme: &'static str,
    builder: reqwest::ClientBuilder,
}

impl Peers {
    pub(crate) fn new(roles: Option<&Roles>) -> Self {
        let scheme = if roles.is_some() { "https" } else { "http" };
        let config = roles.map_or_else(tls::trusts_nobody, Roles::client);
        let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config);
        Self { scheme, builder }
    }

    pub(crate) fn client(
        self,
        with: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<reqwest::Client, Error> {
        with(self.builder).build().map_err(Error::Client)
    }
}

/// Why the other side did not answer, where it is a matter of encryption.
pub(crate) fn trouble(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    tls::trouble(error).map(|trouble| format!("{}: {}", trouble.what, trouble.remedy))
}
