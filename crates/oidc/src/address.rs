//! Addresses that secrets may be sent to.

use url::{Host, Url};

/// An address that is encrypted, or on this machine: without user, password and fragment.
pub(crate) fn safe(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    (is_safe && is_plain(&url)).then_some(url)
}

/// Whether it has a host, and neither user, password nor fragment.
pub(crate) fn is_plain(url: &Url) -> bool {
    url.has_host() && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// Whether it is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: no secret goes over a network without encryption.
    #[test]
    fn only_encrypted_or_local_addresses_are_safe() {
        for good in [
            "https://id.example.org",
            "https://id.example.org:8443/realms/x",
            "http://127.0.0.1:5",
            "http://[::1]/x",
            "http://localhost:1",
        ] {
            assert!(safe(good).is_some(), "{good}");
        }
        for bad in [
            "http://id.example.org",
            "http://localhost.example.org",
            "http://128.0.0.1",
            "ftp://127.0.0.1",
            "https://ann@id.example.org",
            "https://:x@id.example.org",
            "https://id.example.org/#x",
            "https://",
            "id.example.org",
            "",
        ] {
            assert!(safe(bad).is_none(), "{bad}");
        }
    }
}
