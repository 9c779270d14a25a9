//! What a fact does to the state. Total: whatever the journal holds, this folds it.

use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{
    AttemptEvent, AttemptOutcome, BatchEvent, BatchId, BatchResult, Event, Incarnation, JobDefinition,
    JobEvent, JobId, Nonce, Origin, PartitionEvent, ReturnReason, RunOutcome, ScheduleEvent, ShardId,
    ShardMessage, Timestamp, Token, WorkerEvent, WorkerId,
};

use super::batches::batch::{Batch, Grant, PauseAfter, Phase, WaitsFor};
use super::dependencies::blocked::Blocker;
use super::dependencies::counted::COUNTED;
use super::external::external_dependencies::Needs;
use super::jobs::history::Newest;
use super::jobs::job::Job;
use super::placement::queue::ReadyKey;
use super::workers::lease::Told;
use super::workers::registration::MAX_WORKERS;
use super::workers::settle::SettleCause;
use super::workers::worker::{Demand, Slots, Worker};
use super::{GroupShard, Timer, Trigger};

/// How long a batch that all workers gave back is offered to none.
const REJECTION_PAUSE: SignedDuration = SignedDuration::from_secs(10);

impl GroupShard {
    /// Folds one fact, recorded at `now`.
    pub fn apply(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Replication(event) => self.apply_replication(now, event),
            Event::Transfer(event) => self.apply_transfer(now, event),
            Event::Deletion(event) => self.apply_deletion(event),
            Event::Rerun(event) => self.apply_rerun(event),
            Event::Subscription(event) => self.apply_subscription(event),
            Event::Job(event) => self.apply_job(event),
            Event::Batch(event) => self.apply_batch(now, event),
            Event::Schedule(event) => self.apply_schedule(now, event),
            Event::Task(event) => self.apply_task(now, event),
            Event::Permit(event) => self.apply_permit(now, event),
            Event::Attempt(event) => self.apply_attempt(now, event),
            Event::FinalCommand(event) => self.apply_final_command(event),
            Event::Partition(event) => self.apply_partition(event),
            Event::Worker(event) => self.apply_worker(now, event),
            Event::Observation(event) => self.apply_observation(now, event),
            Event::Alarm(event) => self.apply_alarm(event),
            Event::Catalogue(_) | Event::Apply(_) | Event::Bulk(_) => {}
        }
    }

    fn apply_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Submitted { definition } => self.job_submitted(definition),
            // What the catalogue decides.
            JobEvent::Defined { .. }
            | JobEvent::Enabled { .. }
            | JobEvent::Disabled { .. }
            | JobEvent::Deleted { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::Moved { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::Cancelled { .. } => {}
        }
    }

    fn apply_batch(&mut self, now: Timestamp, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { job, logical_time, origin, .. } => {
                let before = self.skips_before(*job);
                let came = !matches!(origin, Origin::Schedule | Origin::Parent)
                    && self.jobs.get(job).is_some_and(|job| !job.has_batch_for(*logical_time));
                self.batch_generated(now, event);
                self.skips_changed(*job, before);
                if came {
                    self.time_came(*job, *logical_time);
                }
            }
            BatchEvent::DependencySatisfied { batch, parent, logical_time, .. } => {
                self.dependency_changed(now, *batch, *parent, *logical_time, true);
            }
            BatchEvent::DependencyRevoked { batch, parent, logical_time, .. } => {
                self.dependency_changed(now, *batch, *parent, *logical_time, false);
            }
            BatchEvent::Assigned { batch, token, worker, start_by, .. } => {
                self.batch_assigned(now, *batch, *token, worker, *start_by);
            }
            BatchEvent::AssignmentReturned { batch, token, worker, reason } => {
                self.release(*token);
                self.assignment_returned(now, *batch, worker, reason);
            }
            BatchEvent::RetryScheduled { batch, at, .. } => {
                if let Some(known) = self.batches.get_mut(batch) {
                    known.phase = Phase::Pausing { until: *at, after: PauseAfter::Attempt };
                    known.since = now;
                    self.timers.insert((*at, Timer::Retry(*batch)));
                }
                self.reconsider(*batch);
            }
            BatchEvent::RetryDue { batch } => self.retry_due(now, *batch),
            BatchEvent::StartDue { batch } => self.start_due(now, *batch),
            BatchEvent::Finished { batch, result, final_command, .. } => {
                self.batch_finished(now, *batch, (*result, *final_command));
            }
            BatchEvent::ResultOverridden { .. } => self.batch_result_overridden(event),
            BatchEvent::Blocked { batch, parent, logical_time, since } => {
                let (parent, logical_time, since) = (*parent, *logical_time, *since);
                self.blocker_changed(*batch, Some(Blocker { parent, logical_time, since }));
            }
            BatchEvent::Unblocked { batch } => self.blocker_changed(*batch, None),
            BatchEvent::TimeoutReached { batch, kind, .. } => self.timeout_reached(*batch, *kind),
            BatchEvent::DependencyOverridden { .. } => self.dependency_overridden(now, event),
            BatchEvent::QualityRequested { batch, number, again_at } => {
                self.quality_requested(now, *batch, *number, *again_at);
            }
            BatchEvent::QualitySent { batch, by, .. } => self.quality_sent(*batch, by),
            BatchEvent::QualityAnswered { batch, allowed, reason, .. } => {
                self.quality_answered(now, *batch, *allowed, reason);
            }
        }
    }

    fn apply_attempt(&mut self, now: Timestamp, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, worker, incarnation, nonce } => {
                self.start_granted(now, *batch, *token, worker, incarnation, nonce);
            }
            AttemptEvent::Started { batch, .. } => {
                if let Some(Phase::Granted(grant)) = self.batches.get_mut(batch).map(|b| &mut b.phase) {
                    grant.started = true;
                }
            }
            AttemptEvent::UserCodeReported { batch, code, .. } => self.user_code_reported(*batch, *code),
            AttemptEvent::Finished { batch, token, attempt, outcome, .. } => {
                self.attempt_finished(now, *batch, *token, *attempt, outcome);
            }
            AttemptEvent::KillRequested { batch, by, .. } => {
                self.cancelling.remove(batch);
                if let Some(Phase::Granted(grant)) = self.batches.get_mut(batch).map(|b| &mut b.phase) {
                    grant.kill = Some(by.clone());
                }
            }
        }
    }

    fn apply_schedule(&mut self, now: Timestamp, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Skipped { job: id, to, next, .. } => {
                let (job, before) = (id, self.skips_before(*id));
                self.set_next(*job, *next);
                if let Some(job) = self.jobs.get_mut(job) {
                    job.catching_up = false;
                    job.pass(*to);
                }
                self.skips_changed(*id, before);
            }
            ScheduleEvent::Rescheduled { job, next } => {
                let before = self.skips_before(*job);
                self.apply_fire_moved(*job, *next);
                self.skips_changed(*job, before);
            }
            ScheduleEvent::GenerationFailed { job, failures, retry_at, .. } => {
                self.apply_generation_failed(now, *job, *failures, *retry_at);
            }
        }
    }

    fn apply_partition(&mut self, event: &PartitionEvent) {
        match event {
            PartitionEvent::HistoryEvicted { job, upto } => self.history_evicted(*job, *upto),
            PartitionEvent::MessageReceived { from, number } => self.mailbox.receive(*from, *number),
            PartitionEvent::OutboxAcknowledged { to, upto } => {
                self.mailbox.acknowledge(*to, *upto);
                self.say(*to);
                self.tell_shard(*to);
            }
            PartitionEvent::TimerSuspended { entity, .. } => {
                self.suspended.insert(entity.clone());
                self.timers.retain(|(_, timer)| timer.entity() != *entity);
            }
            // What concerns no shard.
            PartitionEvent::CommandDeadLettered { .. }
            | PartitionEvent::ClockSet { .. }
            | PartitionEvent::CommandLossAccepted { .. } => {}
        }
    }

    pub(super) fn worker_registered(&mut self, now: Timestamp, event: &WorkerEvent) {
        let WorkerEvent::Registered { worker, incarnation, host, address, slots, labels, settings, reserved } =
            event
        else {
            return;
        };
        let settings = settings.clone().unwrap_or_else(|| self.settings());
        let old = self.workers.get(worker);
        let is_new = old.is_none();
        let same_life = old.is_some_and(|old| old.incarnation == *incarnation);
        let tokens = old.map(|old| old.tokens.clone()).unwrap_or_default();
        let drained = old.is_some_and(|old| old.drained);
        let told = match old.map(|old| old.told.clone()) {
            Some(told) if same_life => told.again(settings),
            Some(told) if !tokens.is_empty() => told.reborn(settings),
            Some(_) | None => Told::new(settings),
        };
        let slots_of = |kind, max| Slots::new(max, reserved.get(kind).copied());
        let mut slots: std::collections::BTreeMap<_, _> =
            slots.iter().map(|(kind, max)| (kind.clone(), slots_of(kind, *max))).collect();
        let mut reserved_mb = 0_u32;
        for batch in tokens.iter().filter_map(|token| self.batches.get(self.tokens.get(token)?)) {
            let demand = Demand::of(&batch.definition);
            reserved_mb = reserved_mb.saturating_add(demand.memory_mb);
            if let Some(slot) = slots.get_mut(demand.job_type) {
                slot.count(&demand, true);
            }
        }
        for demand in tokens.iter().filter_map(|token| self.finals.demand(*token)) {
            if let Some(slot) = slots.get_mut(demand.job_type) {
                slot.count(&demand, true);
            }
        }
        let machine = old.and_then(|old| old.machine);
        let unready = old.filter(|_| same_life).and_then(|old| old.unready.clone());
        let expired = same_life && old.is_some_and(|old| old.expired);
        let turned = old.map(|old| old.turned).unwrap_or_default();
        if is_new && self.workers.len() >= MAX_WORKERS {
            self.workers.forget_expired();
        }
        let known = Worker {
            incarnation: incarnation.clone(),
            host: host.clone(),
            address: address.clone(),
            slots,
            labels: labels.clone(),
            drained,
            unready,
            lost: false,
            expired,
            turned,
            tokens,
            told,
            reserved_mb,
            machine,
        };
        self.workers.insert(worker.clone(), known);
        self.workers.turn(now, worker, |_| {});
        let dead = self.unsettled.get(worker).is_some_and(|left| left.because == SettleCause::Expired);
        match (same_life, dead) {
            // What its dead life had is ended whoever the worker is now.
            (_, true) => {}
            // A repeat says nothing new of what an earlier life had.
            (true, false) => self.keep_what_was_lost(worker),
            (false, false) => self.unsettle(worker, SettleCause::Restarted),
        }
    }

    pub(super) fn job_replicated(
        &mut self,
        now: Timestamp,
        definition: &Arc<JobDefinition>,
        enabled: bool,
        next: Option<tidemill_model::Fire>,
    ) {
        let id = definition.id;
        let mut job = Job::new(Arc::clone(definition), enabled, false);
        let mut before: Vec<JobId> = Vec::new();
        let mut old_definition = None;
        job.schedule = self.calendars.timetable(definition);
        job.pass(now);
        self.calendars.settled(id);
        if let Some(old) = self.jobs.remove(&id) {
            before.extend(old.parents());
            self.leave_parents(&old);
            old_definition = Some(Arc::clone(&old.definition));
            let old = *old;
            job.skipped_before_off = old.skips_when_off();
            job.former_names = old.former_names;
            job.former_names.note(&old.definition.full_name(), &definition.full_name());
            job.next = old.next;
            job.failed = old.failed;
            if let Some(passed) = old.passed.filter(|_| old.next == next) {
                job.pass(passed);
            }
            job.catching_up = old.catching_up;
            job.children = old.children;
            job.history = old.history;
            job.evicted = old.evicted;
            job.limit = old.limit;
            job.disabled_since = old.disabled_since;
        } else {
            job.children = self.orphans.remove(&id).unwrap_or_default();
        }
        job.switch(enabled, now);
        self.jobs.insert(id, Box::new(job));
        let parents: Vec<JobId> = self.jobs[&id].parents().collect();
        for parent in parents {
            if let Some(parent) = self.jobs.get_mut(&parent) {
                parent.children.insert(id);
            } else if let Some(parent) = self.foreign.get_mut(parent) {
                parent.join(id);
            } else {
                self.orphans.entry(parent).or_default().insert(id);
            }
            self.names_deleted(id, parent);
            before.push(parent);
        }
        for parent in before {
            self.follow_foreign(parent);
        }
        if let Some(old) = old_definition {
            self.adopted(id, &old);
        }
        self.set_next(id, next);
        self.prune_triggers();
        self.demote(id);
        self.promote(id);
    }

    pub(crate) fn job_dropped(&mut self, now: Timestamp, id: JobId) {
        // What it skipped until now goes by the fire that was to come.
        if let Some(job) = self.jobs.get_mut(&id) {
            job.switch(false, now);
            job.removed = true;
        }
        self.set_next(id, None);
        self.calendars.settled(id);
        self.forget_late_of(id);
        let parents: Vec<JobId> = self.jobs.get(&id).into_iter().flat_map(|job| job.parents()).collect();
        self.promote(id);
        self.forget_removed(id);
        for parent in parents {
            self.follow_foreign(parent);
        }
        self.prune_triggers();
    }

    /// A removed job leaves the state when nothing unfinished is of it or waits for it.
    pub(crate) fn forget_removed(&mut self, id: JobId) {
        let removed = self.jobs.get(&id).is_some_and(|job| job.removed && !self.is_needed(id, job));
        if let Some(job) = removed.then(|| self.jobs.remove(&id)).flatten() {
            self.leave_parents(&job);
            for parent in job.parents() {
                self.follow_foreign(parent);
            }
            if !job.children.is_empty() {
                self.orphans.insert(id, job.children);
            }
            self.adopted(id, &job.definition);
        }
    }

    fn is_needed(&self, id: JobId, job: &Job) -> bool {
        self.is_waited_for(id) || job.unfinished().next().is_some() || job.removed && job.is_named
    }

    /// Whether a batch waits for one of the job, here or in another group, or a job of another group names it.
    pub(crate) fn is_waited_for(&self, id: JobId) -> bool {
        self.waits_for_any_of(id) || self.first_waiters.contains_key(&id) || self.followers.concern(id)
    }

    /// Whether a batch of this shard waits for a time of the job.
    pub(crate) fn waits_for_any_of(&self, id: JobId) -> bool {
        let mut listed = self.waiters.range((id, Timestamp::MIN)..=(id, Timestamp::MAX));
        listed.next().is_some() || self.is_counted(id)
    }

    fn leave_parents(&mut self, job: &Job) {
        let id = job.definition.id;
        for parent in job.parents() {
            if let Some(parent) = self.jobs.get_mut(&parent) {
                parent.children.remove(&id);
            } else if let Some(parent) = self.foreign.get_mut(parent) {
                parent.children.remove(&id);
            } else if let Some(orphans) = self.orphans.get_mut(&parent) {
                orphans.remove(&id);
                if orphans.is_empty() {
                    self.orphans.remove(&parent);
                }
            }
        }
    }

    fn job_submitted(&mut self, definition: &Arc<JobDefinition>) {
        self.jobs_minted += 1;
        self.jobs.insert(definition.id, Box::new(Job::new(Arc::clone(definition), true, true)));
    }

    pub(crate) fn set_next(&mut self, id: JobId, next: Option<tidemill_model::Fire>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Some(old) = job.fires_at() {
            self.timers.remove(&(old, Timer::Fire(id)));
        }
        job.failed = None;
        job.next = next;
        if let Some(next) = next {
            self.suspended.remove(&Timer::Fire(id).entity());
            self.timers.insert((next.at, Timer::Fire(id)));
        }
    }

    fn batch_generated(&mut self, now: Timestamp, event: &BatchEvent) {
        let BatchEvent::Generated {
            batch: id,
            job: job_id,
            logical_time,
            run,
            origin,
            version,
            dependencies,
            counted_parents,
            external_dependencies,
            quality_gate,
            earliest_start,
            parameters,
            next,
            base,
            rerun,
            ..
        } = event
        else {
            return;
        };
        self.batches_minted += 1;
        self.forget_late(*job_id, *logical_time);
        self.first_batch(*job_id, *logical_time);
        let Some(job) = self.jobs.get_mut(job_id) else { return };
        let submitted = job.submitted;
        let parameters = (!parameters.is_empty()).then(|| Arc::new(parameters.clone()));
        let fired = job
            .next
            .filter(|next| *origin == tidemill_model::Origin::Schedule && next.logical_time == *logical_time);
        let fired = fired.map(|fire| fire.at).or(*base);
        let base = fired.unwrap_or(now);
        let definition = Arc::clone(job.definition_of(*version, *logical_time));
        let newest = Newest {
            run: *run,
            batch: *id,
            result: None,
            parameters: parameters.clone(),
            values: None,
            definition: Arc::clone(&definition),
        };
        let is_newest = job.history.get(*logical_time).is_none_or(|old| old.run < *run);
        if is_newest {
            job.history.insert(*logical_time, newest);
        }
        let listed = dependencies.iter().map(|dependency| dependency.parent);
        let counted = self.counted_parents(&definition, *logical_time, counted_parents.as_ref(), listed);
        let batch = Batch {
            definition,
            logical_time: *logical_time,
            run: *run,
            origin: *origin,
            parameters,
            dependencies: dependencies.iter().cloned().map(WaitsFor::new).collect(),
            counted,
            attempts: 0,
            excluded: Vec::new(),
            generated: now,
            since: now,
            phase: Phase::Waiting,
            deadlines: None,
            needs: None,
        };
        if *origin == tidemill_model::Origin::Schedule
            && let Some(job) = self.jobs.get_mut(job_id)
        {
            job.catching_up = next.is_some_and(|next| next.at <= now);
            job.pass(*logical_time);
            self.set_next(*job_id, *next);
        }
        for (index, dependency) in batch.dependencies.iter().enumerate() {
            for time in &dependency.declared.times {
                let key = (dependency.declared.parent, *time);
                self.waiters.entry(key).or_default().insert((*id, index as u16));
                if !self.foreign.is_empty() {
                    self.wait_for_foreign(key.0, key.1);
                }
            }
            if submitted && dependency.is_open() {
                let waiters = self.first_waiters.entry(dependency.declared.parent).or_default();
                waiters.insert((*id, index as u16));
            }
        }
        let triggered_by = match origin {
            tidemill_model::Origin::Parent => batch.definition.parents.iter().map(|p| p.job).collect(),
            _ => Vec::new(),
        };
        let mut batch = batch;
        if !external_dependencies.is_empty() || *quality_gate {
            let gate = quality_gate.then(Default::default);
            let external_dependencies = self.join_external_dependencies(*id, external_dependencies);
            batch.needs = Some(Box::new(Needs { external_dependencies, gate, ..Needs::default() }));
        }
        if batch.counted.is_some() {
            self.join_counted(*id, *logical_time);
        }
        self.batches.insert(*id, batch);
        self.say_of(dependencies);
        self.watch(*id, base);
        self.hold_until(*id, *earliest_start, now);
        self.make_ready(now, *id);
        self.reconsider(*id);
        if is_newest {
            self.newest_changed(*job_id, *logical_time);
        }
        self.advance_triggers(&triggered_by, *job_id, *logical_time);
        if let Some(place) = rerun {
            // Its plan says what is run after it, here and in other groups.
            self.reruns.insert(*id, *place);
            return;
        }
        self.tell_followers(*job_id, *logical_time);
        let trigger = Trigger { base: fired, parent: *job_id, logical_time: *logical_time, after: None };
        if self.next_child(&trigger).is_some() {
            self.triggers.push_back(trigger);
        }
    }

    /// Ad-hoc jobs that waited for any batch of `parent` wait for this one from now on.
    fn first_batch(&mut self, parent: JobId, time: Timestamp) {
        for (id, index) in self.first_waiters.remove(&parent).unwrap_or_default() {
            let batch = self.batches.get_mut(&id);
            let dependency = batch.and_then(|batch| batch.dependencies.get_mut(usize::from(index)));
            if let Some(dependency) = dependency.filter(|dependency| dependency.is_open()) {
                dependency.wait_for(time);
                self.waiters.entry((parent, time)).or_default().insert((id, index));
            }
        }
    }

    /// After `child` was generated for `time`: the triggers of its parents for that time go on behind it.
    fn advance_triggers(&mut self, parents: &[JobId], child: JobId, time: Timestamp) {
        if let Some(front) = self.triggers.front_mut()
            && front.logical_time == time
            && parents.contains(&front.parent)
        {
            front.after = Some(child);
        }
        self.drop_spent_trigger();
    }

    fn drop_spent_trigger(&mut self) {
        while let Some(front) = self.triggers.front()
            && self.next_child(front).is_none()
        {
            self.triggers.pop_front();
        }
    }

    pub(super) fn prune_triggers(&mut self) {
        let triggers = std::mem::take(&mut self.triggers);
        self.triggers = triggers.into_iter().filter(|trigger| self.next_child(trigger).is_some()).collect();
    }

    fn dependency_changed(&mut self, now: Timestamp, id: BatchId, parent: JobId, time: Timestamp, met: bool) {
        let mut told = None;
        if let Some(batch) = self.batches.get_mut(&id) {
            for (index, dependency) in batch.dependencies.iter_mut().enumerate() {
                if dependency.declared.parent != parent {
                    continue;
                }
                if let Some(position) = dependency.position(time) {
                    dependency.met[position] = met;
                    told = Some((id, index as u16));
                }
            }
            batch.note_withdrawn(now, (parent, time), met);
        }
        if self.counted_changed(id, parent, time, met) {
            told = Some((id, COUNTED));
        }
        if met {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
        }
        self.reconsider_rule(id);
        let may_block = !met && self.may_block(parent, time);
        self.look_for_block_by(id, may_block);
        let key = (parent, time);
        if let Some(last) = self.changed.get_mut(&key) {
            *last = told;
            if self.next_untold(parent, time, told).is_none() {
                self.changed.remove(&key);
            }
        }
    }

    /// The newest run of (job, time) is another one, or ended: whoever waits for it must be told.
    pub(crate) fn newest_changed(&mut self, job: JobId, time: Timestamp) {
        self.note_lost(job, time);
        self.tell_watchers(job, time);
        if self.next_untold(job, time, None).is_some() {
            self.changed.insert((job, time), None);
        } else {
            self.changed.remove(&(job, time));
        }
        self.reconsider_waiters(job, time);
    }

    /// Puts a batch whose own conditions are all met into the queue, or parks it behind its job's limit.
    pub(crate) fn make_ready(&mut self, now: Timestamp, id: BatchId) {
        let Some(batch) = self.batches.get(&id) else { return };
        let unmet = batch.unmet() > u32::from(planted!(DependencyForgotten));
        if batch.phase != Phase::Waiting || unmet || !batch.has_its_external_dependencies() {
            return;
        }
        if self.lacks_a_failure(batch) {
            return;
        }
        if batch.gate().is_some_and(|gate| !gate.is_open()) {
            return self.request_quality_check(id);
        }
        if self.holds_back(id, batch) {
            return;
        }
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let key = ReadyKey::new(now, batch.definition.spec.priority, id);
        batch.phase = Phase::Ready { key };
        batch.since = now;
        let waits_while_disabled = batch.origin.waits_while_disabled();
        let definition = Arc::clone(&batch.definition);
        let Some(job) = self.jobs.get_mut(&definition.id) else {
            self.queue.insert(&definition, key);
            return;
        };
        let has_room = match planted!(LimitCheckedBeforeApply) {
            true => job.limit.active < job.definition.spec.max_concurrent,
            false => job.has_room(),
        };
        let is_kept = job.is_off() && waits_while_disabled;
        if has_room && !is_kept && !job.limit.has_parked() {
            job.limit.queued += 1;
            self.queue.insert(&definition, key);
        } else {
            job.limit.park(key, waits_while_disabled);
            self.promote(definition.id);
        }
    }

    pub(crate) fn make_unready(&mut self, now: Timestamp, id: BatchId) {
        self.quality.not_due(id);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let Phase::Ready { key } = batch.phase else { return };
        if batch.may_run() {
            return;
        }
        batch.phase = Phase::Waiting;
        batch.since = now;
        let definition = Arc::clone(&batch.definition);
        self.unqueue(&definition, key);
    }

    /// Takes a ready batch out of the queue or out of its job's parking.
    pub(crate) fn unqueue(&mut self, definition: &JobDefinition, key: ReadyKey) {
        let was_queued = self.queue.remove(definition, key);
        self.left_queue(definition, key, was_queued);
    }

    fn left_queue(&mut self, definition: &JobDefinition, key: ReadyKey, was_queued: bool) {
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            if was_queued {
                job.limit.queued = job.limit.queued.saturating_sub(1);
            } else {
                job.limit.unpark(key);
            }
        }
        self.promote(definition.id);
    }

    /// A lowered maximum takes the last of the queue out again, and a job switched off all that waits while it is.
    pub(super) fn demote(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let is_above = job.limit.active + job.limit.queued > job.definition.spec.max_concurrent;
        if job.limit.queued == 0 || !(is_above || job.is_off()) {
            return;
        }
        let of_job = |key: &ReadyKey| self.batches.get(&key.batch).is_some_and(|b| b.definition.id == id);
        let mut queued: Vec<ReadyKey> = self.queue.keys().filter(of_job).collect();
        queued.sort();
        for key in queued.into_iter().rev() {
            let Some(batch) = self.batches.get(&key.batch) else { continue };
            let waits_while_disabled = batch.origin.waits_while_disabled();
            let is_above = job.limit.active + job.limit.queued > job.definition.spec.max_concurrent;
            if is_above || (job.is_off() && waits_while_disabled) {
                self.queue.remove(&batch.definition, key);
                job.limit.queued -= 1;
                job.limit.park(key, waits_while_disabled);
            }
        }
    }

    /// Moves parked batches into the queue while the job's limit has room.
    pub(crate) fn promote(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        while job.has_room() {
            let Some(key) = job.take_parked() else { return };
            let definition = self.batches.get(&key.batch).map(|batch| &batch.definition);
            self.queue.insert(definition.unwrap_or(&job.definition), key);
            job.limit.queued += 1;
        }
    }

    fn batch_assigned(
        &mut self,
        now: Timestamp,
        id: BatchId,
        token: Token,
        worker: &WorkerId,
        start_by: Timestamp,
    ) {
        self.tokens_minted += 1;
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let definition = Arc::clone(&batch.definition);
        let before =
            std::mem::replace(&mut batch.phase, Phase::Assigned { token, worker: worker.clone(), start_by });
        batch.since = now;
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            job.limit.active += 1;
        }
        if let Phase::Ready { key } = before {
            let was_queued = self.queue.start(&definition, key);
            self.left_queue(&definition, key, was_queued);
        }
        self.tokens.insert(token, id);
        self.workers.count(worker, &Demand::of(&definition), token, true);
        self.pools.take(token, id, &definition.spec.pools, now);
        self.timers.insert((start_by, Timer::StartBy(token)));
        self.watch_assigned(id);
    }

    /// The token is nobody's any more: its slot and its place in the limit are free.
    fn release(&mut self, token: Token) {
        let Some(id) = self.tokens.remove(&token) else { return };
        planted!(LateFinishAccepted => tidemill_planted::note(token.0, id.0));
        self.unwatch_duration(id);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let definition = Arc::clone(&batch.definition);
        let phase = std::mem::replace(&mut batch.phase, Phase::Waiting);
        let worker = match phase {
            Phase::Assigned { worker, start_by, .. } => {
                self.timers.remove(&(start_by, Timer::StartBy(token)));
                worker
            }
            Phase::Granted(grant) => grant.worker,
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => return,
        };
        self.workers.count(&worker, &Demand::of(&definition), token, false);
        self.pools.give_back(token);
        if !self.unsettled.is_empty() {
            self.go_on_settling(&worker);
        }
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            job.limit.active = job.limit.active.saturating_sub(1);
        }
        self.promote(definition.id);
    }

    /// Another worker gets it. If one gives it back that had it before, all have had it: it pauses, so that
    /// unwilling workers do not pass it round for ever.
    fn assignment_returned(&mut self, now: Timestamp, id: BatchId, worker: &WorkerId, reason: &ReturnReason) {
        self.watch_returned(id);
        self.returned(now, id, worker, reason);
        self.reconsider(id);
    }

    fn returned(&mut self, now: Timestamp, id: BatchId, worker: &WorkerId, reason: &ReturnReason) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        batch.phase = Phase::Waiting;
        batch.since = now;
        if !batch.may_run() {
            return self.make_ready(now, id);
        }
        let again = batch.excluded.contains(worker);
        if !again {
            batch.excluded.push(worker.clone());
        }
        if again && matches!(reason, ReturnReason::Rejected(_)) {
            let until = now.saturating_add(REJECTION_PAUSE).unwrap_or(Timestamp::MAX);
            batch.phase = Phase::Pausing { until, after: PauseAfter::Rejection };
            self.timers.insert((until, Timer::Retry(id)));
        } else {
            self.make_ready(now, id);
        }
    }

    fn start_granted(
        &mut self,
        now: Timestamp,
        id: BatchId,
        token: Token,
        worker: &WorkerId,
        incarnation: &Incarnation,
        nonce: &Nonce,
    ) {
        let values = self.batches.get(&id).and_then(|batch| self.values_for(batch).ok());
        let values = values.filter(|values| !values.is_empty()).map(Arc::new);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Phase::Assigned { start_by, .. } = batch.phase {
            self.timers.remove(&(start_by, Timer::StartBy(token)));
        }
        batch.since = now;
        if let Some(deadlines) = &mut batch.deadlines {
            deadlines.started();
        }
        batch.phase = Phase::Granted(Grant {
            token,
            worker: worker.clone(),
            incarnation: incarnation.clone(),
            nonce: nonce.clone(),
            started: false,
            zero: false,
            codes: 0,
            code: None,
            kill: None,
            values,
        });
        self.watch_duration(id);
    }

    /// The slot is free again; what follows (retry or result) is the next event's to say.
    fn attempt_finished(
        &mut self,
        now: Timestamp,
        id: BatchId,
        token: Token,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) {
        if let Some(batch) = self.batches.get(&id) {
            self.finals.note(id, batch, outcome);
        }
        self.values_passed(id, outcome);
        self.release(token);
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.attempts = attempt;
            batch.since = now;
        }
    }

    fn retry_due(&mut self, now: Timestamp, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Phase::Pausing { until, .. } = batch.phase {
            self.timers.remove(&(until, Timer::Retry(id)));
            batch.phase = Phase::Waiting;
            batch.since = now;
        }
        self.make_ready(now, id);
    }

    fn batch_finished(&mut self, now: Timestamp, id: BatchId, end: (BatchResult, bool)) {
        let (result, _) = end;
        self.cancelling.remove(&id);
        self.marks.remove(&id);
        self.concluding.remove(&id);
        self.blocked.forget(id);
        self.forget_early(id);
        let Some(batch) = self.batches.get(&id) else { return };
        if let Some((token, _)) = batch.holder() {
            self.release(token);
        }
        self.unwatch(id, result);
        self.settle_gate(id);
        let Some(batch) = self.batches.remove(&id) else { return };
        match batch.phase {
            Phase::Ready { key } => self.unqueue(&batch.definition, key),
            Phase::Pausing { until, .. } => {
                self.timers.remove(&(until, Timer::Retry(id)));
            }
            Phase::Waiting | Phase::Assigned { .. } | Phase::Granted(_) => {}
        }
        self.leave_external_dependencies(id, &batch);
        for (index, dependency) in batch.dependencies.iter().enumerate() {
            let parent = dependency.declared.parent;
            if let Some(waiters) = self.first_waiters.get_mut(&parent).filter(|_| dependency.is_open()) {
                waiters.remove(&(id, index as u16));
                if waiters.is_empty() {
                    self.first_waiters.remove(&parent);
                }
            }
            for time in &dependency.declared.times {
                let key = (parent, *time);
                if let Some(waiters) = self.waiters.get_mut(&key) {
                    waiters.remove(&(id, index as u16));
                    if waiters.is_empty() {
                        self.waiters.remove(&key);
                        self.let_go_of_foreign(key.0, key.1);
                    }
                }
                if self.changed.contains_key(&key) {
                    self.newest_changed(key.0, key.1);
                }
            }
        }
        self.leave_counted(id, &batch);
        self.say_of(batch.dependencies.iter().map(|waits_for| &waits_for.declared));
        self.final_called(id, &batch, end, now);
        self.finished.insert(id, result);
        if let Some(place) = self.reruns.remove(&id) {
            let end = RunOutcome::Finished { batch: id, result };
            self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportRunFinished { place, end });
        }
        let Some(job) = self.jobs.get_mut(&batch.definition.id) else { return };
        if let Some(newest) = job.history.get_mut(batch.logical_time)
            && newest.batch == id
        {
            newest.result = Some(result);
        }
        if job.submitted {
            self.submissions.push_back(batch.definition.id);
        }
        let id = batch.definition.id;
        self.newest_changed(id, batch.logical_time);
        let counted: Vec<JobId> = batch.counted.iter().flat_map(|counted| counted.parents()).collect();
        let listed = batch.dependencies.iter().map(|d| d.declared.parent);
        for parent in [id].into_iter().chain(listed).chain(counted) {
            if self.jobs.get(&parent).is_some_and(|job| job.removed) {
                self.forget_removed(parent);
            }
            self.forget_deleted_parent(parent);
        }
        self.forget_submissions(now);
    }

    /// Ad-hoc jobs leave the state in the order in which they ended, once there are too many.
    fn forget_submissions(&mut self, now: Timestamp) {
        while self.submissions.len() > self.remembered_submissions {
            let Some(oldest) = self.submissions.pop_front() else { return };
            if self.jobs.get(&oldest).is_some_and(|job| self.is_needed(oldest, job)) {
                self.submissions.push_back(oldest);
                return;
            }
            self.job_dropped(now, oldest);
        }
    }

    fn history_evicted(&mut self, id: JobId, upto: Timestamp) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        for (time, newest) in job.history.take_upto(upto) {
            job.evicted.add(time, &newest);
        }
        self.drop_spent_trigger();
    }
}
