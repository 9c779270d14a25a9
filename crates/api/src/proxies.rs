//! Proxies before the interface, and from where a request came to them.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

const HEADER: &str = "x-forwarded-for";
const MOST: usize = 64;
/// Addresses of one request that are looked at, from the last one on: nobody has so many proxies.
const MOST_ADDRESSES: usize = 16;

/// Those whose word on an address is taken.
#[derive(Debug, Default)]
pub(crate) struct Proxies(Vec<IpNet>);

impl Proxies {
    /// From the configuration.
    pub(crate) fn of(named: &[String]) -> Result<Self, String> {
        if named.len() > MOST {
            return Err(format!(
                "trusted_proxies has {} entries, but has to have at most {MOST}",
                named.len()
            ));
        }
        let network = |name: &String| {
            let address = || name.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
            let network = name.parse::<IpNet>().ok().or_else(address);
            // A network of everybody would let everybody choose where they come from.
            network.filter(|network| network.prefix_len() > 0).ok_or_else(|| {
                format!("trusted_proxies has {name:?}; each must be an address or a network, as 10.0.0.7 or 10.0.7.0/28")
            })
        };
        named.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// From where a request came, whose connection is from `peer`. Each proxy appends whom it was asked by, so the addresses are
    /// read from the last one on, until one is nobody's whose word counts.
    pub(crate) fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer.to_canonical();
        // A line that is no text has nobody's address, and nothing before it counts.
        let lines: Vec<_> = headers.get_all(HEADER).iter().map(|line| line.to_str().unwrap_or("")).collect();
        let named = lines.iter().rev().flat_map(|line| line.rsplit(','));
        for text in named.take(MOST_ADDRESSES) {
            if !self.has(origin) {
                break;
            }
            // Whoever stands behind what is no address is not known, and the proxy is whom it came from.
            let Some(address) = address_in(text.trim()) else { break };
            origin = address.to_canonical();
        }
        origin
    }
}

/// With a port or without, as proxies write it.
fn address_in(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(with_port).or_else(in_brackets)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn origin(proxies: &[&str], peer: &str, lines: &[&'static str]) -> String {
        let named: Vec<_> = proxies.iter().map(|name| (*name).to_owned()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            let line = line.replace('?', "\u{ff}");
            headers.append(HEADER, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Proxies::of(&named).unwrap().origin(peer.parse().unwrap(), &headers).to_string()
    }

    /// API-5: an address is taken from those who are trusted, and from nobody else; nobody chooses their own.
    #[test]
    fn word_of_a_proxy_counts_and_that_of_others_does_not() {
        for (proxies, peer, lines, expected) in [
            (&[][..], "192.0.2.1", &["203.0.113.5"][..], "192.0.2.1"),
            (&["10.0.0.0/8"], "192.0.2.1", &["203.0.113.5"], "192.0.2.1"),
            (&["10.0.0.0/8"], "10.1.2.3", &[], "10.1.2.3"),
            (&["10.0.0.0/8"], "10.1.2.3", &["203.0.113.5"], "203.0.113.5"),
            (&["10.0.0.0/8"], "10.1.2.3", &["198.51.100.9, 203.0.113.5"], "203.0.113.5"),
            (&["10.0.0.0/8"], "10.1.2.3", &["198.51.100.9", "203.0.113.5,10.9.9.9"], "203.0.113.5"),
            (&["10.0.0.0/8"], "10.1.2.3", &["203.0.113.5, unknown"], "10.1.2.3"),
            (&["10.0.0.0/8"], "10.1.2.3", &["10.0.0.1"], "10.0.0.1"),
            // What is no text is nobody's address, and what stands before it may be anybody's word.
            (&["10.0.0.0/8"], "10.1.2.3", &["198.51.100.9", "?, 203.0.113.5"], "10.1.2.3"),
            (&["10.0.0.0/8"], "10.1.2.3", &["198.51.100.9", "?"], "10.1.2.3"),
            (&["10.0.0.0/8"], "10.1.2.3", &["203.0.113.5:4711"], "203.0.113.5"),
            (&["10.0.0.0/8"], "10.1.2.3", &["[2001:db9::7]:4711"], "2001:db9::7"),
            (&["10.0.0.0/8"], "10.1.2.3", &["[2001:db9::7]"], "2001:db9::7"),
            (&["::ffff:10.1.2.3"], "10.1.2.3", &["203.0.113.5"], "203.0.113.5"),
            (&["10.1.2.3"], "::ffff:10.1.2.3", &["::ffff:203.0.113.5"], "203.0.113.5"),
            (&["2001:db8::/32"], "2001:db8::1", &["2001:db9::7"], "2001:db9::7"),
        ] {
            assert_eq!(origin(proxies, peer, lines), expected, "{proxies:?} {peer} {lines:?}");
        }
    }

    #[test]
    fn what_is_no_network_is_named() {
        for wrong in ["proxy.example", "10.0.0.0/33", "", "10.0.0.1:80", "0.0.0.0/0", "::/0"] {
            let error = Proxies::of(&[wrong.to_owned()]).unwrap_err();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
        assert!(Proxies::of(&vec!["10.0.0.1".to_owned(); 65]).unwrap_err().contains("65 entries"));
    }
}
