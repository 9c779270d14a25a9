//! Work that an outage ends is begun anew, after a pause that grows, and told once for each cause.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tidemill_model::causes;

use crate::Shutdown;

/// Work that goes on until shutdown or an error, and can be begun anew.
pub trait Session {
    /// What ends it.
    type Error: std::error::Error;

    /// Works until shutdown (`Ok`) or an error. Sets `worked` once something went well, so that whatever fails after
    /// that is another outage.
    ///
    /// # Errors
    /// Whatever ends it.
    fn run(&mut self, worked: &mut bool) -> Result<(), Self::Error>;

    /// Hears of every error, with all of its causes as one line. Whether beginning anew may help.
    fn failed(&mut self, error: &Self::Error, reason: &str) -> bool;

    /// Tells people that it is held up; once for each cause, however often it is tried meanwhile.
    fn tell_held_up(&self, reason: &str);

    /// Tells people that it does not go on.
    fn tell_stopped(&self, reason: &str);

    /// How long to pause before each attempt; counted anew after something went well. Where there are no more,
    /// it is the longest one, 5 s.
    fn pauses(&self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(LONGEST)
            .without_max_times()
    }
}

/// Between two attempts, at most.
const LONGEST: Duration = Duration::from_secs(5);

/// Keeps the session going until it ends in order, shutdown is requested, or beginning anew does not help.
///
/// # Errors
/// The one that beginning anew does not fix.
pub fn keep<S: Session>(session: &mut S, shutdown: &Shutdown) -> Result<(), S::Error> {
    let mut pauses = session.pauses().build();
    let mut told = None;
    loop {
        let mut worked = false;
        let Err(error) = session.run(&mut worked) else { return Ok(()) };
        if worked {
            (pauses, told) = (session.pauses().build(), None);
        }
        let reason = causes(&error);
        if !session.failed(&error, &reason) {
            session.tell_stopped(&reason);
            return Err(error);
        }
        if told.as_ref() != Some(&reason) {
            session.tell_held_up(&reason);
            told = Some(reason);
        }
        if shutdown.wait(pauses.next().unwrap_or(LONGEST)) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

    use std::cell::RefCell;

    use super::*;

    /// Fails with each of these, in turn; the bool: after something went well.
    struct Failing {
        failures: Vec<(bool, &'static str)>,
        told: RefCell<Vec<String>>,
    }

    impl Session for Failing {
        type Error = std::io::Error;

        fn run(&mut self, worked: &mut bool) -> Result<(), Self::Error> {
            if self.failures.is_empty() {
                return Ok(());
            }
            let (well, reason) = self.failures.remove(0);
            *worked = well;
            Err(std::io::Error::other(reason))
        }

        fn failed(&mut self, _: &Self::Error, reason: &str) -> bool {
            reason != "broken"
        }

        fn tell_held_up(&self, reason: &str) {
            self.told.borrow_mut().push(reason.to_owned());
        }

        fn tell_stopped(&self, reason: &str) {
            self.told.borrow_mut().push(format!("stopped: {reason}"));
        }
    }

    fn told(failures: &[(bool, &'static str)]) -> (bool, Vec<String>) {
        let mut failing = Failing { failures: failures.to_vec(), told: RefCell::default() };
        let ended = keep(&mut failing, &Shutdown::new());
        (ended.is_ok(), failing.told.into_inner())
    }

    #[test]
    fn same_cause_is_told_once_and_again_after_work() {
        let failures = [(false, "away"), (false, "away"), (false, "full"), (true, "full"), (true, "full")];
        assert_eq!(told(&failures), (true, ["away", "full", "full", "full"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_does_not_help_ends_it() {
        let failures = [(false, "away"), (false, "broken"), (false, "never reached")];
        assert_eq!(told(&failures), (false, ["away", "stopped: broken"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn shutdown_ends_a_pause() {
        let mut failing = Failing { failures: vec![(false, "away"); 1_000], told: RefCell::default() };
        let shutdown = Shutdown::new();
        shutdown.request();
        keep(&mut failing, &shutdown).unwrap();
        assert_eq!(failing.failures.len(), 999);
    }
}
