//! The log was restored: what was assigned may have begun in what is lost, and ids go on above all that were minted there.

use tidemill_model::{BatchId, GrantId, Nonce, TaskId, Token};

use super::Shard;
use super::batch::Phase;
use super::timeouts::bound;
use crate::At;

impl Shard {
    /// What is minted from here on has a counter above this: `minted_ids_grow`.
    pub(crate) fn mints_above(&mut self, counter: u64) {
        self.strays.note_gap(self.last_token, Token::mint(counter, self.id).0);
        self.last_batch = self.last_batch.max(BatchId::mint(counter, self.id).0);
        self.last_token = self.last_token.max(Token::mint(counter, self.id).0);
        self.pulls.last_task = self.pulls.last_task.max(TaskId::mint(counter, self.id).0);
        self.pulls.last_grant = self.pulls.last_grant.max(GrantId::mint(counter, self.id).0);
    }

    /// Nothing that was assigned or granted is over by itself: `no_attempt_before_lease_over`.
    pub(crate) fn holds_all(&mut self, at: &At<'_>) {
        let mut live = Vec::new();
        for (id, batch) in &mut self.batches {
            if let Phase::Assigned(to) = &batch.phase {
                let to = to.clone();
                batch.phase = Phase::Granted { to, nonce: Nonce::new(""), started: false };
                batch.zero = false;
                let bound = batch.of.as_ref().and_then(|of| bound(of.spec()));
                batch.long_at = bound.and_then(|bound| at.now.checked_add(bound).ok());
                live.push(((batch.job, batch.time), *id));
            }
        }
        self.live.extend(live);
        for held in self.finals.values_mut() {
            held.hold();
        }
        for worker in self.workers.values_mut() {
            worker.hold();
        }
    }
}
