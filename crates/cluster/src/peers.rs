//! How roles ask one another over HTTP: encrypted where the cluster's roles are, plain where not.

use tidemill_serving::tls::{self, Roles};

/// Builds clients for what other roles serve.
pub struct Peers {
    /// Begins every address: `http` or `https`.
    pub scheme: &'static str,
    builder: reqwest::ClientBuilder,
}

impl Peers {
    /// Encrypted where `roles` says how.
    #[must_use]
    pub fn new(roles: Option<&Roles>) -> Self {
        let scheme = if roles.is_some() { "https" } else { "http" };
        let config = roles.map_or_else(tls::trusts_nobody, Roles::client);
        let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config);
        Self { scheme, builder }
    }

    /// A client, with what else the caller wants of it.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn client(
        self,
        with: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<reqwest::Client, reqwest::Error> {
        with(self.builder).build()
    }
}

/// Why the other side did not answer, where it is a matter of encryption.
#[must_use]
pub fn trouble(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    tls::trouble(error).map(|trouble| format!("{}: {}", trouble.what, trouble.remedy))
}
