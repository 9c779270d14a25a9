//! Keeps the hints of one partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::ExponentialBuilder;
use tidemill_journal::{Session, Shutdown, causes};
use tidemill_log::{From, Kind, Log, Reader, Topic};
use tidemill_model::Envelope;
use tidemill_store::hints::{Hints, Life, Mark, Turn};

use super::marks::{Marked, marked};
use super::pace::{BEAT, Due, Pace, Sample};
use crate::Error;

/// Records taken at once.
const MAX_RECORDS: usize = 512;
/// Marks of one step: so many are written in less than a millisecond.
const MAX_MARKS: usize = 500;
/// Marks that wait for a back end; more of them cost more than a new life.
const MOST_MARKS: usize = 100_000;

pub(super) struct Keeper {
    partition: u32,
    log: Arc<dyn Log>,
    hints: Arc<dyn Hints>,
    shutdown: Shutdown,
}

/// Where nobody has looked for so long, it rests. Clients ask again within 30 s.
const REST_AFTER: Duration = Duration::from_secs(60);

/// What came of asking the back end.
type Tried = Result<(), tidemill_store::Error>;

/// A life and how far it is. A new one for every break.
struct Living {
    life: Life,
    /// The back end knows of it.
    is_begun: bool,
    /// The last step that is known to be done, and the last that was tried.
    confirmed: u64,
    tried: u64,
    /// When somebody wanted hints last, as far as is known.
    wanted_at: Option<Instant>,
    /// What is to be written, each with the offset of its last fact.
    marks: BTreeMap<Mark, u64>,
}

impl Living {
    fn new() -> Self {
        let marks = BTreeMap::new();
        Self { life: Life::draw(), is_begun: false, confirmed: 0, tried: 0, wanted_at: None, marks }
    }

    /// Another one, for those who want hints of this one.
    fn anew(&self) -> Self {
        Self { wanted_at: self.wanted_at, ..Self::new() }
    }

    /// Nobody has wanted hints for a while, or since it is known.
    fn may_rest(&self, now: Instant) -> bool {
        self.wanted_at.is_none_or(|at| now.duration_since(at) >= REST_AFTER)
    }

    /// A step is known to be done.
    fn written(&mut self, number: u64, marks: &[(Mark, u64)]) {
        self.confirmed = number;
        for (mark, _) in marks {
            self.marks.remove(mark);
        }
    }
}

impl Session for Keeper {
    type Error = Error;

    /// Follows the journal from its end, in lives of its own, until shutdown (`Ok`) or an error of the journal.
    fn run(&mut self, _: &mut bool) -> Result<(), Error> {
        let mut next = self.end()?;
        let reader = self.log.reader(Topic::Journal, self.partition, From::Offset(next));
        let mut reader = reader.map_err(Error::journal(self.partition))?;
        self.shutdown.wakes(reader.waker());
        let mut living = Living::new();
        let mut pace = Pace::new(Instant::now());
        let mut trouble = None;
        while !self.shutdown.is_requested() {
            let outcome = match pace.due(Instant::now(), next) {
                Due::Read(timeout) => {
                    next = self.read(&mut *reader, timeout, next, &mut living, &mut pace)?;
                    continue;
                }
                Due::Sample => self.sample(&mut living, &mut pace)?,
                Due::Beat(sample) => self.step(&mut living, &mut pace, Some(sample)),
                Due::Marks => self.step(&mut living, &mut pace, None),
            };
            self.tell(&mut trouble, outcome);
        }
        Ok(())
    }

    /// Hints are missing meanwhile, and nothing else.
    fn failed(&mut self, _: &Error, _: &str) -> bool {
        true
    }

    fn tell_held_up(&self, reason: &str) {
        let partition = self.partition;
        tracing::warn!(partition, reason, "partition {partition} has no hints: {reason}");
    }

    fn tell_stopped(&self, _: &str) {}

    /// A new life may begin with every beat.
    fn pauses(&self) -> ExponentialBuilder {
        ExponentialBuilder::new().with_min_delay(BEAT).with_max_delay(BEAT).without_max_times()
    }
}

impl Keeper {
    pub(super) fn new(partition: u32, log: Arc<dyn Log>, hints: Arc<dyn Hints>, shutdown: Shutdown) -> Self {
        Self { partition, log, hints, shutdown }
    }

    fn end(&self) -> Result<u64, Error> {
        let range = self.log.range(Topic::Journal, self.partition).map_err(Error::journal(self.partition))?;
        Ok(range.end)
    }

