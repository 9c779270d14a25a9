//! How the connections to Kafka are protected.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::FieldError;

/// A text that is not written into log lines.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Whether connections are encrypted, and whether brokers ask who this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SecurityProtocol {
    /// Neither.
    #[default]
    Plaintext,
    /// Encrypted by TLS. A broker may ask for a certificate.
    Ssl,
    /// Not encrypted; with a name and password.
    SaslPlaintext,
    /// Encrypted by TLS; with a name and password.
    SaslSsl,
}

/// How a password is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub(crate) enum SaslMechanism {
    /// By sending it.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Without telling it.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Without telling it.
    #[default]
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// How the connections to Kafka are protected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SecuritySettings {
    /// `plaintext` (default), `ssl` (encrypted by TLS), `sasl_ssl` (the same, with a name and password) or
    /// `sasl_plaintext` (with those, not encrypted). All but the first need the feature `kafka-tls`.
    pub(crate) protocol: SecurityProtocol,
    /// With a name and password: `SCRAM-SHA-512` (default), `SCRAM-SHA-256`, or `PLAIN`, for `sasl_ssl` only, since it
    /// sends the password itself.
    pub(crate) mechanism: SaslMechanism,
    /// The name that the brokers know this process by. Needed for `sasl_ssl` and `sasl_plaintext`.
    pub(crate) user: Option<String>,
    /// Its password, or else `password_file`.
    pub(crate) password: Option<Hidden>,
    /// The file that holds the password, and nothing else but a line's end; it is read at the start.
    pub(crate) password_file: Option<PathBuf>,
    /// With TLS: a PEM file with the certificates of who may have signed the brokers'. Default: those that the
    /// machine's OpenSSL trusts.
    pub(crate) ca_file: Option<PathBuf>,
    /// With TLS: a PEM file with this process's own certificate, for brokers that ask for one. Default none.
    pub(crate) certificate_file: Option<PathBuf>,
    /// The PEM file of its key.
    pub(crate) key_file: Option<PathBuf>,
}

/// Settings of the client library that have one of their own, and which.
const OWN: [(&str, &str); 8] = [
    ("sasl.mechanism", "mechanism"),
    ("sasl.mechanisms", "mechanism"),
    ("sasl.password", "password"),
    ("sasl.username", "user"),
    ("security.protocol", "protocol"),
    ("ssl.ca.location", "ca_file"),
    ("ssl.certificate.location", "certificate_file"),
    ("ssl.key.location", "key_file"),
];

impl SecuritySettings {
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.protocol, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    pub(crate) fn has_login(&self) -> bool {
        matches!(self.protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    }

    /// What must come together.
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let wrong = |field: &str, rule: &str| Err(FieldError::new(field, "…", rule));
        let logins = [
            ("user", self.user.is_some()),
            ("password", self.password.is_some()),
            ("password_file", self.password_file.is_some()),
        ];
        let files = [
            ("ca_file", self.ca_file.is_some()),
            ("certificate_file", self.certificate_file.is_some()),
            ("key_file", self.key_file.is_some()),
        ];
        if let Some((field, _)) = logins.into_iter().find(|(_, is_set)| *is_set && !self.has_login()) {
            return wrong(field, "goes with log.security.protocol = \"sasl_ssl\" or \"sasl_plaintext\"");
        }
        if let Some((field, _)) = files.into_iter().find(|(_, is_set)| *is_set && !self.is_encrypted()) {
            return wrong(field, "goes with log.security.protocol = \"ssl\" or \"sasl_ssl\"");
        }
        if self.has_login() {
            if self.user.as_ref().is_none_or(String::is_empty) {
                return wrong("user", "must be the name that the brokers know this process by");
            }
            if self.password.is_some() == self.password_file.is_some() {
                return wrong("password", "must be given here or by password_file; give one of the two");
            }
            if self.password.as_ref().is_some_and(|password| password.0.is_empty()) {
                return wrong("password", "must not be empty");
            }
            if self.mechanism == SaslMechanism::Plain && !self.is_encrypted() {
                let rule =
                    "sends the password itself, so it goes with log.security.protocol = \"sasl_ssl\" only";
                return wrong("mechanism", rule);
            }
        }
        if self.certificate_file.is_some() != self.key_file.is_some() {
            return wrong("key_file", "goes with certificate_file; give both or neither");
        }
        Ok(())
    }

    /// The one of more settings of the client library that has a setting of its own, and the rule.
    pub(crate) fn check_more<'a>(mut more: impl Iterator<Item = &'a String>) -> Result<(), String> {
        let own = more.find_map(|key| OWN.iter().find(|(known, _)| known == key));
        match own {
            None => Ok(()),
            Some((key, own)) => {
                Err(format!("{key} has a setting of its own: remove it here and set log.security.{own}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breach(json: &str) -> Option<String> {
        let settings: SecuritySettings = serde_json::from_str(json).unwrap();
        settings.check().err().map(|error| error.field)
    }

    /// OPS-10: what protects a connection comes together, and nothing is taken that would not be used.
    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        for (json, field) in [
            (r#"{}"#, None),
            (r#"{"protocol": "ssl", "ca_file": "/ca"}"#, None),
            (r#"{"protocol": "sasl_ssl", "user": "a", "password": "b", "mechanism": "PLAIN"}"#, None),
            (r#"{"protocol": "sasl_plaintext", "user": "a", "password_file": "/b"}"#, None),
            (r#"{"ca_file": "/ca"}"#, Some("ca_file")),
            (
                r#"{"protocol": "sasl_plaintext", "user": "a", "password": "b", "ca_file": "/c"}"#,
                Some("ca_file"),
            ),
            (r#"{"protocol": "ssl", "user": "a"}"#, Some("user")),
            (r#"{"protocol": "ssl", "certificate_file": "/c"}"#, Some("key_file")),
            (r#"{"protocol": "sasl_ssl", "password": "b"}"#, Some("user")),
            (r#"{"protocol": "sasl_ssl", "user": "a"}"#, Some("password")),
            (r#"{"protocol": "sasl_ssl", "user": "a", "password": ""}"#, Some("password")),
            (
                r#"{"protocol": "sasl_ssl", "user": "a", "password": "b", "password_file": "/b"}"#,
                Some("password"),
            ),
            (
                r#"{"protocol": "sasl_plaintext", "user": "a", "password": "b", "mechanism": "PLAIN"}"#,
                Some("mechanism"),
            ),
        ] {
            assert_eq!(breach(json).as_deref(), field, "{json}");
        }
    }

    /// OPS-10: a password is not in what is printed for diagnosis.
    #[test]
    fn password_is_not_printed() {
        let settings = SecuritySettings { password: Some(Hidden("sesame".to_owned())), ..Default::default() };
        assert!(!format!("{settings:?}").contains("sesame"));
    }
}
