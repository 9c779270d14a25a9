//! Whose turn it is: of those who wait, the user who was served longest ago, and of his readers the one that was.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::TURN;

/// A reader that has not asked for so long waits no more, and what it has not used for so long is free: its client takes
/// nothing, or it is at the end.
pub(super) const WAITS: Duration = TURN.saturating_mul(5);
/// Users whose last turns are known; of more the ones served longest ago are forgotten.
const MOST_USERS: usize = 1_024;

/// Who was served when, and who waits.
#[derive(Default)]
pub(super) struct Line {
    turns: u64,
    /// The number of each user's last turn.
    users: HashMap<Arc<str>, u64>,
    /// By their numbers.
    readers: HashMap<u64, Stand>,
}

struct Stand {
    user: Arc<str>,
    /// The number of its last turn; 0: none yet.
    served: u64,
    /// When it asked last, if it waits.
    asked_at: Option<Instant>,
}

impl Line {
    /// A reader asks for a turn, and waits until it is served or leaves; whether nobody who waits comes before it.
    pub(super) fn ask(&mut self, user: &Arc<str>, reader: u64, now: Instant) -> bool {
        let stand = self.readers.entry(reader).or_insert_with(|| Stand {
            user: Arc::clone(user),
            served: 0,
            asked_at: None,
        });
        stand.asked_at = Some(now);
        let own = (self.served(user), self.readers.get(&reader).map_or(0, |stand| stand.served));
        let waits = |stand: &Stand| {
            stand.asked_at.is_some_and(|asked_at| now.saturating_duration_since(asked_at) < WAITS)
        };
        // Within a user the readers' turns count, between users theirs.
        !self.readers.values().any(|other| {
            let place = (self.served(&other.user), if other.user == *user { other.served } else { own.1 });
            waits(other) && place < own
        })
    }

    /// It gets a turn.
    pub(super) fn serve(&mut self, user: &Arc<str>, reader: u64) {
        self.turns += 1;
        if self.users.len() >= MOST_USERS
            && !self.users.contains_key(user)
            && let Some(oldest) = self.users.iter().min_by_key(|(_, served)| **served)
        {
            let oldest = Arc::clone(oldest.0);
            self.users.remove(&oldest);
        }
        self.users.insert(Arc::clone(user), self.turns);
        if let Some(stand) = self.readers.get_mut(&reader) {
            stand.served = self.turns;
            stand.asked_at = None;
        }
    }

    /// It has what it needs.
    pub(super) fn leave(&mut self, reader: u64) {
        if let Some(stand) = self.readers.get_mut(&reader) {
            stand.asked_at = None;
        }
    }

    /// It is no more.
    pub(super) fn gone(&mut self, reader: u64) {
        self.readers.remove(&reader);
    }

    fn served(&self, user: &str) -> u64 {
        self.users.get(user).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Who gets each turn, where all readers ask in this order, again and again, until one is served.
    fn turns(line: &mut Line, readers: &[(&str, u64)], count: usize) -> Vec<u64> {
        let now = Instant::now();
        let mut served = Vec::new();
        while served.len() < count {
            // Each has asked since somebody was served last.
            let mut first = None;
            for _ in 0..2 {
                for (user, reader) in readers {
                    let user: Arc<str> = Arc::from(*user);
                    if line.ask(&user, *reader, now) {
                        first = Some((user, *reader));
                    }
                }
            }
            let (user, reader) = first.expect("somebody is next");
            line.serve(&user, reader);
            served.push(reader);
        }
        served
    }

    /// OPS-7: a user with eight readers gets no more than one with a single one, and his readers get the same.
    #[test]
    fn users_take_turns_and_then_their_readers() {
        let mut readers: Vec<(&str, u64)> = (0..8).map(|reader| ("greedy", reader)).collect();
        readers.push(("other", 8));
        let served = turns(&mut Line::default(), &readers, 64);
        let mut count: BTreeMap<u64, usize> = BTreeMap::new();
        for reader in served {
            *count.entry(reader).or_default() += 1;
        }
        assert_eq!(count.remove(&8), Some(32));
        assert_eq!(count.into_values().collect::<Vec<_>>(), [4; 8]);
    }

    /// OPS-7: whoever closes his readers and opens others is not before those who were served since.
    #[test]
    fn new_readers_of_a_user_wait_for_other_users() {
        let mut line = Line::default();
        let (greedy, other): (Arc<str>, Arc<str>) = ("greedy".into(), "other".into());
        let now = Instant::now();
        line.ask(&other, 1, now);
        line.serve(&other, 1);
        line.ask(&greedy, 2, now);
        line.serve(&greedy, 2);
        line.gone(2);
        assert!(line.ask(&other, 1, now));
        assert!(!line.ask(&greedy, 3, now), "it is new, and its user was served last");
    }

    #[test]
    fn who_does_not_ask_any_more_keeps_nobody_waiting() {
        let mut line = Line::default();
        let (slow, quick): (Arc<str>, Arc<str>) = ("slow".into(), "quick".into());
        let now = Instant::now();
        line.ask(&quick, 1, now);
        line.serve(&quick, 1);
        line.ask(&slow, 2, now);
        assert!(!line.ask(&quick, 1, now));
        assert!(line.ask(&quick, 1, now + WAITS));
        line.ask(&slow, 2, now + WAITS);
        line.leave(2);
        assert!(line.ask(&quick, 1, now + WAITS));
    }
}
