//! What an owner answers about the present.

use tidemill_engine::Partition;
use tidemill_model::{LiveAnswer, LiveQuery, ShardId};

use super::Owner;

impl Owner {
    /// Answers a question about the present, from what the journal holds; `None` while an append is under way.
    /// What is asked of a state that this owner has not reached, another one knows, or this one later.
    pub fn answer(&self, shard: ShardId, query: &LiveQuery) -> Option<LiveAnswer> {
        let reached = self.head().map(|head| head.offset);
        let is_behind = query.at_least().is_some_and(|offset| reached < Some(offset));
        let answer = |state: &Partition| {
            if is_behind { LiveAnswer::NotFound } else { state.answer(shard, query) }
        };
        self.state().map(answer)
    }

    /// The same; of a worker, with what only its owner has heard, at a moment of the boot clock.
    pub fn answer_at(&self, shard: ShardId, query: &LiveQuery, boot_ms: u64) -> Option<LiveAnswer> {
        let mut answer = self.answer(shard, query)?;
        if let (LiveQuery::Worker { worker }, LiveAnswer::Worker(present)) = (query, &mut answer) {
            let group = self.state().and_then(|state| state.groups().find(|group| group.id() == shard));
            if let Some(life) = group.and_then(|group| group.life_of(worker)) {
                self.silence.tell(&(shard, worker.clone(), life.clone()), boot_ms, present);
            }
        }
        Some(answer)
    }
}
