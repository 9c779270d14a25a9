//! A batch is given to a worker, neither beyond the latest allowed logical time nor before its earliest start. The worker's
//! memory and reserved slots are counted a second time.

use jiff::SignedDuration;
use tidemill_model::{
    Account, BatchId, Freeze, FreezeScope, JobDefinition, JobId, Measure, Reserved, Timestamp, Token,
    WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Batch, Phase};
use super::job::{Job, Version};
use super::rights::HeldRight;
use super::worker::Worker;
use crate::{At, Invariant};

/// An assignment as its event says it.
pub(super) struct Wanted<'a> {
    pub(super) attempt: u32,
    pub(super) token: Token,
    pub(super) worker: &'a WorkerId,
    pub(super) start_by: Timestamp,
    pub(super) right: Option<Box<HeldRight>>,
}

impl Shard {
    pub(super) fn assigned(&mut self, at: &At<'_>, id: BatchId, wanted: &Wanted<'_>) {
        self.minted_ids_grow(at, "token", (wanted.token.0, wanted.token.shard()));
        if !self.may_be_assigned(at, id, wanted) {
            return;
        }
        self.assigned_only_when_conditions_held(at, id, wanted.worker);
        self.may_begin(at, id, "assigned");
        self.no_stray_holds(at, id, "assigned");
        self.has_a_failure(at, id, "assigned");
        self.attempt_numbers_without_gaps(at, id, wanted.attempt);
        if let Some(right) = &wanted.right {
            self.right_may_be_given(at, id, wanted.worker, right);
            self.never_two_live_attempts(at, id);
        }
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let incarnation = self.workers.get(wanted.worker).map(|worker| worker.incarnation.clone());
        batch.phase = Phase::Assigned(Assignment {
            token: wanted.token,
            worker: wanted.worker.clone(),
            incarnation,
            attempt: wanted.attempt,
            start_by: wanted.start_by,
            right: wanted.right.clone(),
            said: at.offset,
        });
        let job = batch.job;
        self.occupy(id, 1);
        self.running_never_above_limit(at, (id, job), wanted.worker);
        self.resources_never_oversold(at, id, wanted.worker);
        self.pools_never_above_limit(at, id);
    }

    fn may_be_assigned(&self, at: &At<'_>, id: BatchId, wanted: &Wanted<'_>) -> bool {
        let Some(batch) = self.batches.get(&id) else { return false };
        if let Some(kill) = batch.kill {
            let why = format!("batch {id} was to be ended, and is assigned");
            at.contradicts(Invariant::KilledStaysKilled, why, &[kill]);
            return false;
        }
        match &batch.phase {
            Phase::Waiting => true,
            Phase::Granted { to, .. } => {
                let why = format!("batch {id} is assigned while its attempt {} lives", to.attempt);
                at.contradicts(Invariant::NeverTwoLiveAttempts, why, &[to.said]);
                false
            }
            Phase::Pausing { until } => {
                let why = format!("batch {id} is assigned at {}, in its pause until {until}", at.now);
                at.contradicts(Invariant::RetryIntervalKept, why, &[batch.said]);
                true
            }
            Phase::Assigned(_) | Phase::Ended { .. } => {
                let why = format!("batch {id} is assigned to {} while {}", wanted.worker, batch.phase.word());
                at.contradicts(Invariant::OnlyAllowedTransitions, why, &[batch.said]);
                false
            }
        }
    }

    /// `assigned_only_when_conditions_held`
    fn assigned_only_when_conditions_held(&self, at: &At<'_>, id: BatchId, worker: &WorkerId) {
        let rule = Invariant::AssignedOnlyWhenConditionsHeld;
        if let Some((why, earlier)) = self.unheld(id).or_else(|| self.missing(id)) {
            at.contradicts(rule, format!("batch {id} is assigned, though {why}"), &earlier);
        }
        let batch = self.batches.get(&id);
        if batch.is_some_and(|batch| self.account_is_forbidden(batch)) {
            at.breaks(rule, format!("batch {id} is assigned, though it may not use its account"));
        }
        let of = batch.and_then(|batch| batch.of.as_ref());
        let host = of.and_then(|of| of.spec().host.as_ref());
        let label = of.and_then(|of| of.spec().worker_label.as_ref());
        let why = match self.workers.get(worker) {
            None => "it is not registered".to_owned(),
            Some(known) if known.lost.is_some() => "it is lost".to_owned(),
            Some(known) if known.leaving => "it was told to stop and leaves".to_owned(),
            Some(known) if known.drained => "it is drained".to_owned(),
            Some(known) if self.drained_hosts.has(&known.host) => "its host is drained".to_owned(),
            Some(known) if known.overloaded => "it is overloaded".to_owned(),
            Some(known) if known.unready => "it says that it can take no work".to_owned(),
            Some(known) if label.is_some_and(|label| !known.labels.contains(label)) => {
                format!("it has not label {label:?}")
            }
            Some(known) => match host.filter(|host| **host != known.host) {
                Some(host) => format!("it is on {}, and the job is pinned to {host}", known.host),
                None => return,
            },
        };
        let earlier: Vec<u64> = self.workers.get(worker).map(|worker| worker.said).into_iter().collect();
        at.contradicts(rule, format!("batch {id} is assigned to {worker}, though {why}"), &earlier);
    }

