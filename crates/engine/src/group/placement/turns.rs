//! Whose turn it is (BYD-4): owners that have ready batches of one type and priority take turns, one start each.
//!
//! Each start moves an owner's turn on by one, and the lowest turn is next. Who comes, or comes back, stands at most
//! [`CREDIT`] starts before those that are there. Who has more than [`FEW`] ready stands with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidemill_derive::Stored;

/// Starts by which an owner that had nothing to start may be ahead of those that had. Alone it has every slot at once
/// when it comes; beside others it gets them one by one, as they become free, and the credit makes up for that: of 100
/// batches it waits at most twice as long as alone, where they have up to 32 slots.
pub(crate) const CREDIT: u64 = 64;
/// An owner with more ready batches than this has no head start: it is for few that come at once. So beside a flood
/// that comes at the same moment a few go first, too.
pub(crate) const FEW: usize = 256;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Turns {
    /// The highest turn that was served.
    served: u64,
    owners: BTreeMap<Arc<str>, Standing>,
    /// Owners that have nothing ready, and a turn that is not forgotten.
    idle: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Stored)]
struct Standing {
    turn: u64,
    /// Its batches that are ready.
    ready: usize,
}

/// One more batch of an owner is ready.
#[derive(Debug, PartialEq)]
pub(crate) struct Came {
    pub(crate) name: Arc<str>,
    pub(crate) turn: u64,
    /// Its other batches stood at another turn before.
    pub(crate) is_moved: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Self { served: CREDIT, owners: BTreeMap::new(), idle: BTreeSet::new() }
    }
}

impl Turns {
    /// Who comes, or comes back, is not further ahead than the credit.
    fn earliest(&self) -> u64 {
        self.served.saturating_sub(CREDIT)
    }

    /// One more batch of the owner is ready.
    pub(crate) fn comes(&mut self, owner: &str) -> Came {
        let (earliest, served) = (self.earliest(), self.served);
        let name = match self.owners.get_key_value(owner) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(owner),
        };
        let standing = self.owners.entry(Arc::clone(&name)).or_default();
        let before = (standing.ready > 0).then_some(standing.turn);
        if before.is_none() {
            self.idle.remove(&(standing.turn, Arc::clone(&name)));
            standing.turn = standing.turn.max(earliest);
        }
        standing.ready += 1;
        if standing.ready > FEW {
            standing.turn = standing.turn.max(served);
        }
        let is_moved = before.is_some_and(|before| before != standing.turn);
        Came { name, turn: standing.turn, is_moved }
    }

    /// One batch of the owner is not ready any more.
    pub(crate) fn goes(&mut self, owner: &str) {
        let Some((name, _)) = self.owners.get_key_value(owner) else { return };
        let name = Arc::clone(name);
        let Some(standing) = self.owners.get_mut(owner) else { return };
        standing.ready = standing.ready.saturating_sub(1);
        if standing.ready == 0 {
            self.idle.insert((standing.turn, name));
        }
    }

    /// One of the owner's batches has been started. Gives its next turn, if it has more of them.
    pub(crate) fn served(&mut self, owner: &str) -> Option<u64> {
        let (name, standing) = self.owners.get_key_value(owner)?;
        let (name, before) = (Arc::clone(name), *standing);
        self.served = self.served.max(before.turn);
        let turn = before.turn + 1;
        self.owners.get_mut(owner)?.turn = turn;
        if before.ready == 0 {
            self.idle.remove(&(before.turn, Arc::clone(&name)));
            self.idle.insert((turn, name));
        }
        // What a newcomer gets anyway need not be known.
        while let Some((turn, name)) = self.idle.first().cloned()
            && turn <= self.earliest()
        {
            self.idle.remove(&(turn, Arc::clone(&name)));
            self.owners.remove(&name);
        }
        (before.ready > 0).then_some(turn)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.len() == self.idle.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of these owners, each with more ready than it can start, the one whose turn it is starts one.
    fn start<'a>(turns: &mut Turns, owners: &[&'a str]) -> &'a str {
        let first = owners.iter().min_by_key(|owner| turns.owners[**owner].turn).unwrap();
        turns.goes(first);
        turns.served(first);
        first
    }

    fn ready(turns: &mut Turns, owner: &str, count: usize) {
        for _ in 0..count {
            turns.comes(owner);
        }
    }

    /// BYD-4: who comes late is ahead by the credit, and no more.
    #[test]
    fn a_newcomer_is_ahead_by_its_credit() {
        let mut turns = Turns::default();
        ready(&mut turns, "a", 1_000);
        for _ in 0..500 {
            start(&mut turns, &["a"]);
        }
        ready(&mut turns, "b", 200);
        let order: Vec<&str> = (0..200).map(|_| start(&mut turns, &["a", "b"])).collect();
        let ahead = order.iter().take_while(|owner| **owner == "b").count();
        assert!((CREDIT as usize..=CREDIT as usize + 2).contains(&ahead), "{ahead}");
        let later = &order[ahead..];
        assert_eq!(later.iter().filter(|owner| **owner == "b").count(), later.len() / 2);
    }

    /// BYD-4: of two that come at the same moment, the one that has few is ahead by the credit, whoever is first.
    #[test]
    fn few_go_before_a_flood_that_comes_at_the_same_moment() {
        for order in [["few", "flood"], ["flood", "few"]] {
            let mut turns = Turns::default();
            for owner in order {
                ready(&mut turns, owner, if owner == "few" { 100 } else { FEW + 1 });
            }
            let started: Vec<&str> = (0..100).map(|_| start(&mut turns, &order)).collect();
            let ahead = started.iter().take_while(|owner| **owner == "few").count();
            assert!((CREDIT as usize..=CREDIT as usize + 1).contains(&ahead), "{ahead}");
            let later = &started[ahead..];
            assert_eq!(later.iter().filter(|owner| **owner == "few").count(), later.len() / 2);
        }
    }

    /// BYD-4: who goes and comes back at once gains nothing by it.
    #[test]
    fn coming_back_gains_nothing() {
        let mut turns = Turns::default();
        ready(&mut turns, "a", 1_000);
        let mut of_b = 0;
        for _ in 0..400 {
            turns.comes("b");
            if start(&mut turns, &["a", "b"]) == "b" {
                of_b += 1;
            } else {
                turns.goes("b");
            }
        }
        assert!((200..=200 + CREDIT as i32 + 2).contains(&of_b), "{of_b}");
    }

    #[test]
    fn a_turn_that_a_newcomer_gets_anyway_is_forgotten() {
        let mut turns = Turns::default();
        for n in 0..1_000 {
            for owner in [&format!("o{n}"), "a"] {
                turns.comes(owner);
                turns.goes(owner);
                turns.served(owner);
            }
        }
        assert!(turns.owners.len() < 3 * CREDIT as usize, "{} owners are remembered", turns.owners.len());
    }
}
