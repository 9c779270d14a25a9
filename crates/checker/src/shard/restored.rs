//! The log was restored: what was assigned may have begun in what is lost, and ids go on above all that were minted there.

use tidemill_model::{BatchId, GrantId, Nonce, TaskId, Token};

use super::Shard;
use super::batch::Phase;
use crate::At;

impl Shard {
    /// What is minted from here on has a counter above this: `minted_ids_grow`.
    pub(crate) fn mints_above(&mut self, counter: u64) {
        self.strays.note_gap(self.last_token, Token::mint(counter, self.id).0);
        let upto = BatchId::mint(counter, self.id).0;
        if self.last_batch < upto {
            self.lost_batches.push((self.last_batch, upto));
        }
        self.last_batch = self.last_batch.max(upto);
        self.last_token = self.last_token.max(Token::mint(counter, self.id).0);
        self.pulls.last_task = self.pulls.last_task.max(TaskId::mint(counter, self.id).0);
        self.pulls.last_grant = self.pulls.last_grant.max(GrantId::mint(counter, self.id).0);
    }

    /// Nothing that was assigned or granted is over by itself: `no_attempt_before_lease_over`.
    pub(crate) fn holds_all(&mut self, at: &At<'_>) {
        let assigned = self.batches.iter().filter_map(|(id, batch)| match &batch.phase {
            Phase::Assigned(to) => Some((*id, (batch.job, batch.time), to.clone())),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Granted { .. } | Phase::Ended { .. } => None,
        });
        let assigned: Vec<_> = assigned.collect();
        for (id, run, to) in assigned {
            self.begins(at, id, Phase::Granted { to, nonce: Nonce::new(""), started: false });
            self.live.insert(run, id);
        }
        for held in self.finals.values_mut() {
            held.hold();
        }
        for worker in self.workers.values_mut() {
            worker.hold();
        }
    }
}
