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
