//! Settings of encryption.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Encryption of what this program serves, and whom its clients trust. A certificate and its key are read again when
/// their files change; `tls.ca_file` is read at the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsSettings {
    /// The certificates, in PEM, of the authorities that have signed those of roles and of the interface. Roles and
    /// client commands trust them and no others. Default none: client commands trust whom the machine trusts.
    pub(crate) ca_file: Option<PathBuf>,
    /// The interface's own certificate.
    pub(crate) api: TlsApiSettings,
    /// The certificate of this process among the roles: the live port, the logs of executors, and those who ask there.
    pub(crate) roles: TlsRolesSettings,
}

/// The interface's own certificate; with it, it answers by `https://` only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsApiSettings {
    /// The certificate in PEM, and after it those that lead to its authority. Default none: `http://`.
    pub(crate) certificate_file: Option<PathBuf>,
    /// Its private key in PEM, without a passphrase; only its owner and group may read it. Required with the certificate.
    pub(crate) key_file: Option<PathBuf>,
    /// The name, or address, in the certificate by which client commands of the data directory and the jobs of
    /// `standalone` call it. Default: the address it listens on.
    pub(crate) host: Option<String>,
}

/// The certificate of this process among the roles; with it, roles speak encrypted only, and only with those whose
/// certificate an authority of `tls.ca_file` has signed. All roles of a cluster have one, or none has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsRolesSettings {
    /// The certificate in PEM, good for servers and clients, with the host of `dispatcher.address` or
    /// `executor.advertise` in it. Default none: roles speak `http://`.
    pub(crate) certificate_file: Option<PathBuf>,
    /// Its private key in PEM, without a passphrase; only its owner and group may read it. Required with the certificate.
    pub(crate) key_file: Option<PathBuf>,
}

impl TlsSettings {
    /// What must come together. The path that is wrong, and the rule.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let Self { ca_file, api, roles } = self;
        both("tls.api", api.certificate_file.is_some(), api.key_file.is_some())?;
        both("tls.roles", roles.certificate_file.is_some(), roles.key_file.is_some())?;
        if roles.certificate_file.is_some() && ca_file.is_none() {
            let rule = "needs tls.ca_file, the authorities by which roles know one another: set it, too";
            return Err(("tls.roles.certificate_file".to_owned(), rule.to_owned()));
        }
        match &api.host {
            Some(host) if !is_host(host) => {
                let rule = "must be a name or an address, without https:// and port";
                Err(("tls.api.host".to_owned(), rule.to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl TlsApiSettings {
    /// How the interface that listens on `address` is called.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        match (&self.certificate_file, &self.host) {
            (None, _) => format!("http://{address}"),
            (Some(_), None) => format!("https://{address}"),
            (Some(_), Some(host)) if host.parse::<Ipv6Addr>().is_ok() => {
                format!("https://[{host}]:{}", address.port())
            }
            (Some(_), Some(host)) => format!("https://{host}:{}", address.port()),
        }
    }
}

fn both(section: &str, certificate: bool, key: bool) -> Result<(), (String, String)> {
    let (given, missing) = match (certificate, key) {
        (true, false) => ("certificate_file", "key_file"),
        (false, true) => ("key_file", "certificate_file"),
        (true, true) | (false, false) => return Ok(()),
    };
    let rule = format!("needs {section}.{missing}: set both or none of the two");
    Err((format!("{section}.{given}"), rule))
}

fn is_host(host: &str) -> bool {
    let is_name = |host: &str| {
        (1..=253).contains(&host.len())
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    host.parse::<Ipv6Addr>().is_ok() || is_name(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(toml: &str) -> Option<String> {
        toml::from_str::<TlsSettings>(toml).unwrap().check().err().map(|(field, _)| field)
    }

    /// OPS-10: half of what encryption needs is refused where half of it is.
    #[test]
    fn certificate_key_and_authority_come_together() {
        let both = "certificate_file = '/c'\nkey_file = '/k'\n";
        assert_eq!(refused(""), None);
        assert_eq!(refused(&format!("[api]\n{both}")), None);
        assert_eq!(refused("[api]\ncertificate_file = '/c'").as_deref(), Some("tls.api.certificate_file"));
        assert_eq!(refused("[roles]\nkey_file = '/k'").as_deref(), Some("tls.roles.key_file"));
        let alone = refused(&format!("[roles]\n{both}"));
        assert_eq!(alone.as_deref(), Some("tls.roles.certificate_file"));
        assert_eq!(refused(&format!("ca_file = '/a'\n[roles]\n{both}")), None);
        for host in ["https://a", "a:1", "", "a b", "a/b"] {
            assert_eq!(
                refused(&format!("[api]\nhost = {host:?}")).as_deref(),
                Some("tls.api.host"),
                "{host}"
            );
        }
    }

    /// OPS-10: who finds the interface by its data directory calls it by the name in its certificate.
    #[test]
    fn encrypted_interface_is_called_by_its_name() {
        let address = "127.0.0.1:8780".parse().unwrap();
        let on = |host: &str| TlsApiSettings {
            certificate_file: Some("/c".into()),
            key_file: Some("/k".into()),
            host: (!host.is_empty()).then(|| host.to_owned()),
        };
        assert_eq!(TlsApiSettings::default().url(address), "http://127.0.0.1:8780");
        assert_eq!(on("").url(address), "https://127.0.0.1:8780");
        assert_eq!(on("tidemill.example").url(address), "https://tidemill.example:8780");
        assert_eq!(on("::1").url(address), "https://[::1]:8780");
    }
}
