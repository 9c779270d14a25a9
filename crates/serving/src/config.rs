//! The bounds of a listener.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::bounds::within;

use crate::descriptors;

/// Connections that a listener for the cluster's own roles takes.
const FEW: usize = 2_048;
/// The fewest that a listener takes, however few descriptors there are.
const FEWEST: usize = 8;
/// How long a body may take to arrive where the listener says nothing else.
const BODY: Duration = Duration::from_secs(10);

/// Bounds of the connections to every listener of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Connections to the interface at once. One more closes the one that has been silent for longest, or is answered
    /// 503 where none is. Default 32,768; 16 to 1,000,000. Never more than the limit on open files leaves beside what
    /// the log, the tables and running jobs need.
    pub max_connections: usize,
    /// Of these, connections from one address (IPv6: from one /64). Default 24,576; 1 to 1,000,000, and three quarters of
    /// all at most.
    pub max_connections_per_address: usize,
    /// How long the head of a request may take to arrive, milliseconds, and its first byte on a new connection. Default
    /// 10,000; 100 to 600,000.
    pub header_timeout_ms: u64,
    /// How long a connection may be silent between two requests, milliseconds. Default 120,000; 100 to 3,600,000.
    pub idle_timeout_ms: u64,
    /// How long a client may take nothing of an answer that waits for it, milliseconds. Default 30,000; 100 to
    /// 3,600,000.
    pub write_timeout_ms: u64,
    /// The fewest bytes of a body that have to come in each second, on average and after the first two seconds. Default
    /// 512; 1 to 1,000,000.
    pub min_body_bytes_per_s: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_connections: 32_768,
            max_connections_per_address: 24_576,
            header_timeout_ms: 10_000,
            idle_timeout_ms: 120_000,
            write_timeout_ms: 30_000,
            min_body_bytes_per_s: 512,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field outside its range, with the rule.
    pub fn check(&self) -> Result<(), String> {
        within("max_connections", self.max_connections as u64, 16, 1_000_000)?;
        within("max_connections_per_address", self.max_connections_per_address as u64, 1, 1_000_000)?;
        within("header_timeout_ms", self.header_timeout_ms, 100, 600_000)?;
        within("idle_timeout_ms", self.idle_timeout_ms, 100, 3_600_000)?;
        within("write_timeout_ms", self.write_timeout_ms, 100, 3_600_000)?;
        within("min_body_bytes_per_s", self.min_body_bytes_per_s, 1, 1_000_000)
    }

    /// For the listener that everybody calls.
    pub fn for_everybody(&self) -> Limits {
        let free = descriptors::for_connections();
        let connections = self.max_connections.min(free.saturating_sub(of_own_roles(free))).max(FEWEST);
        self.limits(connections, self.max_connections_per_address.min(connections - connections / 4))
    }

    /// For a listener that only roles of the cluster call, all of them from one address perhaps.
    pub fn for_own_roles(&self) -> Limits {
        let connections = of_own_roles(descriptors::for_connections());
        self.limits(connections, connections)
    }

    fn limits(&self, connections: usize, per_address: usize) -> Limits {
        Limits {
            connections,
            per_address,
            header: Duration::from_millis(self.header_timeout_ms),
            idle: Duration::from_millis(self.idle_timeout_ms),
            write: Duration::from_millis(self.write_timeout_ms),
            body: BODY,
            body_bytes_per_s: self.min_body_bytes_per_s,
        }
    }
}

fn of_own_roles(free: usize) -> usize {
    (free / 4).clamp(FEWEST, FEW)
}

/// The bounds of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Of these, from one address.
    pub per_address: usize,
    /// For the head of a request.
    pub header: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// While a client takes nothing of its answer.
    pub write: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// Bytes of a body in each second, on average.
    pub body_bytes_per_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_what_is_outside_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let config = Config { header_timeout_ms: 0, ..Config::default() };
        assert!(config.check().is_err_and(|error| error.starts_with("header_timeout_ms is 0")));
    }

    #[test]
    fn one_address_never_gets_all_connections() {
        let limits = Config { max_connections: 16, max_connections_per_address: 1_000, ..Config::default() }
            .for_everybody();
        assert_eq!((limits.connections, limits.per_address), (16, 12));
    }
}
