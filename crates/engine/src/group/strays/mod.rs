//! EXE-10, OPS-5: attempts of a life of the log that is lost, which run on and which no record of this life grants.
//!
//! ```text
//!  minted and on record │ minted in a life that is lost │ minted in this life ──►   │ lost with the end of the journal
//!  ─────────────────────┼───────────────────────────────┼────────────────────────────┼──────────────────────────────────
//!  known, or over       │ a gap: whoever runs one of    │ known, or over             │ above all that was minted: whoever
//!                       │ these is a stray              │                            │ runs one of these is a stray, too
//! ```
//! A worker that registers says what it runs. What of that is known is listed in the answer, as ever; what is over is ended; a stray
//! is on record with an alarm, listed in the answer, and goes on.
//!
//! *Invariant:* while a stray is on record, no batch of its job and logical time gets into the queue, and none that is assigned without a
//! right is granted a start. It ends by its worker's word, or when a person vouches for the worker; no lease ends it.

mod adopt;
mod decide;
mod found;

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, Condition, ExternalEnd, Incarnation, JobId, RunningAttempt, Timestamp, Token, WorkerId,
};

use super::batches::batch::Batch;
use super::{GroupShard, leave};

/// Gaps that are told apart; of more, the two oldest become one, with what lies between them.
const MAX_GAPS: usize = 64;

/// One attempt of a lost life that runs.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Stray {
    worker: WorkerId,
    /// The life of the worker that named it first.
    incarnation: Incarnation,
    batch: BatchId,
    job: JobId,
    logical_time: Timestamp,
    is_final: bool,
    /// When it was found.
    since: Timestamp,
    /// Somebody asked for its end.
    is_to_end: bool,
}

impl Stray {
    fn running(&self, token: Token) -> RunningAttempt {
        let Self { batch, job, logical_time, is_final, .. } = *self;
        RunningAttempt { token, batch, job, logical_time, is_final }
    }
}

/// What runs and no record of this life grants, and how that is told from what is over.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Strays {
    /// Counters of tokens that only lost lives minted: those above the first number, up to the second. In order, apart.
    gaps: Vec<(u64, u64)>,
    by_token: BTreeMap<Token, Stray>,
    by_time: BTreeMap<(JobId, Timestamp), BTreeSet<Token>>,
}

impl Strays {
    /// Counters up to `upto` were minted by lives that are lost, where this one has minted up to `minted`.
    pub(in crate::group) fn note_gap(&mut self, minted: u64, upto: u64) {
        if minted >= upto {
            return;
        }
        self.gaps.push((minted, upto));
        self.bound_gaps();
    }

    fn bound_gaps(&mut self) {
        while self.gaps.len() > MAX_GAPS {
            let (first, _) = self.gaps.remove(0);
            self.gaps[0].0 = first;
        }
    }

    /// This life knows the token from here on: once it is over, whoever runs it is to end it.
    fn leave_gap(&mut self, counter: u64) {
        let gaps = std::mem::take(&mut self.gaps);
        for (minted, upto) in gaps {
            let (before, behind) = match (minted + 1..=upto).contains(&counter) {
                true => ((minted, counter - 1), (counter, upto)),
                false => ((minted, upto), (upto, upto)),
            };
            self.gaps.extend([before, behind].into_iter().filter(|(minted, upto)| minted < upto));
        }
        self.bound_gaps();
    }

    fn is_in_gap(&self, counter: u64) -> bool {
        self.gaps.iter().any(|(minted, upto)| counter > *minted && counter <= *upto)
    }

    /// Whether a stray keeps batches of this logical time from being started.
    pub(in crate::group) fn hold(&self, job: JobId, time: Timestamp) -> bool {
        planted!(StrayHoldsNothing => return false);
        !self.by_time.is_empty() && self.by_time.contains_key(&(job, time))
    }

    pub(in crate::group) fn has(&self, token: Token) -> bool {
        self.by_token.contains_key(&token)
    }

    /// Whether some stray of the job runs.
    pub(in crate::group) fn has_of(&self, job: JobId) -> bool {
        self.by_time.range(super::times_of(job)).next().is_some()
    }

    fn of_worker(&self, token: Token, worker: &WorkerId) -> Option<&Stray> {
        self.by_token.get(&token).filter(|stray| stray.worker == *worker)
    }

    pub(in crate::group) fn is_to_end(&self, token: Token) -> bool {
        self.by_token.get(&token).is_some_and(|stray| stray.is_to_end)
    }

    /// Whether it was found on a life of its worker that is over, where this is the worker's present one (absent: all are over).
    pub(in crate::group) fn is_of_dead_life(&self, token: Token, present: Option<&Incarnation>) -> bool {
        self.by_token.get(&token).is_some_and(|stray| Some(&stray.incarnation) != present)
    }

