//! How often one may fail to sign in (API-5): per person and per address, so that nobody tries out passwords.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_model::PersonName;

use crate::Problem;

/// Failures that are forgiven within [`WINDOW`].
const OF_PERSON: u32 = 10;
const OF_ADDRESS: u32 = 50;
const WINDOW: Duration = Duration::from_secs(300);
/// People and addresses whose failures are known.
const MOST: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Failures {
    first_at: Instant,
    count: u32,
}

#[derive(Debug)]
struct Counts<K>(HashMap<K, Failures>);

impl<K: Eq + Hash> Counts<K> {
    /// How long there is still nothing to try.
    fn wait(&self, key: &K, most: u32, now: Instant) -> Option<Duration> {
        let failures = self.0.get(key).filter(|failures| failures.count >= most)?;
        let over = failures.first_at + WINDOW;
        (over > now).then(|| over - now)
    }

    fn failed(&mut self, key: K, now: Instant) {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.0.retain(|_, failures| failures.first_at + WINDOW > now);
            // Whoever comes with so many names or addresses does not make others' failures forgotten.
            if self.0.len() >= MOST {
                return;
            }
        }
        let failures = self.0.entry(key).or_insert(Failures { first_at: now, count: 0 });
        if failures.first_at + WINDOW <= now {
            *failures = Failures { first_at: now, count: 0 };
        }
        failures.count += 1;
    }
}

/// Failures of late.
#[derive(Debug)]
pub(crate) struct SignInLimits(Mutex<(Counts<PersonName>, Counts<IpAddr>)>);

impl Default for SignInLimits {
    fn default() -> Self {
        Self(Mutex::new((Counts(HashMap::new()), Counts(HashMap::new()))))
    }
}

impl SignInLimits {
    /// Whether one may try now.
    pub(crate) fn check(
        &self,
        person: &PersonName,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<(), Problem> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = address.and_then(|address| counts.1.wait(&address, OF_ADDRESS, now));
        let Some(wait) = counts.0.wait(person, OF_PERSON, now).max(of_address) else { return Ok(()) };
        Err(Problem::overloaded(
            "too many failed attempts to sign in; wait before the next one",
            wait.as_secs() + 1,
        ))
    }

    pub(crate) fn failed(&self, person: &PersonName, address: Option<IpAddr>, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.0.failed(person.clone(), now);
        if let Some(address) = address {
            counts.1.failed(address, now);
        }
    }

    /// Whoever is in may mistype as often again.
    pub(crate) fn succeeded(&self, person: &PersonName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.0.remove(person);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str) -> PersonName {
        PersonName::try_from(name).unwrap()
    }

    /// API-5: ten wrong passwords of a person, or fifty from an address, and for the rest of five minutes no more is tried.
    #[test]
    fn passwords_cannot_be_tried_out() {
        let (limits, start) = (SignInLimits::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        for second in 0..10 {
            limits.check(&person("ann"), address(1), at(second)).unwrap();
            limits.failed(&person("ann"), address(second as u8), at(second));
        }
        let refused = limits.check(&person("ann"), address(77), at(20)).unwrap_err();
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(281)));
        limits.check(&person("bob"), address(1), at(20)).unwrap();
        limits.check(&person("ann"), address(1), at(300)).unwrap();
        for number in 0..50 {
            limits.failed(&person(&format!("p{number}")), address(9), at(400));
        }
        assert!(limits.check(&person("bob"), address(9), at(401)).is_err());
        limits.check(&person("bob"), address(8), at(401)).unwrap();
        for _ in 0..9 {
            limits.failed(&person("cleo"), None, at(500));
        }
        limits.succeeded(&person("cleo"));
        limits.failed(&person("cleo"), None, at(501));
        limits.check(&person("cleo"), None, at(502)).unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded_and_floods_forget_nobody() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        (0..10).for_each(|_| limits.failed(&person("ann"), None, now));
        (0..MOST + 5).for_each(|number| limits.failed(&person(&format!("p{number}")), None, now));
        assert_eq!(limits.0.lock().unwrap().0.0.len(), MOST);
        assert!(limits.check(&person("ann"), None, now).is_err());
        let later = now + WINDOW;
        limits.failed(&person("late"), None, later);
        assert_eq!(limits.0.lock().unwrap().0.0.len(), 1);
    }
}