    /// Reads on, and gives where the journal goes on after that.
    fn read(
        &self,
        reader: &mut dyn Reader,
        timeout: Duration,
        mut next: u64,
        living: &mut Living,
        pace: &mut Pace,
    ) -> Result<u64, Error> {
        let records = reader.poll(MAX_RECORDS, timeout).map_err(Error::journal(self.partition))?;
        for record in records {
            next = record.offset + 1;
            if !living.is_begun {
                // No hint of this life is older.
                continue;
            }
            // A record that does not count may be among them: what it says ends hints that could have stayed.
            if !record.value.header().is_ok_and(|header| header.kind == Kind::Envelope) {
                continue;
            }
            let (partition, offset) = (self.partition, record.offset);
            let envelope = record
                .value
                .decoded(|body| Envelope::read(body, tidemill_journal::reads()))
                .map_err(tidemill_journal::Error::envelope(partition, offset))?;
            for recorded in &envelope.events {
                marked(recorded, |what| match what {
                    Marked::One(mark) => drop(living.marks.insert(mark, record.offset)),
                    Marked::Everything => *living = living.anew(),
                });
            }
        }
        if living.marks.len() > MOST_MARKS {
            *living = living.anew();
        }
        if !living.marks.is_empty() {
            pace.marked(Instant::now());
        }
        Ok(next)
    }

    /// The back end's time, and after that the journal's end: what was acknowledged before is below it. Begins the
    /// life where that has still to be done. Where nobody wants hints, it rests: the life runs out.
    fn sample(&self, living: &mut Living, pace: &mut Pace) -> Result<Tried, Error> {
        let taken_at = Instant::now();
        let clock = self.hints.wanted(self.partition).and_then(|wanted| {
            living.wanted_at = if wanted { Some(taken_at) } else { living.wanted_at };
            self.hints.clock_ms()
        });
        if clock.is_ok() && living.may_rest(taken_at) {
            if living.is_begun {
                *living = Living::new();
            }
            pace.put_off(taken_at);
            return Ok(Ok(()));
        }
        let end = self.end()?;
        let begun = clock.and_then(|clock_ms| {
            if !living.is_begun {
                living.is_begun = self.hints.begin(self.partition, &living.life)?;
            }
            Ok(living.is_begun.then_some(clock_ms))
        });
        let (clock_ms, tried) = match begun {
            Ok(clock_ms) => (clock_ms, Ok(())),
            Err(error) => (None, Err(error)),
        };
        match clock_ms {
            Some(clock_ms) => pace.sampled(Sample { clock_ms, end, taken_at }),
            None => pace.put_off(taken_at),
        }
        Ok(tried)
    }

    /// Writes the marks, a part at a time; the last part beats.
    fn step(&self, living: &mut Living, pace: &mut Pace, beat: Option<Sample>) -> Tried {
        while living.is_begun {
            let part: Vec<_> =
                living.marks.iter().take(MAX_MARKS).map(|(mark, offset)| (mark.clone(), *offset)).collect();
            let is_last = part.len() == living.marks.len();
            let number = living.tried + 1;
            let turn = Turn {
                partition: self.partition,
                life: &living.life,
                confirmed: living.confirmed,
                number,
                marks: &part,
                holds_until_ms: beat.filter(|_| is_last).map(Sample::holds_until_ms),
            };
            let done = self.hints.turn(&turn);
            living.tried = number;
            match done {
                Ok(true) => living.written(number, &part),
                Ok(false) => {
                    let partition = self.partition;
                    tracing::info!(partition, "hints of partition {partition} were lost; they are rebuilt");
                    *living = living.anew();
                }
                Err(error) => {
                    pace.tried(Instant::now(), false);
                    return Err(error);
                }
            }
            if is_last {
                break;
            }
        }
        pace.tried(Instant::now(), true);
        Ok(())
    }

    /// Tells of trouble with the back end once, and of its end.
    fn tell(&self, trouble: &mut Option<String>, tried: Tried) {
        let partition = self.partition;
        match (tried, &trouble) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                tracing::info!(partition, "partition {partition} has hints again");
                *trouble = None;
            }
            (Err(error), told) => {
                let reason = causes(&error);
                if told.as_ref() != Some(&reason) {
                    tracing::warn!(partition, reason, "partition {partition} has no hints: {reason}");
                }
                *trouble = Some(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUL-9: clients that are told to ask again within 30 s keep it awake, and a new life is for the same who look.
    #[test]
    fn rests_a_minute_after_the_last_look() {
        let now = Instant::now();
        let living = Living { wanted_at: Some(now), ..Living::new() };
        for (later_s, rests) in [(0, false), (59, false), (60, true), (600, true)] {
            let later = now + Duration::from_secs(later_s);
            assert_eq!(
                (living.may_rest(later), living.anew().may_rest(later)),
                (rests, rests),
                "{later_s} s"
            );
        }
        assert!(Living::new().may_rest(now), "nobody has looked yet");
    }
}
