//! Places that keys take in turn: however much of one key waits, what another key asks for is next but the keys before it
//! (OPS-7).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::Problem;

/// What those are told who get no place.
pub(crate) struct Told {
    /// What the places are for.
    pub(crate) what: &'static str,
    /// Behind the bound of one key.
    pub(crate) per_key: &'static str,
    /// Behind the bound of all keys.
    pub(crate) bound: &'static str,
}

impl Told {
    pub(crate) const fn of(what: &'static str) -> Self {
        Self { what, per_key: "; wait for their answers", bound: " of this instance; try again later" }
    }
}

/// Places, and who waits for one.
pub(crate) struct Turns {
    told: Told,
    /// Of one key, at work or waiting.
    per_key: usize,
    /// Of all keys, at work or waiting.
    bound: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    /// At work or waiting.
    of_key: HashMap<Arc<str>, usize>,
    /// The key whose turn is next first; each has somebody who waits.
    waiting: VecDeque<(Arc<str>, VecDeque<oneshot::Sender<Place>>)>,
}

/// A place, until it is dropped.
pub(crate) struct Turn {
    key: Arc<str>,
    all: Arc<Turns>,
    place: Option<Place>,
}

/// Goes on to the next when it is dropped; one that is empty has gone on.
struct Place(Option<Arc<Turns>>);

