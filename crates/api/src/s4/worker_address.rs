//! Which worker an address means (API-2): callers name a host by any of its names and addresses, and the worker has registered
//! one of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tidemill_store::rows::WorkerRow;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::Problem;

/// The longest name of a host.
pub(super) const MAX_HOST_BYTES: usize = 253;
/// Names that one call looks up at most.
const MAX_LOOKUPS: usize = 64;
/// Until all of them have to be answered.
const LOOKUPS_WITHIN: Duration = Duration::from_secs(2);
/// Lookups of all calls at once; each occupies a thread until the resolver answers.
static LOOKUPS: Semaphore = Semaphore::const_new(4);

/// An address as a caller or a worker writes it.
pub(super) struct Address {
    /// Without brackets, in small letters.
    host: String,
    port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { host: host.trim_end_matches('.').to_ascii_lowercase(), port }
    }

    /// As workers register it: `host:port`, `[v6]:port`.
    fn registered(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self::new(host, port.parse().ok()?))
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok().map(|ip: IpAddr| ip.to_canonical())
    }

    /// Whether both are the same without asking anybody.
    fn is(&self, other: &Self) -> bool {
        let same_host = match (self.ip(), other.ip()) {
            (Some(ip), Some(other)) => ip == other,
            _ => self.host == other.host,
        };
        same_host && self.port == other.port
    }
}

/// The worker that registered this address last, spelled in whatever way.
pub(super) fn registered_at<'r>(wanted: &Address, rows: &'r [WorkerRow]) -> Option<&'r WorkerRow> {
    let is_there = |row: &&WorkerRow| Address::registered(&row.address).is_some_and(|at| at.is(wanted));
    rows.iter().filter(is_there).max_by_key(|row| row.registered_at)
}

/// The one worker with the port whose host has this name or address, too. A worker that has left does not count.
///
/// # Errors
/// There are several, or names could not be looked up in time.
pub(super) async fn known_as<'r>(
    wanted: &Address,
    rows: impl Iterator<Item = &'r WorkerRow>,
) -> Result<Option<&'r WorkerRow>, Problem> {
    let candidates = newest_of_each(wanted, rows);
    if candidates.is_empty() {
        return Ok(None);
    }
    let mut names = Names { deadline: Instant::now() + LOOKUPS_WITHIN, left: MAX_LOOKUPS };
    let wanted_ips = names.of(wanted.host.clone()).await?;
    let mut found = Vec::new();
    for (at, row) in candidates {
        let host = Address::new(&row.host, wanted.port);
        if host.is(wanted) || is_on(&wanted_ips, &at, &host, &mut names).await? {
            found.push(row);
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => Err(ambiguous(wanted, several)),
    }
}

/// The workers that use the port now, the newest one of each address.
fn newest_of_each<'r>(
    wanted: &Address,
    rows: impl Iterator<Item = &'r WorkerRow>,
) -> Vec<(Address, &'r WorkerRow)> {
    let mut newest: Vec<(Address, &WorkerRow)> = Vec::new();
    for row in rows.filter(|row| !matches!(&*row.state, "left" | "gone")) {
        let Some(at) = Address::registered(&row.address).filter(|at| at.port == wanted.port) else {
            continue;
        };
        match newest.iter_mut().find(|(other, _)| other.is(&at)) {
            Some((_, other)) if other.registered_at < row.registered_at => *other = row,
            Some(_) => {}
            None => newest.push((at, row)),
        }
    }
    newest
}

/// Whether the host of a worker has one of these addresses: by what it registered, or by its own name.
async fn is_on(
    wanted: &BTreeSet<IpAddr>,
    at: &Address,
    host: &Address,
    names: &mut Names,
) -> Result<bool, Problem> {
    if !wanted.is_disjoint(&names.of(at.host.clone()).await?) {
        return Ok(true);
    }
    // Each host calls itself by a loopback address, so that one says nothing of which host it is.
    let own = names.of(host.host.clone()).await?;
    Ok(own.iter().any(|ip| !ip.is_loopback() && wanted.contains(ip)))
}

