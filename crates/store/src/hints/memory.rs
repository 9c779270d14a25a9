//! Hints in this process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Hint, HintFuture, HintPage, Hints, Life, Look, Mark, Place, Stand, Turn, WANTED_FOR};
use crate::Error;

/// Hints and marks kept at most; above that everything is forgotten, which is always right.
const MOST: usize = 1_000_000;

/// Hints of one page.
const PAGE: usize = 1_000;

/// Hints in memory, for a process that runs every role.
pub struct MemoryHints {
    begun_at: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stands: HashMap<u32, Stand>,
    /// When somebody looked last.
    looked_ms: HashMap<u32, i64>,
    /// Which life holds, and until when.
    lives: HashMap<u32, (Life, i64)>,
    marks: HashMap<(u32, Mark), u64>,
    hints: HashMap<Place, (Hint, i64)>,
}

impl Default for MemoryHints {
    fn default() -> Self {
        Self { begun_at: Instant::now(), state: Mutex::default() }
    }
}

impl MemoryHints {
    /// No hint yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, as if it had never been.
    pub fn flush(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whatever a panic left half done: each entry is whole, and a missing one asks the owner.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun_at.elapsed().as_millis()).expect("a process lives for less than ages")
    }
}

impl State {
    fn look(&self, place: &Place, now_ms: i64) -> Look {
        let mark = |mark: Mark| self.marks.get(&(place.partition, mark)).copied();
        let shard = place.shard;
        Look {
            life: self
                .lives
                .get(&place.partition)
                .filter(|(_, until)| now_ms < *until)
                .map(|it| it.0.clone()),
            hint: self.hints.get(place).filter(|(_, until)| now_ms < *until).map(|it| it.0.clone()),
            group_mark: mark(Mark::Group { shard }),
            user_mark: mark(Mark::User { shard, user: place.user.clone() }),
        }
    }

    /// Makes room, first by what is over.
    fn settle(&mut self, now_ms: i64) {
        if self.hints.len() >= MOST {
            self.hints.retain(|_, (_, until)| now_ms < *until);
        }
        if self.hints.len() >= MOST || self.marks.len() >= MOST {
            *self = Self::default();
        }
    }
}

impl Hints for MemoryHints {
    fn look(&self, place: &Place) -> HintFuture<'_, Look> {
        let now_ms = self.now_ms();
        let mut state = self.state();
        state.looked_ms.insert(place.partition, now_ms);
        let look = state.look(place, now_ms);
        Box::pin(std::future::ready(Ok(look)))
    }

    fn keep(&self, place: &Place, hint: &Hint, kept_for: Duration) -> HintFuture<'_, ()> {
        let now_ms = self.now_ms();
        let kept_for = i64::try_from(kept_for.min(super::LONGEST_HINT).as_millis()).expect("a day fits");
        let mut state = self.state();
        state.settle(now_ms);
        state.hints.insert(place.clone(), (hint.clone(), now_ms + kept_for));
        Box::pin(std::future::ready(Ok(())))
    }

    fn page(&self, partition: u32, from: Option<u64>) -> Result<HintPage, Error> {
        let now_ms = self.now_ms();
        let state = self.state();
        let skipped = usize::try_from(from.unwrap_or(0)).unwrap_or(usize::MAX);
        let places = state.hints.keys().skip(skipped).take(PAGE);
        let of_it = places.clone().filter(|place| place.partition == partition);
        let looks = of_it.map(|place| (place.clone(), state.look(place, now_ms)));
        let looks = looks.filter(|(_, look)| look.hint.is_some()).collect();
        let end = skipped.saturating_add(PAGE);
        Ok(HintPage { looks, next: (end < state.hints.len()).then_some(end as u64) })
    }

    fn forget(&self, partition: u32) -> Result<u64, Error> {
        let mut state = self.state();
        state.stands.remove(&partition);
        state.lives.remove(&partition);
        let before = state.hints.len();
        state.hints.retain(|place, _| place.partition != partition);
        Ok((before - state.hints.len()) as u64)
    }

    fn wanted(&self, partition: u32) -> Result<bool, Error> {
        let looked_ms = self.state().looked_ms.get(&partition).copied();
        let since = |looked_ms| Duration::from_millis(self.now_ms().abs_diff(looked_ms));
        Ok(looked_ms.is_some_and(|looked_ms| since(looked_ms) < WANTED_FOR))
    }

    fn clock_ms(&self) -> Result<i64, Error> {
        Ok(self.now_ms())
    }

    fn begin(&self, partition: u32, life: &Life) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        let mut state = self.state();
        let other =
            state.lives.get(&partition).is_some_and(|(holds, until)| holds != life && now_ms < *until);
        if !other {
            state.lives.remove(&partition);
            state.stands.insert(partition, Stand { life: life.clone(), number: 0 });
        }
        Ok(!other)
    }

    fn turn(&self, turn: &Turn<'_>) -> Result<bool, Error> {
        let mut state = self.state();
        state.settle(self.now_ms());
        let Some(stand) = state.stands.get_mut(&turn.partition).filter(|stand| stand.takes(turn)) else {
            return Ok(false);
        };
        stand.number = turn.number;
        for (mark, offset) in turn.marks {
            state.marks.insert((turn.partition, mark.clone()), *offset);
        }
        if let Some(until) = turn.holds_until_ms {
            state.lives.insert(turn.partition, (turn.life.clone(), until));
        }
        Ok(true)
    }
}
