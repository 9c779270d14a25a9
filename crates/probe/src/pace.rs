//! Calls a second, without clock and I/O.

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