    /// DSP-2: by what the shard knows of its group. Versions that bound no accounts to keys went by the owner.
    fn account_is_forbidden(&self, batch: &Batch) -> bool {
        let Some((definition, account)) = account_of(batch) else { return false };
        let Some(allowed) = self.settings.as_ref().and_then(|settings| settings.accounts.as_ref()) else {
            return true;
        };
        let named = |owner: &str| allowed.0.get(owner).is_some_and(|own| own.contains(account));
        match definition.run_as_by {
            Some(_) => !allowed.allow(account),
            None => !named(&definition.spec.owner) && !named("*"),
        }
    }

    /// DSP-2: what no key was found to have the account of may be refused, whoever its owner is.
    pub(super) fn may_refuse_account(&self, batch: &Batch) -> bool {
        account_of(batch).is_some_and(|(definition, _)| definition.run_as_by.is_none())
            || self.account_is_forbidden(batch)
    }

    /// `attempt_numbers_without_gaps`
    pub(super) fn attempt_numbers_without_gaps(&self, at: &At<'_>, id: BatchId, attempt: u32) {
        let Some(batch) = self.batches.get(&id) else { return };
        let rule = Invariant::AttemptNumbersWithoutGaps;
        if attempt != batch.attempts.saturating_add(1) {
            let why = format!("batch {id} gets attempt {attempt}, after {} of them", batch.attempts);
            at.contradicts(rule, why, &[batch.said]);
        } else if attempt > batch.most_attempts() {
            let why = format!("batch {id} gets attempt {attempt} of at most {}", batch.most_attempts());
            at.contradicts(rule, why, &[batch.said]);
        }
    }

    /// `running_never_above_limit`
    fn running_never_above_limit(&self, at: &At<'_>, (id, job): (BatchId, JobId), worker: &WorkerId) {
        let rule = Invariant::RunningNeverAboveLimit;
        let Some(of) = self.batches.get(&id).and_then(|batch| batch.of.as_ref()) else { return };
        let newest = self.jobs.get(&job).and_then(Job::newest);
        let limit = of.spec().max_concurrent.max(newest.map_or(0, |newest| newest.spec().max_concurrent));
        let running = self.running.get(&job).copied().unwrap_or(0);
        if running > limit {
            let why = format!("job {job} has {running} batches assigned or running, its limit is {limit}");
            at.breaks(rule, why);
        }
        let Some(known) = self.workers.get(worker) else { return };
        let slots = known.slots.get(&of.spec().job_type).copied().unwrap_or(0);
        let used = known.used.get(&of.spec().job_type).copied().unwrap_or(0);
        if used > slots {
            let why = format!(
                "worker {worker} has {used} attempts of type {:?} in {slots} slots",
                of.spec().job_type
            );
            at.contradicts(rule, why, &[known.said]);
        }
    }

    /// Counts a batch's assignment in (1) or out (-1) of the limits.
    pub(super) fn occupy(&mut self, id: BatchId, by: i32) {
        let Some(batch) = self.batches.get(&id) else { return };
        let Some(assignment) = batch.phase.assignment() else { return };
        let running = self.running.entry(batch.job).or_default();
        *running = running.saturating_add_signed(by);
        if *running == 0 {
            self.running.remove(&batch.job);
        }
        if let (Some(of), Some(worker)) = (&batch.of, self.workers.get_mut(&assignment.worker)) {
            worker.occupy(id, &of.spec().job_type, by);
        }
        if by < 0 {
            self.pools.give_back(id);
        }
    }
}

/// DSP-2: an account, and the definition that says by what right. The owner counted in records without a key.
fn account_of(batch: &Batch) -> Option<(&JobDefinition, &Account)> {
    let definition = &batch.of.as_ref()?.definition;
    Some((definition, definition.spec.run_as.as_ref()?))
}

fn memory_mb(of: &Version) -> u32 {
    of.spec().memory_mb.unwrap_or(0)
}

fn may_use(kept: &Reserved, of: &Version) -> bool {
    of.spec().host.is_some() || kept.priority.is_some_and(|least| of.spec().priority <= least)
}

