//! Ports of this machine for the processes of one run, each given once.

use std::collections::BTreeSet;
use std::net::TcpListener;

use anyhow::{Result, bail};

use crate::rng::Rng;

/// Below those that the script of the services takes, and below those that outgoing connections get: such a port is
/// nobody else's, and still free after a crash.
const RANGE: (u64, u64) = (10_000, 20_000);
const TRIES: usize = 1_000;

/// Gives ports that nobody listens on. A port that is given and not yet listened on is not given again.
pub(crate) struct Ports {
    rng: Rng,
    given: BTreeSet<u16>,
}

impl Ports {
    pub(crate) const fn new(rng: Rng) -> Self {
        Self { rng, given: BTreeSet::new() }
    }

    /// # Errors
    /// None is found.
    pub(crate) fn next(&mut self) -> Result<u16> {
        self.next_of(RANGE)
    }

    fn next_of(&mut self, (from, to): (u64, u64)) -> Result<u16> {
        for _ in 0..TRIES {
            let port = u16::try_from(self.rng.range(from, to))?;
            if TcpListener::bind(("0.0.0.0", port)).is_ok() && self.given.insert(port) {
                return Ok(port);
            }
        }
        bail!("no free port from {from} to {to}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let mut ports = Ports::new(Rng::new(1, "ports"));
        let range = (10_000, 10_040);
        let mut given = Vec::new();
        while let Ok(port) = ports.next_of(range) {
            given.push(port);
        }
        assert!(!given.is_empty(), "none of forty is free");
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "{given:?}");
    }
}