fn ambiguous(wanted: &Address, several: &[&WorkerRow]) -> Problem {
    let told = several.iter().take(5).map(|row| &*row.address).collect::<Vec<_>>().join(", ");
    let rule = format!(
        "must be one worker's address, and with port {} it is that of {}: {told}; give the address as one of them registered it",
        wanted.port,
        several.len()
    );
    Problem::field("ip", &wanted.host, rule)
}

/// Lookups of one call.
struct Names {
    deadline: Instant,
    left: usize,
}

impl Names {
    /// The addresses of a host; none where its name is unknown.
    async fn of(&mut self, host: String) -> Result<BTreeSet<IpAddr>, Problem> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(BTreeSet::from([ip.to_canonical()]));
        }
        if host.is_empty() || host.len() > MAX_HOST_BYTES {
            return Ok(BTreeSet::new());
        }
        let Some(left) = self.left.checked_sub(1) else { return Err(not_looked_up()) };
        self.left = left;
        timeout_at(self.deadline, looked_up(host)).await.unwrap_or_else(|_| Err(not_looked_up()))
    }
}

async fn looked_up(host: String) -> Result<BTreeSet<IpAddr>, Problem> {
    let permit = LOOKUPS.acquire().await.map_err(|_| not_looked_up())?;
    // Whoever stops waiting leaves the resolver at work: its permit goes with the thread.
    let lookup = tokio::task::spawn_blocking(move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        drop(permit);
        found.map(|found| found.map(|at| at.ip().to_canonical()).collect())
    });
    Ok(lookup.await.map_err(|_| not_looked_up())?.unwrap_or_default())
}

fn not_looked_up() -> Problem {
    Problem::unavailable(
        "names_not_looked_up",
        format!(
            "the names of the hosts could not be looked up, {MAX_LOOKUPS} of them and {} s at most; give ip and port as the \
             worker registered them, which `tidemill worker ls -o wide` shows",
            LOOKUPS_WITHIN.as_secs()
        ),
    )
}

/// Reads the address of a call.
pub(super) fn wanted(ip: &str, port: i32) -> Result<Address, Problem> {
    if ip.is_empty() || ip.len() > MAX_HOST_BYTES {
        let rule = format!("must be an address or the name of a host, 1 to {MAX_HOST_BYTES} bytes");
        return Err(Problem::field("ip", ip, rule));
    }
    let port_of = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let number = port_of(port).ok_or_else(|| Problem::field("port", port, "must be 1 to 65535"))?;
    Ok(Address::new(ip, number))
}

/// The address as problems name it.
pub(super) fn shown(ip: &str, port: i32) -> Arc<str> {
    format!("{ip}:{port}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_several_spellings() {
        let is = |a: &str, b: &str| Address::new(a, 9).is(&Address::new(b, 9));
        assert!(is("127.0.0.1", "::ffff:127.0.0.1") && is("[::1]", "0:0:0:0:0:0:0:1"));
        assert!(is("Worker-1.Example.", "worker-1.example") && !is("worker-1", "worker-2"));
        assert!(!Address::new("h", 9).is(&Address::new("h", 10)));
        assert!(Address::registered("[::1]:8790").unwrap().is(&Address::new("::1", 8790)));
        assert!(Address::registered("nothing").is_none());
    }

    #[tokio::test]
    async fn names_are_looked_up_so_many_times_and_so_long_only() {
        let mut names = Names { deadline: Instant::now() + LOOKUPS_WITHIN, left: 1 };
        assert_eq!(names.of("10.0.0.1".to_owned()).await.unwrap().len(), 1, "that is no name");
        assert!(names.of("localhost".to_owned()).await.unwrap().iter().all(IpAddr::is_loopback));
        assert_eq!(names.of("localhost".to_owned()).await.unwrap_err().code, "names_not_looked_up");
        let mut late = Names { deadline: Instant::now(), left: 1 };
        let _all = LOOKUPS.acquire_many(4).await.unwrap();
        assert_eq!(late.of("localhost".to_owned()).await.unwrap_err().code, "names_not_looked_up");
    }
}