impl Turns {
    pub(crate) fn new(told: Told, places: usize, per_key: usize, bound: usize) -> Arc<Self> {
        let state = State { free: places, of_key: HashMap::new(), waiting: VecDeque::new() };
        Arc::new(Self { told, per_key, bound, state: Mutex::new(state) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are at work or wait.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.state().of_key.values().sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// A place for this key, once it is its turn.
    ///
    /// # Errors
    /// Too many of this key, or of all keys, are at work or wait.
    pub(crate) async fn take(self: &Arc<Self>, key: &Arc<str>) -> Result<Turn, Problem> {
        // Gives back what it counts for, also where it is given up while it waits.
        let (mut turn, waits) = self.enter(key)?;
        if let Some(waits) = waits {
            turn.place = Some(waits.await.expect("a place goes on to all who wait"));
        }
        Ok(turn)
    }

    fn enter(self: &Arc<Self>, key: &Arc<str>) -> Result<(Turn, Option<oneshot::Receiver<Place>>), Problem> {
        let mut state = self.state();
        let (own, all) = (state.of_key.get(key).copied().unwrap_or(0), state.of_key.values().sum::<usize>());
        let Told { what, per_key, bound } = self.told;
        if own >= self.per_key {
            let detail = format!("key {key} has {own} {what} open, the bound for one key{per_key}");
            return Err(Problem::overloaded(detail, 5));
        }
        if all >= self.bound {
            return Err(Problem::overloaded(format!("{all} {what} are open, the bound{bound}"), 5));
        }
        state.of_key.insert(Arc::clone(key), own + 1);
        let mut turn = Turn { key: Arc::clone(key), all: Arc::clone(self), place: None };
        if state.free > 0 {
            state.free -= 1;
            turn.place = Some(Place(Some(Arc::clone(self))));
            return Ok((turn, None));
        }
        let (gives, waits) = oneshot::channel();
        match state.waiting.iter_mut().find(|(waits, _)| waits == key) {
            Some((_, own)) => own.push_back(gives),
            None => state.waiting.push_back((Arc::clone(key), VecDeque::from([gives]))),
        }
        Ok((turn, Some(waits)))
    }

    /// Who is next; without anybody the place is free.
    fn next(&self) -> Option<oneshot::Sender<Place>> {
        let mut state = self.state();
        while let Some((key, mut own)) = state.waiting.pop_front() {
            let next = own.pop_front();
            if !own.is_empty() {
                state.waiting.push_back((key, own));
            }
            if next.is_some() {
                return next;
            }
        }
        state.free += 1;
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.all.state();
        match state.of_key.get_mut(&self.key) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(state.of_key.remove(&self.key)),
        }
        // Whoever gave up waiting has left its key's line.
        for (_, own) in &mut state.waiting {
            own.retain(|gives| !gives.is_closed());
        }
        state.waiting.retain(|(_, own)| !own.is_empty());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(all) = self.0.take() else { return };
        // Nobody may be there any more by the time it comes.
        while let Some(next) = all.next() {
            match next.send(Self(Some(Arc::clone(&all)))) {
                Ok(()) => return,
                Err(mut place) => drop(place.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn keys() -> (Arc<str>, Arc<str>) {
        ("greedy".into(), "other".into())
    }

    /// OPS-7
    #[test]
    fn other_key_is_next_however_many_of_one_wait() {
        let turns = Turns::new(Told::of("reads"), 1, 8, 16);
        let (greedy, other) = keys();
        let first = poll(pin!(turns.take(&greedy))).unwrap().unwrap();
        let mut waiting: Vec<_> = (0..7).map(|_| Box::pin(turns.take(&greedy))).collect();
        assert!(waiting.iter_mut().all(|waits| poll(waits.as_mut()).is_none()));
        let mut others = pin!(turns.take(&other));
        assert!(poll(others.as_mut()).is_none());
        drop(first);
        let second = poll(waiting[0].as_mut()).expect("it came first").unwrap();
        assert!(poll(others.as_mut()).is_none());
        drop(second);
        let turn = poll(others.as_mut()).expect("its key has waited longest").unwrap();
        assert!(waiting[1..].iter_mut().all(|waits| poll(waits.as_mut()).is_none()));
        drop(turn);
        assert!(poll(waiting[1].as_mut()).is_some());
    }

    /// OPS-7
    #[test]
    fn bounds_are_of_a_key_and_of_all() {
        let turns = Turns::new(Told::of("reads"), 1, 2, 3);
        let (greedy, other) = keys();
        let _first = poll(pin!(turns.take(&greedy))).unwrap().unwrap();
        let mut second = Box::pin(turns.take(&greedy));
        assert!(poll(second.as_mut()).is_none());
        let refused = |key: &Arc<str>| poll(pin!(turns.take(key))).unwrap().err().unwrap().detail;
        assert!(refused(&greedy).contains("the bound for one key"));
        let mut others = Box::pin(turns.take(&other));
        assert!(poll(others.as_mut()).is_none());
        assert!(refused(&other).contains("the bound of this instance"));
        drop((second, others));
        assert!(poll(pin!(turns.take(&greedy))).is_none(), "its place is free again");
    }

    #[test]
    fn places_are_not_lost_with_those_who_give_up() {
        let turns = Turns::new(Told::of("reads"), 1, 8, 16);
        let (greedy, other) = keys();
        let first = poll(pin!(turns.take(&greedy))).unwrap().unwrap();
        let mut gone = Box::pin(turns.take(&greedy));
        let mut late = Box::pin(turns.take(&other));
        assert!(poll(gone.as_mut()).is_none() && poll(late.as_mut()).is_none());
        drop(gone);
        drop(first);
        // The place is on its way to one who does not take it any more.
        drop(late);
        assert!(poll(pin!(turns.take(&greedy))).is_some());
        let state = turns.state();
        assert_eq!((state.free, state.of_key.len()), (1, 0));
    }
    /// OPS-7
    #[test]
    fn one_key_leaves_streams_for_others() {
        let told = Told { what: "streams", per_key: " (max_streams_per_key)", bound: " (max_streams)" };
        let streams = Turns::new(told, 3, 2, 3);
        let (greedy, other) = keys();
        let open = |key: &Arc<str>| poll(pin!(streams.take(key))).unwrap();
        let own = [open(&greedy).unwrap(), open(&greedy).unwrap()];
        assert_eq!(open(&greedy).err().unwrap().code, "overloaded");
        let _others = open(&other).unwrap();
        assert!(open(&other).err().unwrap().detail.contains("max_streams)"));
        drop(own);
        assert!(open(&greedy).is_ok());
    }
}
