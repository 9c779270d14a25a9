//! Leaves an authority alone that fails or hangs, finds out when it is back, and spaces calls. Without clock and I/O.
//!
//! ```text
//!            faults in a row            the pause is over, one call goes first
//!  Closed ────────────────────► Paused ──────────────────────────────────────► Trial
//!     ▲                           ▲  ◄─────────── it failed: a longer pause ─────┤
//!     └────────────────────────── any call that was answered ◄───────────────────┘
//! ```

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    /// Faults in a row before the first.
    pub(crate) after: u32,
    /// The first, milliseconds.
    pub(crate) first_ms: u64,
    /// The longest, milliseconds.
    pub(crate) max_interval_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    pauses: Pauses,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { faults: u32 },
    Paused { until_ms: u64, pause_ms: u64 },
    Trial { pause_ms: u64 },
}

/// What one who wants to ask shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Ask,
    /// Ask, and say how it went in any case: the others wait for it.
    Try,
    /// Wait until the one that tries knows.
    Wait,
    /// Do not ask, for so long.
    Paused {
        for_ms: u64,
    },
}

impl Circuit {
    pub(crate) fn new(pauses: Pauses) -> Self {
        Self { pauses, state: State::Closed { faults: 0 } }
    }

    pub(crate) fn admit(&mut self, now_ms: u64) -> Admission {
        match self.state {
            State::Closed { .. } => Admission::Ask,
            State::Paused { until_ms, .. } if now_ms < until_ms => {
                Admission::Paused { for_ms: until_ms - now_ms }
            }
            State::Paused { pause_ms, .. } => {
                self.state = State::Trial { pause_ms };
                Admission::Try
            }
            State::Trial { .. } => Admission::Wait,
        }
    }

    /// A call was answered, whatever the answer. Says whether that ended a pause or trial.
    pub(crate) fn answered(&mut self) -> bool {
        let was_open = !matches!(self.state, State::Closed { .. });
        self.state = State::Closed { faults: 0 };
        was_open
    }

    /// A call failed or hung. Says whether a pause began. What was asked before the pause is no further news.
    pub(crate) fn failed(&mut self, now_ms: u64, trial: bool) -> bool {
        match self.state {
            State::Closed { faults } if faults + 1 < self.pauses.after => {
                self.state = State::Closed { faults: faults + 1 };
                false
            }
            State::Closed { .. } => self.pause(now_ms, self.pauses.first_ms),
            State::Trial { pause_ms } if trial => self.pause(now_ms, pause_ms.saturating_mul(2)),
            State::Trial { .. } | State::Paused { .. } => false,
        }
    }

    /// The one that tried went away without an answer: the next one may try.
    pub(crate) fn forsaken(&mut self, now_ms: u64) {
        if let State::Trial { pause_ms } = self.state {
            self.state = State::Paused { until_ms: now_ms, pause_ms };
        }
    }

    fn pause(&mut self, now_ms: u64, pause_ms: u64) -> bool {
        let pause_ms = pause_ms.min(self.pauses.max_interval_ms);
        self.state = State::Paused { until_ms: now_ms.saturating_add(pause_ms), pause_ms };
        true
    }
}

/// Spaces calls evenly, with a short burst allowed. The generic cell rate algorithm.
#[derive(Debug)]
pub(crate) struct Pace {
    interval_ns: u64,
    burst_ns: u64,
    next_ns: u64,
}

/// How much of a second's calls may come at once.
const BURST_NS: u64 = 50_000_000;

impl Pace {
    /// So many calls a second; 0 is without a bound.
    pub(crate) fn new(calls_per_s: u32) -> Self {
        let interval_ns = 1_000_000_000_u64.checked_div(u64::from(calls_per_s)).unwrap_or(0);
        Self { interval_ns, burst_ns: BURST_NS.max(interval_ns) - interval_ns, next_ns: 0 }
    }

    /// Takes a place for a call, and says how long to wait for it, in nanoseconds.
    pub(crate) fn wait_ns(&mut self, now_ns: u64) -> u64 {
        let place = self.next_ns.max(now_ns);
        self.next_ns = place + self.interval_ns;
        place.saturating_sub(now_ns + self.burst_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> Circuit {
        Circuit::new(Pauses { after: 3, first_ms: 100, max_interval_ms: 300 })
    }

    fn paused() -> Circuit {
        let mut circuit = circuit();
        assert_eq!((0..3).map(|_| circuit.failed(0, false)).collect::<Vec<_>>(), [false, false, true]);
        circuit
    }

    #[test]
    fn faults_in_a_row_pause_and_an_answer_between_them_does_not() {
        let mut circuit = circuit();
        for _ in 0..10 {
            assert!(!circuit.failed(0, false));
            assert!(!circuit.failed(0, false));
            assert!(!circuit.answered());
        }
        assert!(!circuit.failed(0, false));
        assert!(!circuit.failed(0, false));
        assert!(circuit.failed(0, false));
        assert_eq!(circuit.admit(40), Admission::Paused { for_ms: 60 });
    }

    #[test]
    fn pause_doubles_to_its_bound_and_ends_by_one_good_try() {
        let mut circuit = paused();
        let mut now = 100;
        for pause in [200, 300, 300] {
            assert_eq!(circuit.admit(now), Admission::Try);
            assert_eq!(circuit.admit(now), Admission::Wait, "one goes first");
            assert!(!circuit.failed(now, false), "a call from before the pause is no news");
            assert!(circuit.failed(now, true));
            assert_eq!(circuit.admit(now), Admission::Paused { for_ms: pause });
            now += pause;
        }
        assert_eq!(circuit.admit(now), Admission::Try);
        assert!(circuit.answered());
        assert_eq!(circuit.admit(now), Admission::Ask);
    }

    #[test]
    fn forsaken_try_leaves_its_place_to_the_next() {
        let mut circuit = paused();
        assert_eq!(circuit.admit(100), Admission::Try);
        circuit.forsaken(100);
        assert_eq!(circuit.admit(100), Admission::Try);
    }

    #[test]
    fn calls_of_a_second_are_at_most_the_rate_and_a_burst() {
        for rate in [1, 7, 20, 1_000, 5_000] {
            let mut pace = Pace::new(rate);
            let mut now = 0;
            let mut begun = Vec::new();
            while now < 4_000_000_000 {
                now += pace.wait_ns(now);
                begun.push(now);
            }
            let last = begun.partition_point(|at| *at <= 3_000_000_000);
            let bound = 3 * rate as usize + rate as usize / 20 + 1;
            assert!((3 * rate as usize..=bound).contains(&last), "{rate}: {last}");
        }
    }

    #[test]
    fn no_rate_is_no_wait() {
        let mut pace = Pace::new(0);
        assert!((0..10_000).all(|_| pace.wait_ns(5) == 0));
    }
}
