//! A cluster of real processes, and what its journal says.

mod cluster;
mod database;
mod git_history;
mod history;
mod journal;
mod process;
#[cfg(feature = "redis")]
mod redis;
mod relay;
mod topics;
mod turn;

pub(crate) use cluster::Cluster;
pub(crate) use git_history::GitHistory;
pub(crate) use history::History;
pub(crate) use journal::{Journal, What};
pub(crate) use process::Process;
#[cfg(feature = "redis")]
#[allow(unused_imports, reason = "the test of many paths needs none")]
pub(crate) use redis::Redis;
pub(crate) use relay::Relay;

use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes longer unless it is broken, on a slow machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Looks until there is something to see; fails with what was looked for.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun_at.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        // Each look is work for what is looked at.
        thread::sleep(Duration::from_millis(100));
    }
}

/// The address of a service; without it the test fails.
pub(crate) fn service(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} names a service: run `deploy/dev/services start`, \
             then `eval \"$(deploy/dev/services env)\"`"
        )
    })
}

/// A port that is free now, and that the system gives to nobody who asks for any.
fn free_port() -> u16 {
    until("a port is free", || {
        let mut bytes = [0_u8; 2];
        getrandom::fill(&mut bytes).unwrap();
        let port = 22_000 + u16::from_ne_bytes(bytes) % 10_000;
        std::net::TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    })
}

/// So many random bytes, in hexadecimal.
fn random<const N: usize>() -> String {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
