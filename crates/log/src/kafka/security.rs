//! How the connections to the brokers are protected.

use std::fmt;
use std::path::{Path, PathBuf};

/// Whether connections are encrypted, and who this process is to the brokers. By default neither.
///
/// Either needs the feature `kafka-tls`: without OpenSSL the client library knows neither TLS nor SCRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaSecurity {
    /// Encrypts connections.
    pub tls: Option<KafkaTls>,
    /// Says who this process is.
    pub login: Option<KafkaLogin>,
}

/// Whose certificates are trusted, and which one is shown. A broker's has to name the host that it is reached by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// PEM file of those who may have signed a broker's. Default: those that the machine's OpenSSL trusts.
    pub ca_file: Option<PathBuf>,
    /// PEM files of this process's own certificate and its key, for brokers that ask for one.
    pub own: Option<KafkaCertificate>,
}

/// A certificate and its key, a PEM file each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaCertificate {
    /// The certificate, and those that lead from it to one that the brokers trust.
    pub file: PathBuf,
    /// Its key, without a password.
    pub key_file: PathBuf,
}

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaLogin {
    /// How the password is proven.
    pub mechanism: KafkaMechanism,
    /// The name.
    pub user: String,
    /// The password; never shown.
    pub password: String,
}

impl fmt::Debug for KafkaLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, password: _ } = self;
        f.debug_struct("KafkaLogin")
            .field("mechanism", mechanism)
            .field("user", user)
            .field("password", &"(hidden)")
            .finish()
    }
}

/// How a password is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaMechanism {
    /// By sending it.
    Plain,
    /// By a proof that does not tell it, with SHA-256.
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
}

impl KafkaMechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl KafkaSecurity {
    /// As settings of the client library; none where nothing is protected.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let protocol = match (&self.tls, &self.login) {
            (None, None) => return Vec::new(),
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        let mut settings = vec![("security.protocol", protocol.to_owned())];
        if let Some(KafkaLogin { mechanism, user, password }) = &self.login {
            settings.push(("sasl.mechanisms", mechanism.name().to_owned()));
            settings.push(("sasl.username", user.clone()));
            settings.push(("sasl.password", password.clone()));
        }
        if let Some(KafkaTls { ca_file, own }) = &self.tls {
            settings.extend(ca_file.as_deref().map(|file| ("ssl.ca.location", text(file))));
            settings.extend(own.iter().flat_map(|KafkaCertificate { file, key_file }| {
                [("ssl.certificate.location", text(file)), ("ssl.key.location", text(key_file))]
            }));
        }
        settings
    }
}

fn text(file: &Path) -> String {
    file.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-10: what is asked for is what the client library is told, and no password is in what people see of it.
    #[test]
    fn client_is_told_what_is_asked_for_and_nobody_else_the_password() {
        assert!(KafkaSecurity::default().settings().is_empty());
        let login = KafkaLogin {
            mechanism: KafkaMechanism::ScramSha256,
            user: "ann".to_owned(),
            password: "sesame".to_owned(),
        };
        let own = KafkaCertificate { file: "/own.pem".into(), key_file: "/own.key".into() };
        let tls = KafkaTls { ca_file: Some("/ca.pem".into()), own: Some(own) };
        let whole = KafkaSecurity { tls: Some(tls), login: Some(login) };
        assert!(!format!("{whole:?}").contains("sesame"));
        let settings = whole.settings();
        let told: Vec<_> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            told,
            [
                "security.protocol=sasl_ssl",
                "sasl.mechanisms=SCRAM-SHA-256",
                "sasl.username=ann",
                "sasl.password=sesame",
                "ssl.ca.location=/ca.pem",
                "ssl.certificate.location=/own.pem",
                "ssl.key.location=/own.key",
            ]
        );
        let protocol = |security: KafkaSecurity| security.settings().swap_remove(0).1;
        assert_eq!(protocol(KafkaSecurity { tls: None, ..whole.clone() }), "sasl_plaintext");
        assert_eq!(protocol(KafkaSecurity { login: None, ..whole }), "ssl");
    }
}
