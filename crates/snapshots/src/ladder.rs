//! Which snapshots are kept: the newest of each hour for a while, and then of each day.

use std::collections::BTreeSet;

/// The newest ones that are kept whatever their age, so that one that turns out bad is not the last.
const NEWEST: usize = 2;
const HOUR_MS: u64 = 3_600_000;

/// For how long which are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// So many hours the newest of each hour.
    pub hours: u32,
    /// So many days the newest of each day.
    pub days: u32,
}

impl Ladder {
    /// Those that leave, by number: `times` are their times, the oldest first. Ages are counted from the `newest` one, of any
    /// form, so that what is kept of a partition at rest stays, and what only an older version reads goes.
    #[must_use]
    pub fn leaving(self, times: &[u64], newest: u64) -> Vec<usize> {
        let mut steps = BTreeSet::new();
        let mut leaving = Vec::new();
        for (number, at) in times.iter().enumerate().rev() {
            let age = newest.saturating_sub(*at);
            let step = if age < u64::from(self.hours) * HOUR_MS {
                Some((false, at / HOUR_MS))
            } else if age < u64::from(self.days) * 24 * HOUR_MS {
                Some((true, at / (24 * HOUR_MS)))
            } else {
                None
            };
            let is_kept = step.is_some_and(|step| steps.insert(step));
            if !is_kept && number + NEWEST < times.len() {
                leaving.push(number);
            }
        }
        leaving.reverse();
        leaving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: Ladder = Ladder { hours: 48, days: 365 };

    /// EVT-6: what is kept is bounded, whatever is taken and however often.
    #[test]
    fn ladder_is_bounded_and_keeps_one_for_each_hour_and_day() {
        let mut kept: Vec<u64> = Vec::new();
        for quarter in 0..4 * 24 * 400_u64 {
            kept.push(1_700_000_000_000 + quarter * HOUR_MS / 4);
            let leaving = LADDER.leaving(&kept, kept.iter().copied().max().unwrap());
            let stay = |(number, _): &(usize, &u64)| !leaving.contains(number);
            kept = kept.iter().enumerate().filter(stay).map(|(_, at)| *at).collect();
            assert!(kept.len() <= 48 + 365 + 2, "{}", kept.len());
        }
        let newest = *kept.last().unwrap();
        let within = |hours: u64| kept.iter().filter(|at| newest - **at < hours * HOUR_MS).count();
        assert!((48..=50).contains(&within(48)), "{}", within(48));
        assert!((360..=415).contains(&kept.len()), "{}", kept.len());
        let gaps = kept.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(gaps <= 48 * HOUR_MS, "{gaps}");
    }

    #[test]
    fn newest_two_stay() {
        assert_eq!(LADDER.leaving(&[], 0), Vec::<usize>::new());
        assert_eq!(LADDER.leaving(&[1, 2], 2), Vec::<usize>::new());
        assert_eq!(LADDER.leaving(&[1, 2, 3], 3), vec![0]);
        // Those of a form that nothing is written in any more.
        let year_ms = 366 * 24 * HOUR_MS;
        let hourly: Vec<u64> = (1..=40).map(|hour| hour * HOUR_MS).collect();
        assert_eq!(LADDER.leaving(&hourly, year_ms + 40 * HOUR_MS).len(), 38);
    }
}