impl Shard {
    fn held_by<'a>(&'a self, worker: &'a Worker) -> impl Iterator<Item = &'a Version> {
        worker.held.iter().filter_map(|id| self.batches.get(id)?.of.as_deref())
    }

    pub(super) fn measured(&mut self, id: &WorkerId, measure: Measure, overloaded: bool) {
        let Some(known) = self.workers.get(id) else { return };
        let ours: u32 = self.held_by(known).map(memory_mb).sum();
        let used = measure.memory_total_mb.saturating_sub(measure.memory_free_mb);
        let others = used.saturating_sub(ours);
        if let Some(known) = self.workers.get_mut(id) {
            known.overloaded = overloaded;
            known.memory_mb = Some(measure.memory_total_mb.saturating_sub(others));
        }
    }

    /// `resources_never_oversold`
    pub(super) fn resources_never_oversold(&self, at: &At<'_>, id: BatchId, worker: &WorkerId) {
        let rule = Invariant::ResourcesNeverOversold;
        let Some(of) = self.batches.get(&id).and_then(|batch| batch.of.as_deref()) else { return };
        let Some(known) = self.workers.get(worker) else { return };
        if memory_mb(of) > 0 {
            let reserved: u32 = self.held_by(known).map(memory_mb).sum();
            let there = known.memory_mb.unwrap_or(0);
            if reserved > there {
                let why = format!("{reserved} MiB of worker {worker} are reserved, and it has {there}");
                at.contradicts(rule, why, &[known.said]);
            }
        }
        let Some(kept) = known.reserved.get(&of.spec().job_type).filter(|kept| !may_use(kept, of)) else {
            return;
        };
        let slots = known.slots.get(&of.spec().job_type).copied().unwrap_or(0);
        let others = self
            .held_by(known)
            .filter(|held| held.spec().job_type == of.spec().job_type && !may_use(kept, held));
        let (others, most) = (others.count(), slots.saturating_sub(kept.slots) as usize);
        if others > most {
            let why = format!(
                "worker {worker} has {others} attempts of type {} in {most} slots, for the others are kept",
                of.spec().job_type
            );
            at.contradicts(rule, why, &[known.said]);
        }
    }
}

/// The latest allowed logical times that the shard knows, and the records that say so.
#[derive(Debug, Default)]
pub(super) struct Freezes {
    everything: Option<(Timestamp, u64)>,
    group: Option<(Timestamp, u64)>,
}

impl Freezes {
    pub(super) fn received(&mut self, at: &At<'_>, scope: FreezeScope, freeze: Option<&Freeze>) {
        let latest = freeze.map(|freeze| (freeze.latest, at.offset));
        match scope {
            FreezeScope::Everything => self.everything = latest,
            FreezeScope::Group => self.group = latest,
        }
    }
}

impl Shard {
    /// `nothing_assigned_beyond_the_freeze` and `earliest_start_kept`; `what` happens to the batch.
    pub(super) fn may_begin(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        for (latest, said) in [self.freezes.everything, self.freezes.group].into_iter().flatten() {
            if batch.time > latest {
                let why =
                    format!("batch {id} for {} is {what}, and the latest allowed is {latest}", batch.time);
                at.contradicts(Invariant::NothingAssignedBeyondTheFreeze, why, &[said]);
            }
        }
        if let Some(earliest) = batch.earliest.filter(|earliest| *earliest > at.now) {
            let why = format!("batch {id} is {what} at {}, and its earliest start is {earliest}", at.now);
            at.contradicts(Invariant::EarliestStartKept, why, &[batch.said]);
        }
    }

    pub(super) fn start_due(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let earliest = batch.earliest.take();
        if earliest.is_none_or(|earliest| earliest > at.now) {
            let why = format!("the start of batch {id} is said to be due, not before {earliest:?}");
            at.contradicts(Invariant::EarliestStartKept, why, &[batch.said]);
        }
    }

    /// `earliest_start_kept`: it is the one that the definition asks for, where that is known here.
    pub(super) fn earliest_is_as_declared(
        at: &At<'_>,
        id: BatchId,
        of: Option<&Version>,
        (time, given): (Timestamp, Option<Timestamp>),
    ) {
        let Some(of) = of else { return };
        let expected = match of.spec().earliest_start_minutes {
            None => None,
            Some(minutes) => {
                let base = match &of.calendar {
                    Some(calendar) => calendar.base_of(time),
                    None if of.parents.is_empty() => Some(time),
                    None => None,
                };
                let Some(base) = base else { return };
                base.checked_add(SignedDuration::from_mins(minutes.into())).ok()
            }
        };
        if expected != given {
            let why =
                format!("batch {id} gets the earliest start {given:?}, and its job asks for {expected:?}");
            at.breaks(Invariant::EarliestStartKept, why);
        }
    }
}
