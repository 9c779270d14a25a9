//! EXE-10: which lives of a worker are over.

use std::collections::VecDeque;

use tidemill_derive::Stored;
use tidemill_model::Incarnation;

/// Lives of one worker that are known to have ended.
const MAX_ENDED_LIVES: usize = 16;

/// Lives of one worker that another one has replaced. A registration of theirs that comes late, or twice, must not replace the
/// present one: what that was granted would count as held by a life that is silent, while it runs.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct EndedLives(VecDeque<Incarnation>);

impl EndedLives {
    pub(crate) fn contains(&self, life: &Incarnation) -> bool {
        self.0.contains(life)
    }

    /// Another life begins, which older records may take from among those that have ended.
    pub(crate) fn followed_by(mut self, life: &Incarnation, ended: &Incarnation) -> Self {
        self.0.retain(|known| known != life);
        self.0.push_back(ended.clone());
        if self.0.len() > MAX_ENDED_LIVES {
            self.0.pop_front();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounded by itself: the oldest is forgotten, and a life that begins again is not among the ended.
    #[test]
    fn last_lives_are_known_and_no_more() {
        let life = |number: usize| Incarnation::new(number.to_string());
        let lives = (1..=20)
            .fold(EndedLives::default(), |lives, number| lives.followed_by(&life(number), &life(number - 1)));
        let known: Vec<usize> = (0..=20).filter(|number| lives.contains(&life(*number))).collect();
        assert_eq!(known, (4..20).collect::<Vec<_>>());
        let lives = lives.followed_by(&life(7), &life(20));
        assert!(!lives.contains(&life(7)) && lives.contains(&life(20)));
        assert_eq!(lives.0.len(), MAX_ENDED_LIVES);
    }
}
