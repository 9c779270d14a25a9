//! Which worker an address means (API-2): callers name a host by any of its names and addresses, and the worker has registered
//! one of them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use tidemill_store::rows::WorkerRow;

use super::host_names::{MAX_HOST_BYTES, Names};
use crate::Problem;

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

/// Which of the workers that a caller may switch an address means: one that is there by what it registered, else by another name of
/// its host, else one that has left. What others registered is in nobody's way.
///
/// # Errors
/// Several are on a host with this name, or names could not be looked up in time.
pub(super) async fn meant<'r>(
    wanted: &Address,
    own: &[&'r WorkerRow],
    caller: &Arc<str>,
) -> Result<Option<&'r WorkerRow>, Problem> {
    let there = || own.iter().copied().filter(|row| is_there(row));
    if let Some(row) = registered_at(wanted, there()) {
        return Ok(Some(row));
    }
    let known = known_as(wanted, there(), caller).await?;
    Ok(known.or_else(|| registered_at(wanted, own.iter().copied())))
}

/// The worker that registered this address, spelled in whatever way: a live one before others, and the last one.
pub(super) fn registered_at<'r>(
    wanted: &Address,
    rows: impl Iterator<Item = &'r WorkerRow>,
) -> Option<&'r WorkerRow> {
    let is_at = |row: &&WorkerRow| Address::registered(&row.address).is_some_and(|at| at.is(wanted));
    rows.filter(is_at).max_by_key(|row| (&*row.state == "live", row.registered_at))
}

/// Whether a worker has neither left nor is gone.
fn is_there(row: &WorkerRow) -> bool {
    !matches!(&*row.state, "left" | "gone")
}

/// The one worker with the port whose host has this name or address, too.
async fn known_as<'r>(
    wanted: &Address,
    rows: impl Iterator<Item = &'r WorkerRow>,
    caller: &Arc<str>,
) -> Result<Option<&'r WorkerRow>, Problem> {
    let candidates = newest_of_each(wanted, rows);
    if candidates.is_empty() {
        return Ok(None);
    }
    let mut names = Names::new(caller);
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
    for row in rows {
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
    names: &mut Names<'_>,
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
}
