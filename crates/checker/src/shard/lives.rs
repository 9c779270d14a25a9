//! EXE-10: which lives of a worker are over.

use tidemill_model::{Incarnation, Level, WorkerId};

use super::Shard;
use super::worker::Worker;
use crate::{At, Invariant};

/// Lives of one worker that an owner at least knows as ended.
const ENDED_LIVES: usize = 16;

impl Worker {
    /// As seen from another life, or the same. Of a worker whose lease is over, and that holds nothing, an owner may know nothing.
    pub(super) fn lives_before(&self, life: &Incarnation, at: &At<'_>) -> Vec<(Incarnation, u64)> {
        if self.expired && !self.is_used() {
            return Vec::new();
        }
        let mut ended = self.ended_lives.clone();
        if self.incarnation != *life {
            ended.push((self.incarnation.clone(), at.offset));
            ended.drain(..ended.len().saturating_sub(ENDED_LIVES));
        }
        ended
    }
}

impl Shard {
    /// `worker_lives_follow`: what another life has replaced does not replace that.
    pub(super) fn no_life_comes_again(
        &self,
        at: &At<'_>,
        (worker, life): (&WorkerId, &Incarnation),
        ended: Option<Vec<(Incarnation, u64)>>,
    ) -> Vec<(Incarnation, u64)> {
        let mut ended = ended.unwrap_or_default();
        let again = ended.iter().position(|(known, _)| known == life).map(|index| ended.remove(index));
        if let Some((_, said)) = again.filter(|_| at.level.allows(Level::SEALED_REPORTS)) {
            let why = format!("worker {worker} registers as {life}, a life that another one has replaced");
            at.contradicts(Invariant::WorkerLivesFollow, why, &[said]);
        }
        ended
    }
}