    /// What runs on a worker, for people.
    pub(in crate::group) fn on<'a>(
        &'a self,
        worker: &'a WorkerId,
    ) -> impl Iterator<Item = RunningAttempt> + 'a {
        let there = self.by_token.iter().filter(move |(_, stray)| stray.worker == *worker);
        there.map(|(token, stray)| stray.running(*token))
    }

    fn remove(&mut self, token: Token) -> Option<Stray> {
        let stray = self.by_token.remove(&token)?;
        leave(&mut self.by_time, &(stray.job, stray.logical_time), &token);
        Some(stray)
    }
}

impl GroupShard {
    /// The log has lost its end: what any of these workers runs is to be heard from itself.
    pub(crate) fn hear_all(&mut self, now: Timestamp) {
        let live = self.workers.iter().filter(|(_, worker)| !worker.expired);
        let live: Vec<WorkerId> = live.map(|(id, _)| id.clone()).collect();
        for worker in live {
            self.workers.turn(now, &worker, |worker| worker.unheard = true);
        }
    }

    pub(in crate::group) fn stray_is_to_end(&mut self, token: Token) {
        if let Some(stray) = self.strays.by_token.get_mut(&token) {
            stray.is_to_end = true;
        }
    }

    pub(in crate::group) fn strays_found(
        &mut self,
        now: Timestamp,
        (worker, incarnation): (&WorkerId, &Incarnation),
        strays: &[RunningAttempt],
    ) {
        if self.workers.get(worker).is_none() {
            return;
        }
        for &RunningAttempt { token, batch, job, logical_time, is_final } in strays {
            // It is not minted again.
            self.strays.note_gap(self.batches.tokens_minted(), token.counter());
            self.batches.mint_tokens_above(token.counter());
            let (worker, incarnation, since) = (worker.clone(), incarnation.clone(), now);
            let is_to_end = false;
            let stray = Stray { worker, incarnation, batch, job, logical_time, is_final, since, is_to_end };
            self.strays.by_token.insert(token, stray);
            self.strays.by_time.entry((job, logical_time)).or_default().insert(token);
        }
        self.workers.turn(now, worker, |worker| {
            worker.tokens.extend(strays.iter().map(|stray| stray.token));
            // What it was told in the life that is lost, nobody knows.
            worker.told.hold();
        });
        let times = strays.iter().map(|stray| (stray.job, stray.logical_time)).collect();
        for id in self.batches_of_times(&times) {
            self.hold_ready(now, id);
        }
    }

    /// What of it may run elsewhere is for the next attempt of its logical time to end.
    pub(in crate::group) fn stray_ended(
        &mut self,
        now: Timestamp,
        token: Token,
        external: Option<&ExternalEnd>,
    ) {
        let Some(Stray { worker, job, logical_time, .. }) = self.strays.remove(token) else { return };
        self.workers.stray_is_gone(now, &worker, token);
        if self.workers.next_unsettled().is_some() {
            self.go_on_settling(&worker);
        }
        for id in self.batches_of_times(&BTreeSet::from([(job, logical_time)])) {
            if let Some(external) = external.filter(|external| external.unconfirmed) {
                self.batches.external_work_of_stray(id, token, &external.ids);
            }
            // Whoever had it while the stray held it gave it back for that.
            if let Some(batch) = self.batches.get_mut(&id) {
                batch.excluded.clear();
            }
            self.make_ready(now, id);
        }
    }

    /// Unfinished batches of these logical times. Seldom asked: it looks at all.
    fn batches_of_times(&self, times: &BTreeSet<(JobId, Timestamp)>) -> Vec<BatchId> {
        let is_of = |batch: &Batch| times.contains(&(batch.definition.id, batch.logical_time));
        let mut of: Vec<BatchId> =
            self.batches.iter().filter(|(_, batch)| is_of(batch)).map(|(id, _)| id).collect();
        // Batches come out of a hash table.
        of.sort_unstable();
        of
    }

    /// DEP-8: the strays that keep a batch from being started.
    pub(in crate::group) fn why_strays(&self, batch: &Batch) -> Vec<Condition> {
        let time = (batch.definition.id, batch.logical_time);
        let tokens = self.strays.by_time.get(&time).into_iter().flatten();
        let strays = tokens.filter_map(|token| Some((token, self.strays.by_token.get(token)?)));
        let condition = |(token, stray): (&Token, &Stray)| {
            let host = self.workers.get(&stray.worker).map_or("?", |worker| worker.host.as_str());
            let (worker, of) = (&stray.worker, stray.batch);
            let what = if stray.is_final { "the final command" } else { "an attempt" };
            let end = format!(
                "end it with `tidemill worker end-stray {worker} --attempt {token}`, or wait for its end"
            );
            let advice = match stray.is_to_end {
                true => "its end was requested".to_owned(),
                false if stray.is_final || self.never_adopted(batch).is_some() => end,
                false => format!("adopt it with `tidemill batch adopt`, {end}"),
            };
            let message = format!(
                "{what} of this logical time runs on worker {worker} ({host}) from a life of the log that is lost, as {token} of \
                 batch {of}; {advice}"
            );
            Condition::new("stray", message, Some(stray.since.max(batch.generated)))
        };
        strays.map(condition).collect()
    }
}
