//! A network of its own for one process: a namespace, joined to ours by one cable that can be cut.
//!
//! ```text
//!  process ─ 10.a.b.2 ═══ cable ═══ 10.a.b.1 ─ proxies ─ services
//! ```

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;

use crate::command::call;

/// A namespace and its cable.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    outer: Ipv4Addr,
    inner: Ipv4Addr,
}

impl Network {
    /// Makes the `index`-th network of a run.
    ///
    /// # Errors
    /// The machine does not permit it.
    pub(crate) fn make(run: u32, index: u8) -> Result<Self> {
        let [_, _, a, b] = run.to_be_bytes();
        let address = |last| Ipv4Addr::new(10, 64 + (a & 0x3f), b, index * 4 + last);
        let network =
            Self { name: format!("tm{:04x}n{index}", run & 0xffff), outer: address(1), inner: address(2) };
        call("ip", &["netns", "add", &network.name])?;
        // From here on what was made is removed when this is dropped.
        let name = network.name.as_str();
        let (outer, inner) = (format!("{}/30", network.outer), format!("{}/30", network.inner));
        call("ip", &["link", "add", name, "type", "veth", "peer", "name", "cable", "netns", name])?;
        call("ip", &["address", "add", &outer, "dev", name])?;
        call("ip", &["link", "set", name, "up"])?;
        call("ip", &["-n", name, "address", "add", &inner, "dev", "cable"])?;
        call("ip", &["-n", name, "link", "set", "cable", "up"])?;
        call("ip", &["-n", name, "link", "set", "lo", "up"])?;
        Ok(network)
    }

    /// Where its process reaches us.
    #[must_use]
    pub(crate) const fn outer(&self) -> IpAddr {
        IpAddr::V4(self.outer)
    }

    /// Where we reach its process.
    #[must_use]
    pub(crate) const fn inner(&self) -> IpAddr {
        IpAddr::V4(self.inner)
    }

    /// What a program has to be started by to be in it; the process id stays.
    #[must_use]
    pub(crate) fn entry(&self) -> [String; 2] {
        // Not `ip netns exec`: that hides the machine's cgroups.
        ["nsenter".to_owned(), format!("--net=/run/netns/{}", self.name)]
    }

    /// Pulls the cable, or plugs it in.
    ///
    /// # Errors
    /// The machine does not permit it.
    pub(crate) fn plug(&self, is_in: bool) -> Result<()> {
        call("ip", &["link", "set", &self.name, if is_in { "up" } else { "down" }]).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The cable goes with the namespace, at once where it is deleted first.
        for arguments in [["link", "del", &self.name], ["netns", "del", &self.name]] {
            if let Err(error) = call("ip", &arguments)
                && !format!("{error:#}").contains("Cannot find device")
            {
                eprintln!("a network is left behind: {error:#}");
            }
        }
    }
}
