//! What becomes of the tokens of a worker that was lost, came back as another process, or whose lease is
//! over. A worker may hold more of them than one decision may end, so this goes on in steps, in order of
//! token.

use tidemill_derive::Stored;
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchId, Event, ExternalEnd, Incarnation, ReturnReason, Timestamp, Token,
    WorkerId,
};

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::workers::Workers;

/// Tokens that one decision settles.
const STEP: usize = 64;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Unsettled {
    pub(crate) because: SettleCause,
    /// The next token to look at.
    pub(crate) from: Token,
    /// The last token that is concerned; later ones were assigned afterwards.
    pub(crate) upto: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
pub(crate) enum SettleCause {
    /// What it has not started goes to others; what runs, runs on.
    Lost,
    /// As lost, though it is there again.
    Restarted,
    /// Nothing of it runs any more.
    Expired,
    /// What it has not started goes to others: it was told to stop.
    Leaving,
    /// The same, and it has told that it has started nothing of all that it holds.
    Left,
}

impl SettleCause {
    /// Whether what the life at hand was assigned may still be started by it.
    fn leaves_life(self) -> bool {
        matches!(self, SettleCause::Lost | SettleCause::Leaving)
    }

    /// Whether nothing of what the worker held runs.
    fn leaves_nothing(self) -> bool {
        matches!(self, SettleCause::Expired | SettleCause::Left)
    }
}

impl Workers {
    /// Whether the token was assigned to a life of the worker that has ended, and is still to be taken back.
    pub(crate) fn is_of_earlier_life(&self, worker: &WorkerId, token: Token) -> bool {
        let ended = self.unsettled.get(worker).filter(|unsettled| !unsettled.because.leaves_life());
        ended.is_some_and(|unsettled| (unsettled.from..=unsettled.upto).contains(&token))
    }

    /// Whether this life is the last one of which the worker has told, living or not.
    pub(crate) fn is_present_life(&self, worker: &WorkerId, incarnation: &Incarnation) -> bool {
        self.get(worker).is_some_and(|known| known.incarnation == *incarnation)
    }

    /// Whether the lease is over of the life in which the worker was assigned a token that is still to be taken back.
    pub(crate) fn is_over(&self, worker: &WorkerId, token: Token) -> bool {
        let expired = |unsettled: &Unsettled| unsettled.because.leaves_nothing();
        self.is_of_earlier_life(worker, token) && self.unsettled.get(worker).is_some_and(expired)
    }

    /// Whether what a life held that is over, or has left, is still to be taken back.
    pub(crate) fn has_dead_life(&self, worker: &WorkerId) -> bool {
        self.unsettled.get(worker).is_some_and(|unsettled| unsettled.because.leaves_nothing())
    }

    /// The worker lives after all: what was not taken from it yet stays, but not what an earlier life had.
    pub(crate) fn keep_what_was_lost(&mut self, worker: &WorkerId) {
        let lost = |unsettled: &Unsettled| {
            unsettled.because == SettleCause::Lost || planted!(RepeatSavesEarlierLife)
        };
        if self.unsettled.get(worker).is_some_and(lost) {
            self.unsettled.remove(worker);
        }
    }
}

impl GroupShard {
    /// The next step for a worker that [`Workers`](super::Workers) names.
    pub(crate) fn settle(&self, worker: &WorkerId, now: Timestamp) -> Vec<Event> {
        let Some(unsettled) = self.workers.unsettled.get(worker) else { return Vec::new() };
        let settled = |(token, batch): (Token, Option<BatchId>)| {
            let Some(batch) = batch else {
                let stray = self.stray_settled(token).map(|end| vec![end]);
                return stray.unwrap_or_else(|| self.final_commands.final_settled(token));
            };
            let known = self.batches.get(&batch);
            if let Some(result) = known.and_then(|known| end_of_granted(known, unsettled.because)) {
                let message = "nothing of its worker runs any more".to_owned();
                let outcome = AttemptOutcome { message, ..AttemptOutcome::bare(result) };
                let external = ExternalEnd::unknown();
                return self.end_attempt(batch, token, outcome, Some(&external), now);
            }
            let reason = match unsettled.because {
                SettleCause::Lost | SettleCause::Expired => ReturnReason::WorkerLost,
                SettleCause::Restarted => ReturnReason::WorkerRestarted,
                SettleCause::Leaving | SettleCause::Left => ReturnReason::WorkerLeaving,
            };
            known.map(|known| self.not_begun(batch, known, reason)).unwrap_or_default()
        };
        self.concerned(worker, unsettled).take(STEP).flat_map(settled).collect()
    }

    /// The tokens that must not stay with the worker, and their batches; none: a final command's, or a stray's.
    fn concerned<'a>(
        &'a self,
        worker: &WorkerId,
        unsettled: &'a Unsettled,
    ) -> impl Iterator<Item = (Token, Option<BatchId>)> + 'a {
        let known = self.workers.get(worker);
        let present = known.filter(|known| !known.expired).map(|known| &known.incarnation);
        let tokens = known.map(|worker| &worker.tokens);
        let range = (unsettled.from <= unsettled.upto).then_some(unsettled.from..=unsettled.upto);
        let tokens = tokens.zip(range).into_iter().flat_map(|(tokens, range)| tokens.range(range));
        tokens.filter_map(move |token| {
            let Some(id) = self.batches.of_token(*token) else {
                if self.strays.has(*token) {
                    let is_dead = self.strays.is_of_dead_life(*token, present);
                    let ends = unsettled.because.leaves_nothing() && is_dead || planted!(StrayEndsUnsaid);
                    return ends.then_some((*token, None));
                }
                let runs_on = self.final_commands.is_granted(*token) && !unsettled.because.leaves_nothing();
                return (self.final_commands.holds(*token) && !runs_on).then_some((*token, None));
            };
            let concerned = match &self.batches.get(&id)?.phase {
                Phase::Assigned { right: Some(_), .. } if planted!(RightEndsByRegistration) => {
                    unsettled.because != SettleCause::Lost
                }
                // What its worker may have started without an answer is as what was granted, until the right is over.
                Phase::Granted(_) | Phase::Assigned { right: Some(_), .. } => {
                    unsettled.because.leaves_nothing()
                }
                Phase::Assigned { right: None, .. } => true,
                Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => false,
            };
            concerned.then_some((*token, Some(id)))
        })
    }

    /// From now on the worker's tokens are to be settled, all that there are.
    pub(crate) fn unsettle(&mut self, worker: &WorkerId, because: SettleCause) {
        let Some(known) = self.workers.get(worker) else { return };
        let (Some(from), Some(upto)) = (known.tokens.first().copied(), known.tokens.last().copied()) else {
            self.workers.unsettled.remove(worker);
            return;
        };
        self.workers.unsettled.insert(worker.clone(), Unsettled { because, from, upto });
        self.go_on_settling(worker);
    }

    /// A token of the worker was settled, by us or by itself: goes on to the next, if there is one.
    pub(crate) fn go_on_settling(&mut self, worker: &WorkerId) {
        let Some(unsettled) = self.workers.unsettled.get(worker) else { return };
        let next = self.concerned(worker, unsettled).next();
        match (next, self.workers.unsettled.get_mut(worker)) {
            (Some((token, _)), Some(unsettled)) => unsettled.from = token,
            (_, _) => {
                self.workers.unsettled.remove(worker);
            }
        }
    }
}

/// How what was granted ends, if its attempt does: of a worker that has left it has not begun, and goes back, unless its end was
/// asked for.
fn end_of_granted(batch: &Batch, because: SettleCause) -> Option<AttemptResult> {
    batch.grant()?;
    match because {
        SettleCause::Left => batch.kill().map(|_| AttemptResult::Killed),
        _ => Some(AttemptResult::Lost),
    }
}
