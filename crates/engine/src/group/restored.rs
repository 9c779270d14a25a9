//! OPS-5: the log was restored from a state before its end.
//!
//! ```text
//!   recorded and restored ──────────────│── recorded and lost ───►
//!   assigned, or granted: held          │   granted: nobody knows of it
//!   ids minted up to here               │   ids minted here ◄── the restored log mints above all of them
//! ```
//! What was only assigned may have been granted and begun in what is lost, so it counts as granted from here on, to a question
//! that nobody asks. However long its worker is silent, no lease ends it: what the worker was told since is lost, too.
//! It ends as what a group holds does: by its worker's word, or when a person vouches for the worker ([`Self::vouch_ended`]).
//!
//! What was granted in what is lost, and runs on, is found when its worker registers ([`super::strays`]). Each worker has to do so before
//! anything else is heard of it or given to it; strays are on record from level 3 on.

use tidemill_model::{Actor, BatchId, Nonce, Rejection, Timestamp, Token, WorkerEvent, WorkerId};

use super::GroupShard;
use super::batches::batch::Phase;
use super::batches::vouched::SAY_HOW;
use super::reason;
use crate::decision::Decision;

impl GroupShard {
    /// What is minted from now on was minted in no life of the log before.
    pub(crate) fn mint_above(&mut self, counter: u64) {
        planted!(GenerationForgotten => return);
        self.strays.note_gap(self.batches.tokens_minted(), counter);
        self.jobs.mint_above(counter);
        self.batches.mint_above(counter);
        self.external.mint_above(counter);
        self.pull.mint_above(counter);
    }

    /// The highest counter that an id was minted from.
    pub(crate) fn minted(&self) -> u64 {
        let parts = [self.jobs.minted(), self.batches.minted(), self.external.minted(), self.pull.minted()];
        parts.into_iter().max().unwrap_or(0)
    }

    /// Nothing that was assigned or granted is replaced by itself.
    pub(crate) fn hold_all(&mut self, now: Timestamp) {
        planted!(RestoredNotHeld => return);
        let assigned = |(id, batch): (BatchId, &super::batches::batch::Batch)| match &batch.phase {
            Phase::Assigned { token, worker, .. } => Some((*token, id, worker.clone())),
            Phase::Waiting | Phase::Ready { .. } | Phase::Pausing { .. } | Phase::Granted(_) => None,
        };
        let mut assigned: Vec<(Token, BatchId, WorkerId)> =
            self.batches.iter().filter_map(assigned).collect();
        assigned.sort();
        for (token, id, worker) in assigned {
            let Some(incarnation) = self.workers.get(&worker).map(|known| known.incarnation.clone()) else {
                continue;
            };
            self.start_granted(now, id, token, &worker, &incarnation, &unasked());
        }
        self.hold_finals();
        self.hear_all(now);
        let holders: Vec<WorkerId> = self.holders().cloned().collect();
        for worker in holders {
            self.workers.turn(now, &worker, |worker| worker.told.hold());
            // What was to be taken back because it had not begun stays where it is.
            self.go_on_settling(&worker);
        }
    }

    /// EXE-8: a person says that nothing of a worker runs any more which nobody hears of.
    pub(in crate::group) fn vouch_ended(
        &self,
        worker: &WorkerId,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let reason = reason::checked(reason, SAY_HOW)?;
        let known = self.workers.get(worker).ok_or_else(|| Rejection::unknown("worker", worker))?;
        if known.expired {
            return Ok(Decision::nothing());
        }
        if !known.lost {
            let rule = "is heard of, or was until a moment ago; what runs there is ended with `tidemill batch kill`, and \
                        once the worker counts as lost somebody can vouch for it";
            return Err(Rejection::field("worker", worker, rule));
        }
        let (worker, incarnation) = (worker.clone(), known.incarnation.clone());
        Ok(Decision::of(WorkerEvent::EndVouched { worker, incarnation, by: by.clone(), reason }))
    }
}

/// The question of what counts as granted without one: no worker asks it, for a nonce is never empty.
pub(in crate::group) fn unasked() -> Nonce {
    Nonce::new("")
}
