//! The addresses of hosts, as the machine's resolver has them (API-2). It may take long for a name, and nobody can end that: what one
//! caller looks up holds up no other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::Problem;

/// The longest name of a host.
pub(super) const MAX_HOST_BYTES: usize = 253;
/// Names that one call looks up at most.
const MAX_LOOKUPS: usize = 64;
/// Until all of them have to be answered.
const LOOKUPS_WITHIN: Duration = Duration::from_secs(2);
/// Lookups of one caller at once; each occupies a thread until the resolver answers.
const OF_ONE_CALLER: usize = 2;
/// Those of all callers.
const OF_ALL_CALLERS: usize = 32;

static LOOKUPS: Lookups =
    Lookups { all: Semaphore::const_new(OF_ALL_CALLERS), callers: Mutex::new(BTreeMap::new()) };

/// Who looks up names at the moment.
struct Lookups {
    all: Semaphore,
    /// The places of each caller that has somebody who looks up, or waits for it.
    callers: Mutex<BTreeMap<Arc<str>, Weak<Semaphore>>>,
}

/// A thread may be occupied by a lookup, until this is dropped.
struct Place {
    _own: OwnedSemaphorePermit,
    _of_all: SemaphorePermit<'static>,
}

impl Lookups {
    /// The places of a caller.
    fn of(&self, caller: &Arc<str>) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = callers.get(caller).and_then(Weak::upgrade) {
            return own;
        }
        callers.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(OF_ONE_CALLER));
        callers.insert(Arc::clone(caller), Arc::downgrade(&own));
        own
    }

    /// A place for this caller, once one of its own is free.
    async fn place(&'static self, caller: &Arc<str>) -> Result<Place, Problem> {
        let own = self.of(caller).acquire_owned().await.map_err(|_| not_looked_up())?;
        let of_all = self.all.acquire().await.map_err(|_| not_looked_up())?;
        Ok(Place { _own: own, _of_all: of_all })
    }
}

/// Lookups of one call.
pub(super) struct Names<'c> {
    caller: &'c Arc<str>,
    deadline: Instant,
    left: usize,
}

impl<'c> Names<'c> {
    /// For a call of this caller, which begins now.
    pub(super) fn new(caller: &'c Arc<str>) -> Self {
        Self { caller, deadline: Instant::now() + LOOKUPS_WITHIN, left: MAX_LOOKUPS }
    }

    /// The addresses of a host; none where its name is unknown.
    ///
    /// # Errors
    /// The call has looked up as many names as it may, or for as long.
    pub(super) async fn of(&mut self, host: String) -> Result<BTreeSet<IpAddr>, Problem> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(BTreeSet::from([ip.to_canonical()]));
        }
        if host.is_empty() || host.len() > MAX_HOST_BYTES {
            return Ok(BTreeSet::new());
        }
        let Some(left) = self.left.checked_sub(1) else { return Err(not_looked_up()) };
        self.left = left;
        timeout_at(self.deadline, looked_up(host, self.caller)).await.unwrap_or_else(|_| Err(not_looked_up()))
    }
}

async fn looked_up(host: String, caller: &Arc<str>) -> Result<BTreeSet<IpAddr>, Problem> {
    let place = LOOKUPS.place(caller).await?;
    // Whoever stops waiting leaves the resolver at work: its place goes with the thread.
    let lookup = tokio::task::spawn_blocking(move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        drop(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_looked_up_so_many_times_and_so_long_only() {
        let caller = "few".into();
        let mut names = Names { left: 1, ..Names::new(&caller) };
        assert_eq!(names.of("10.0.0.1".to_owned()).await.unwrap().len(), 1, "that is no name");
        assert!(names.of("localhost".to_owned()).await.unwrap().iter().all(IpAddr::is_loopback));
        assert_eq!(names.of("localhost".to_owned()).await.unwrap_err().code, "names_not_looked_up");
    }

    /// API-2, OPS-7
    #[tokio::test]
    async fn names_that_take_long_hold_up_their_caller_alone() {
        let (slow, other): (Arc<str>, Arc<str>) = ("slow".into(), "other".into());
        let mut places = Vec::new();
        for _ in 0..OF_ONE_CALLER {
            places.push(LOOKUPS.place(&slow).await.unwrap());
        }
        let mut late = Names { deadline: Instant::now(), ..Names::new(&slow) };
        assert_eq!(late.of("localhost".to_owned()).await.unwrap_err().code, "names_not_looked_up");
        assert!(!Names::new(&other).of("localhost".to_owned()).await.unwrap().is_empty());
        drop(places);
        assert!(!Names::new(&slow).of("localhost".to_owned()).await.unwrap().is_empty());
        LOOKUPS.of(&"next".into());
        let callers = LOOKUPS.callers.lock().unwrap();
        assert!(!callers.contains_key(&slow), "who looks up nothing takes no memory");
    }
}
