//! When to beat, and up to where the journal has to be read for it. Pure.

use std::time::{Duration, Instant};

/// From one beat to the next.
pub(super) const BEAT: Duration = Duration::from_millis(250);
/// A life holds for so long after its sample: within it, everybody sees every mark older than a second.
pub(super) const HOLDS: Duration = Duration::from_millis(750);
/// Marks that came are gathered for at most so long.
const GATHER: Duration = Duration::from_millis(20);

/// What has to be folded for the next beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// By the clock of the back end, asked for before `end`.
    pub(super) clock_ms: i64,
    /// Where the journal ended.
    pub(super) end: u64,
    /// By the clock of this process, read before both.
    pub(super) taken_at: Instant,
}

impl Sample {
    /// Until when a life holds that beats for this, by the clock of the back end.
    pub(super) fn holds_until_ms(self) -> i64 {
        self.clock_ms + i64::try_from(HOLDS.as_millis()).expect("less than a second")
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Ask for the time and the journal's end.
    Sample,
    /// Write the marks and beat.
    Beat(Sample),
    /// Write the marks.
    Marks,
    /// Read the journal, for at most so long.
    Read(Duration),
}

/// One partition's pace.
pub(super) struct Pace {
    next_beat_at: Instant,
    sample: Option<Sample>,
    /// Since when there are marks to write.
    gathering_since: Option<Instant>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { next_beat_at: now, sample: None, gathering_since: None }
    }

    /// What is due, where the journal was read up to `next` (the offset that comes next).
    pub(super) fn due(&mut self, now: Instant, next: u64) -> Due {
        // Of a sample that is too old there is nothing left to hold.
        self.sample = self.sample.filter(|sample| now.duration_since(sample.taken_at) < HOLDS);
        if let Some(sample) = self.sample
            && next >= sample.end
        {
            return Due::Beat(sample);
        }
        if self.sample.is_none() && now >= self.next_beat_at {
            return Due::Sample;
        }
        let write_at = self.gathering_since.map(|since| since + GATHER);
        if write_at.is_some_and(|at| now >= at) {
            return Due::Marks;
        }
        let look_at = match self.sample {
            // Something to read is there: the wait ends when it comes.
            Some(sample) => sample.taken_at + HOLDS,
            None => self.next_beat_at,
        };
        let until = write_at.map_or(look_at, |at| at.min(look_at));
        Due::Read(until.saturating_duration_since(now))
    }

    /// A sample was taken.
    pub(super) fn sampled(&mut self, sample: Sample) {
        self.next_beat_at = sample.taken_at + BEAT;
        self.sample = Some(sample);
    }

    /// None can be taken; at the next beat.
    pub(super) fn put_off(&mut self, tried_at: Instant) {
        self.next_beat_at = tried_at + BEAT;
    }

    /// There is something to mark.
    pub(super) fn marked(&mut self, now: Instant) {
        self.gathering_since.get_or_insert(now);
    }

    /// A step was tried; `done`: nothing is left to write.
    pub(super) fn tried(&mut self, now: Instant, done: bool) {
        self.sample = None;
        self.gathering_since = if done { None } else { self.gathering_since.map(|_| now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sample(taken_at: Instant, end: u64) -> Sample {
        Sample { clock_ms: 5_000, end, taken_at }
    }

    /// PUL-9: a life holds only for what was read, and only for 750 ms after the journal's end was asked for.
    #[test]
    fn beat_waits_until_the_journal_is_read_up_to_its_sample() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.due(start, 7), Due::Sample);
        let taken = sample(start, 9);
        pace.sampled(taken);
        assert_eq!(pace.due(start, 8), Due::Read(HOLDS));
        assert_eq!(pace.due(start + 100 * MS, 8), Due::Read(650 * MS));
        assert_eq!(pace.due(start + 200 * MS, 9), Due::Beat(taken));
        assert_eq!(taken.holds_until_ms(), 5_750);
        pace.tried(start + 200 * MS, true);
        assert_eq!(pace.due(start + 200 * MS, 9), Due::Read(50 * MS));
        assert_eq!(pace.due(start + 250 * MS, 9), Due::Sample);
    }

    #[test]
    fn sample_that_is_not_reached_in_time_is_taken_anew() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.sampled(sample(start, 9));
        assert_eq!(pace.due(start + 749 * MS, 8), Due::Read(MS));
        assert_eq!(pace.due(start + 750 * MS, 9), Due::Sample);
    }

    #[test]
    fn marks_are_gathered_briefly_and_kept_when_they_could_not_be_written() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.sampled(sample(start, 9));
        pace.marked(start);
        pace.marked(start + 15 * MS);
        assert_eq!(pace.due(start + 15 * MS, 8), Due::Read(5 * MS));
        assert_eq!(pace.due(start + 20 * MS, 8), Due::Marks);
        pace.tried(start + 25 * MS, false);
        assert_eq!(pace.due(start + 25 * MS, 8), Due::Read(20 * MS));
        pace.tried(start + 45 * MS, true);
        assert_eq!(pace.due(start + 45 * MS, 8), Due::Read(205 * MS));
    }
}
