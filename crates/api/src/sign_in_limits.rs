//! How often one may fail to sign in (API-5): per person and address, per person and per address, so that nobody tries out
//! passwords, and one address does not keep a person out who comes from another one.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_model::PersonName;

use crate::Problem;

/// Failures that are forgiven within [`WINDOW`].
const OF_PERSON_AT_ADDRESS: u32 = 10;
const OF_PERSON: u32 = 100;
const OF_ADDRESS: u32 = 50;
const WINDOW: Duration = Duration::from_secs(300);
/// Places in which failures are counted: so many are known at most, and whoever shares a place shares its bound.
const PLACES: u64 = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Failures {
    first_at: Instant,
    count: u32,
}

/// Failures of late.
#[derive(Debug, Default)]
pub(crate) struct SignInLimits {
    /// Nobody can choose who shares a place with whom.
    places: RandomState,
    failures: Mutex<HashMap<u64, Failures>>,
}

/// A machine of IPv6 has as many addresses as it likes in its network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(of) => of.to_ipv4_mapped().map_or_else(
            || {
                let [a, b, c, d, ..] = of.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            },
            IpAddr::V4,
        ),
    }
}

impl SignInLimits {
    fn place(&self, of: impl Hash) -> u64 {
        self.places.hash_one(of) % PLACES
    }

    /// Where failures of this one are counted, and how many are forgiven.
    fn counted(&self, person: &PersonName, address: Option<IpAddr>) -> Vec<(u64, u32)> {
        let address = address.map(network);
        let mut counted =
            vec![(self.place((person, address)), OF_PERSON_AT_ADDRESS), (self.place(person), OF_PERSON)];
        counted.extend(address.map(|address| (self.place(address), OF_ADDRESS)));
        counted
    }

    /// Whether one may try now.
    pub(crate) fn check(
        &self,
        person: &PersonName,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<(), Problem> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |(place, most): (u64, u32)| {
            let over = failures.get(&place).filter(|of| of.count >= most)?.first_at + WINDOW;
            (over > now).then(|| over - now)
        };
        let Some(wait) = self.counted(person, address).into_iter().filter_map(wait).max() else {
            return Ok(());
        };
        let detail = "too many failed attempts to sign in; wait before the next one";
        Err(Problem::overloaded(detail, wait.as_secs() + 1).unseen())
    }

    pub(crate) fn failed(&self, person: &PersonName, address: Option<IpAddr>, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, _) in self.counted(person, address) {
            let of = failures.entry(place).or_insert(Failures { first_at: now, count: 0 });
            if of.first_at + WINDOW <= now {
                *of = Failures { first_at: now, count: 0 };
            }
            of.count += 1;
        }
    }

    /// Whoever is in may mistype as often again.
    pub(crate) fn succeeded(&self, person: &PersonName, address: Option<IpAddr>) {
        let place = self.place((person, address.map(network)));
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use tidemill_model::RefusalReason;

    use super::*;

    fn person(name: &str) -> PersonName {
        PersonName::try_from(name).unwrap()
    }

    /// API-5: ten wrong passwords of a person from an address, a hundred of a person or fifty from an address, and for the rest of
    /// five minutes no more is tried.
    #[test]
    fn passwords_cannot_be_tried_out() {
        let (limits, start) = (SignInLimits::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        for second in 0..10 {
            limits.check(&person("ann"), address(1), at(second)).unwrap();
            limits.failed(&person("ann"), address(1), at(second));
        }
        let refused = limits.check(&person("ann"), address(1), at(20)).unwrap_err();
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(281)));
        assert_eq!(refused.refused, Some(RefusalReason::Unauthenticated), "the audit list has it");
        limits.check(&person("bob"), address(1), at(20)).unwrap();
        limits.check(&person("ann"), address(2), at(20)).expect("she comes from elsewhere");
        limits.check(&person("ann"), address(1), at(300)).unwrap();
        for number in 0..50 {
            limits.failed(&person(&format!("p{number}")), address(9), at(400));
        }
        assert!(limits.check(&person("bob"), address(9), at(401)).is_err());
        limits.check(&person("bob"), address(8), at(401)).unwrap();
        for number in 0..100 {
            limits.failed(&person("dan"), address(number), at(800));
        }
        assert!(limits.check(&person("dan"), address(200), at(801)).is_err(), "from wherever");
        for _ in 0..9 {
            limits.failed(&person("cleo"), None, at(1_500));
        }
        limits.succeeded(&person("cleo"), None);
        limits.failed(&person("cleo"), None, at(1_501));
        limits.check(&person("cleo"), None, at(1_502)).unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded_and_floods_forget_nobody() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        (0..10).for_each(|_| limits.failed(&person("ann"), None, now));
        (0..100_000).for_each(|number| limits.failed(&person(&format!("p{number}")), None, now));
        assert!(limits.failures.lock().unwrap().len() <= PLACES as usize);
        assert!(limits.check(&person("ann"), None, now).is_err());
        // Addresses of one network are one.
        let of = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 1, 2, 0, 0, 0, last]));
        let limits = SignInLimits::default();
        (0..10).for_each(|last| limits.failed(&person("bob"), of(last), now));
        assert!(limits.check(&person("bob"), of(77), now).is_err());
    }
}
