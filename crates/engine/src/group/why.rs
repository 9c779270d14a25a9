//! DEP-8: every condition that keeps a batch from running, and since when.

use tidemill_model::{
    BatchId, BatchState, Condition, JobDefinition, JobId, LeftOut, LiveAnswer, LiveQuery, Mapping,
    PoolHolder, PoolName, PoolSpec, Rate, Timestamp, WaivedParent, Why, WorkerId,
};

use super::GroupShard;
use super::batches::batch::{Batch, PauseAfter, Phase, WaitsFor};
use super::dependencies::failure::Stand;
use super::placement::pools::Shut;
use super::placement::queue::Lane;
use super::workers::worker::{Demand, Turned, Worker};

/// Unmet times of one dependency that are listed one by one.
const LISTED_TIMES: usize = 50;
/// Batches with slots of a full pool that are named.
const LISTED_HOLDERS: usize = 5;
/// Batches of one answer about a pool.
const MAX_HOLDERS: usize = 1_000;

impl GroupShard {
    /// Answers a question about the present.
    pub fn answer(&self, query: &LiveQuery) -> LiveAnswer {
        match query {
            LiveQuery::PlanApply { .. } | LiveQuery::Notified { .. } => LiveAnswer::NotFound,
            LiveQuery::Mailboxes { with } => self.mailbox_state(with),
            LiveQuery::WantedExternalDependencies { after, limit } => {
                self.wanted_external_dependencies(*after, *limit)
            }
            LiveQuery::WantedQuality { after, limit } => self.wanted_quality(*after, *limit),
            LiveQuery::Why { batch } => self.why(*batch).map_or(LiveAnswer::NotFound, LiveAnswer::Why),
            LiveQuery::TaskLedger { task, before, limit } => self.pull.task_ledger(*task, *before, *limit),
            LiveQuery::User { user, at } => self.user_standing(user, *at),
            LiveQuery::Pool { name } => self.pool_holders(name),
            LiveQuery::NewestBatch { job } => {
                let Some(job) = self.jobs.get(job) else { return LiveAnswer::NotFound };
                let newest = job.history.last().map(|(_, newest)| newest);
                if newest.is_none() && job.newest_upto(Timestamp::MAX).is_some() {
                    // Another group ran it, so that its id is not known here.
                    return LiveAnswer::NotFound;
                }
                let live = newest.and_then(|newest| self.batches.get(&newest.batch));
                let state = newest.map(|_| live.map_or(BatchState::Finished, Batch::state));
                LiveAnswer::NewestBatch { batch: newest.map(|newest| newest.batch), state }
            }
        }
    }

    fn why(&self, id: BatchId) -> Option<Why> {
        let Some(batch) = self.batches.get(&id) else {
            let result = self.batches.result_of(id)?;
            let state = BatchState::Finished;
            let (conditions, left_out) = (Vec::new(), Vec::new());
            return Some(Why { batch: id, state, result: Some(result), conditions, left_out, blocked: None });
        };
        // What runs waits for nothing, even if a parent runs again meanwhile.
        let waits_for = if batch.grant().is_some() { &[][..] } else { &batch.dependencies[..] };
        let mut conditions: Vec<Condition> = waits_for
            .iter()
            .filter(|dependency| !batch.is_met(dependency, &[]))
            .flat_map(|dependency| self.unmet_times(batch, dependency))
            .collect();
        conditions.extend(self.why_no_failure(batch));
        if batch.grant().is_none() {
            conditions.extend(self.why_counted(batch));
            conditions.extend(self.external.unmet_external_dependencies(batch));
            conditions.extend(self.why_gated(batch));
        }
        conditions.extend(self.why_disabled(batch));
        conditions.extend(self.why_held_back(id, batch));
        conditions.extend(self.why_pools(id, batch));
        conditions.extend(self.unmet_phase(batch));
        let (left_out, blocked) = (self.left_out(batch), self.why_blocked(id));
        Some(Why { batch: id, state: batch.state(), result: None, conditions, left_out, blocked })
    }

    /// Parents' times that were skipped, before it runs. The own past has none: it holds what there was.
    fn left_out(&self, batch: &Batch) -> Vec<LeftOut> {
        let waits_for = self.parents_of(batch).filter(|_| batch.grant().is_none());
        let skipped = waits_for.filter(|(parent, time)| self.stand_of(*parent, *time) == Stand::Skipped);
        let left_out = skipped.take(LISTED_TIMES).map(|(job, logical_time)| {
            let name = self.name_of(job);
            let message =
                format!("leaves out {name} of {logical_time}: it skipped this time and has no batch for it");
            LeftOut { job, logical_time, message }
        });
        left_out.collect()
    }

    fn unmet_times(&self, batch: &Batch, dependency: &WaitsFor) -> Vec<Condition> {
        let parent = dependency.declared.parent;
        let name = self.name_of(parent);
        let is_for_once = self.jobs.get(&batch.definition.id).is_some_and(|job| job.submitted);
        if dependency.is_open() && is_for_once {
            let message = format!("waits for the first batch of {name}: it has no batch yet");
            return vec![Condition { job: Some(parent), ..self.condition("dependency", message, batch) }];
        }
        if dependency.declared.times.is_empty() {
            let message = format!("{name} has no logical time in this batch's period, and one must succeed");
            return vec![self.condition("dependency", message, batch)];
        }
        let times = dependency.declared.times.iter().zip(&dependency.met);
        let any = if dependency.declared.mapping == Mapping::Any { "any of: " } else { "" };
        let waits = format!("{any}waits for ");
        times
            .filter(|(time, met)| !**met && !batch.waived().contains(&waived(parent, **time)))
            .take(LISTED_TIMES)
            .map(|(time, _)| self.unmet_time(batch, &waits, parent, *time))
            .collect()
    }

    /// BYD-18: it runs only on failure, its mappings are met without one, and these may still fail.
    fn why_no_failure(&self, batch: &Batch) -> Vec<Condition> {
        if batch.phase != Phase::Waiting || batch.unmet() > 0 || !self.lacks_a_failure(batch) {
            return Vec::new();
        }
        let open =
            self.parents_of(batch).filter(|(parent, time)| self.stand_of(*parent, *time) == Stand::Open);
        let waits = "it runs only on failure, and waits for the end of ";
        open.take(LISTED_TIMES).map(|(parent, time)| self.unmet_time(batch, waits, parent, time)).collect()
    }

    /// Of very many parents at its own logical time, some that keep it back, and how many more there are.
    fn why_counted(&self, batch: &Batch) -> Vec<Condition> {
        let time = batch.logical_time;
        let unmet = Self::unmet_counted(batch).take(LISTED_TIMES);
        let mut conditions: Vec<Condition> =
            unmet.map(|parent| self.unmet_time(batch, "waits for ", parent, time)).collect();
        let unmet = batch.counted.as_ref().map_or(0, |counted| counted.unmet()) as usize;
        let more = unmet.saturating_sub(conditions.len());
        if more > 0 {
            let message = format!("waits for {more} more of its parents of {time}, {unmet} in all");
            conditions
                .push(Condition { logical_time: Some(time), ..self.condition("dependency", message, batch) });
        }
        conditions
    }

    /// What it is waiting to hear of a parent's time.
    fn unmet_time(&self, batch: &Batch, waits: &str, parent: JobId, time: Timestamp) -> Condition {
        if let Some((deleted, message)) = self.why_parent_deleted(batch, waits, parent, time) {
            let condition = self.condition("parent_deleted", message, batch);
            let since = Some(deleted.max(batch.waits_since(parent, time)));
            return Condition { since, job: Some(parent), logical_time: Some(time), ..condition };
        }
        let (name, stands) = (self.name_of(parent), self.how_parent_stands(parent, time));
        let message = format!("{waits}{name} of {time}: {stands}");
        let condition = self.condition("dependency", message, batch);
        let since = Some(batch.waits_since(parent, time));
        Condition { since, job: Some(parent), logical_time: Some(time), ..condition }
    }

    /// By what the shard of the other group said last.
    fn how_foreign_stands(&self, parent: JobId, time: tidemill_model::Timestamp) -> String {
        let Some(standing) = self.dependencies.foreign().standing(parent, time) else {
            return "its group has not answered yet".to_owned();
        };
        let Some(run) = standing.run else {
            let stands = if standing.skipped { "skipped it" } else { "has no batch yet" };
            return format!("its group last said that it {stands}");
        };
        let named = standing.batch.map_or(format!("run {run}"), |batch| format!("batch {batch} (run {run})"));
        let stands = match standing.result {
            Some(result) => result.as_str(),
            None if standing.blocked => "is blocked by a failed parent",
            None if standing.batch.is_some() => "is not finished",
            None => "did not succeed",
        };
        format!("its group last said that {named} {stands}")
    }

    pub(crate) fn how_parent_stands(&self, parent: JobId, time: tidemill_model::Timestamp) -> String {
        if self.dependencies.foreign().get(parent).is_some() {
            return self.how_foreign_stands(parent, time);
        }
        let job = self.jobs.get(&parent);
        let Some(newest) = job.and_then(|job| job.newest_run(time)) else {
            let stands = match job.is_some_and(|job| job.is_off()) {
                _ if self.is_skipped(parent, time) => "it skipped this time",
                true => "it is disabled and has no batch yet",
                false => "it has no batch yet",
            };
            return stands.to_owned();
        };
        let number = newest.number;
        let named =
            newest.batch.map_or(format!("run {number}"), |batch| format!("batch {batch} (run {number})"));
        match newest.result {
            Some(result) => format!("{named} {}", result.as_str()),
            None => {
                let live = newest.batch.and_then(|batch| self.batches.get(&batch));
                format!("{named} is {}", live.map_or(BatchState::Finished, Batch::state).as_str())
            }
        }
    }

    /// DSP-1: of a disabled job, only what people asked for by name is assigned.
    fn why_disabled(&self, batch: &Batch) -> Option<Condition> {
        let job = self.jobs.get(&batch.definition.id).filter(|job| job.is_off())?;
        if !batch.origin.waits_while_disabled() {
            return None;
        }
        let since = job.disabled_since.filter(|_| batch.holder().is_none())?.max(batch.generated);
        let message = format!("job {} is disabled; enable it to let this go on", job.definition.full_name());
        Some(Condition { since: Some(since), ..self.condition("disabled", message, batch) })
    }

    fn unmet_phase(&self, batch: &Batch) -> Option<Condition> {
        match &batch.phase {
            Phase::Waiting => None,
            Phase::Pausing { until, after } => {
                let message = match after {
                    PauseAfter::Attempt => {
                        format!("attempt {} failed; the next may start at {until}", batch.attempts)
                    }
                    PauseAfter::Rejection => {
                        format!("every worker gave it back; it is offered again at {until}")
                    }
                };
                Some(self.condition("retry_interval", message, batch))
            }
            Phase::Ready { key } => self.why_not_placed(batch, *key),
            Phase::Assigned { worker, start_by, .. } => {
                let host = self.workers.get(worker).map_or("?", |worker| worker.host.as_str());
                let message = format!("worker {worker} ({host}) has it and has until {start_by} to start it");
                Some(self.condition("not_started", message, batch))
            }
            Phase::Granted(_) => None,
        }
    }

    fn why_not_placed(&self, batch: &Batch, key: super::placement::queue::ReadyKey) -> Option<Condition> {
        let definition = &batch.definition;
        if let Some(job) = self.jobs.get(&definition.id).filter(|job| job.limit.is_parked(key)) {
            if job.is_off() && batch.origin.waits_while_disabled() {
                // Said already; which of the others holds is seen when it is enabled.
                return None;
            }
            let message = format!("concurrency limit {} reached", job.definition.spec.max_concurrent);
            return Some(self.condition("concurrency", message, batch));
        }
        let lane = Lane::of(definition);
        let offers = |worker: &Worker| worker.slots.contains_key(&definition.spec.job_type);
        let mut of_type: Vec<_> = self.workers.iter().filter(|(_, worker)| offers(worker)).collect();
        // Since the last one went, if the batch was ready before.
        let since = |workers: &[(&WorkerId, &Worker)], when: fn(Turned) -> Option<Timestamp>| {
            let last = workers.iter().filter_map(|(_, worker)| when(worker.turned)).max();
            Some(last.unwrap_or(batch.since).max(batch.since))
        };
        let (gone, out) = (|turned: Turned| turned.gone, |turned: Turned| turned.out);
        if let Some(label) = &lane.label {
            let labelled: Vec<_> =
                of_type.iter().copied().filter(|(_, worker)| worker.labels.contains(label)).collect();
            of_type.retain(|(_, worker)| worker.labels.contains(label) && !worker.lost && !worker.expired);
            if of_type.is_empty() {
                let kind = &definition.spec.job_type;
                let message = format!("no worker of the group that takes {kind} has label {label}");
                let since = since(&labelled, gone);
                return Some(Condition { since, ..self.condition("worker_label", message, batch) });
            }
        }
        if let Some(host) = &lane.host
            && !of_type.iter().any(|(_, worker)| worker.host == host.as_ref() && worker.takes_work())
        {
            let message =
                format!("it is pinned to host {host}, where no worker takes {}", definition.spec.job_type);
            let here = of_type.iter().filter(|(_, worker)| worker.host == host.as_ref());
            if let Some(why) = self.why_overloaded(batch, here.map(|(_, worker)| *worker)) {
                return Some(why);
            }
            let here: Vec<_> =
                of_type.iter().copied().filter(|(_, worker)| worker.host == host.as_ref()).collect();
            let since = since(&here, out);
            return Some(Condition { since, ..self.condition("pinned_host", message, batch) });
        }
        if of_type.is_empty() || of_type.iter().all(|(_, worker)| worker.lost || worker.expired) {
            let message = format!("no worker of the group takes jobs of type {}", definition.spec.job_type);
            let since = since(&of_type, gone);
            return Some(Condition { since, ..self.condition("no_worker", message, batch) });
        }
        if of_type.iter().all(|(_, worker)| !worker.takes_work()) {
            if let Some(why) = self.why_overloaded(batch, of_type.iter().map(|(_, worker)| *worker)) {
                return Some(why);
            }
            let unready = of_type.iter().find_map(|(id, worker)| Some((*id, worker.unready.as_deref()?)));
            let (kind, message) = match unready {
                Some((id, reason)) => {
                    ("unready", format!("no worker of its type takes work: {id} says {reason}"))
                }
                None => ("drained", "every worker of its type is drained or lost".to_owned()),
            };
            let since = since(&of_type, out);
            return Some(Condition { since, ..self.condition(kind, message, batch) });
        }
        let has_room = self.workers.fitting(Demand::of(definition)).next().is_some();
        let is_kept_by_pools = has_room && !definition.spec.pools.is_empty();
        (!is_kept_by_pools).then(|| self.why_no_worker_fits(batch, &of_type))
    }

    /// MON-7: of those that would take it but for their load or memory, if there is one.
    fn why_overloaded<'a>(
        &self,
        batch: &Batch,
        workers: impl Iterator<Item = &'a Worker>,
    ) -> Option<Condition> {
        let sick: Vec<&Worker> = workers
            .filter(|worker| worker.is_overloaded() && !worker.drained && !worker.lost && !worker.expired)
            .collect();
        let machine = sick.first()?.machine?;
        let message = format!(
            "{} of its workers get no work until they have recovered; the first has a load of {} % and {} of {} MiB free",
            sick.len(),
            machine.measure.load_percent,
            machine.measure.memory_free_mb,
            machine.measure.memory_total_mb,
        );
        let last = sick.iter().filter_map(|worker| worker.turned.overloaded).max();
        let since = Some(last.unwrap_or(batch.since).max(batch.since));
        Some(Condition { since, ..self.condition("worker_overloaded", message, batch) })
    }

    /// BYD-4: a ready batch that its pools keep, and who has what it waits for.
    fn why_pools(&self, id: BatchId, batch: &Batch) -> Option<Condition> {
        let Phase::Ready { key } = batch.phase else { return None };
        let uses = &batch.definition.spec.pools;
        let parked = self.jobs.get(&batch.definition.id).is_some_and(|job| job.limit.is_parked(key));
        if uses.is_empty() || parked {
            return None;
        }
        match self.placement.pools().admit(uses) {
            Ok(()) => {
                let is_passed = self.workers.fitting(Demand::of(&batch.definition)).next().is_some();
                let names: Vec<&str> = uses.iter().map(|of| of.name.as_str()).collect();
                let message = format!("others that need the pool have waited longer ({})", names.join(", "));
                is_passed.then(|| self.condition("pool", message, batch))
            }
            Err(Shut::Full { pool, used }) => {
                let PoolSpec { name, slots, .. } = &pool.spec;
                let needs = uses.iter().find(|of| of.name == *name).map_or(1, |of| of.weight);
                let held = self.who_holds(name, id);
                let message =
                    format!("pool {name}: {used} of {slots} slots are taken and it needs {needs}{held}");
                Some(self.condition("pool", message, batch))
            }
            Err(Shut::Rate { pool, rate, opens }) => {
                let Rate { starts, interval_s } = rate;
                let name = &pool.spec.name;
                let message =
                    format!("pool {name}: {starts} have started in {interval_s} s; it may go on at {opens}");
                Some(self.condition("rate_limit", message, batch))
            }
            // The group asks for none then; what keeps it from every worker is said beside this.
            Err(Shut::Permits { .. }) if !self.is_taken(&Demand::of(&batch.definition)) => None,
            Err(Shut::Permits { pools, used }) => {
                let names: Vec<PoolName> = pools.iter().map(|of| of.name.clone()).collect();
                let held: String = names.iter().map(|name| self.who_holds(name, id)).collect();
                let text = names.iter().map(PoolName::as_str).collect::<Vec<_>>().join(", ");
                let message = format!(
                    "pools that groups share ({text}): its group has asked for a permit; {used} are in use here{held}"
                );
                Some(Condition { pools: names, ..self.condition("pool", message, batch) })
            }
        }
    }

    /// Batches of this group that have slots of a pool, for people.
    fn who_holds(&self, name: &PoolName, except: BatchId) -> String {
        let holders = self.placement.pools().holders(name);
        let others: Vec<String> = holders
            .iter()
            .filter(|(batch, _)| *batch != except)
            .take(LISTED_HOLDERS)
            .filter_map(|(batch, weight)| {
                let job = self.batches.get(batch)?.definition.full_name();
                Some(format!("batch {batch} of {job} ({weight})"))
            })
            .collect();
        if others.is_empty() {
            return String::new();
        }
        let more = holders.len().saturating_sub(others.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("; {name} is held by {}{more}", others.join(", "))
    }

    fn pool_holders(&self, name: &PoolName) -> LiveAnswer {
        let Some(group) = &self.group else { return LiveAnswer::NotFound };
        let holder = |(batch, weight): (BatchId, u32)| {
            let job = self.batches.get(&batch).map(|known| known.definition.id);
            PoolHolder { group: group.name.clone(), batch: Some(batch), job, slots: u64::from(weight) }
        };
        let mut holders: Vec<PoolHolder> =
            self.placement.pools().holders(name).into_iter().map(holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.slots));
        holders.truncate(MAX_HOLDERS);
        LiveAnswer::Pool { holders }
    }

    /// DSP-4: workers of its type take work, and none has room for it.
    fn why_no_worker_fits(&self, batch: &Batch, of_type: &[(&WorkerId, &Worker)]) -> Condition {
        let demand = Demand::of(&batch.definition);
        let job_type = demand.job_type;
        let here: Vec<&Worker> =
            of_type.iter().map(|(_, worker)| *worker).filter(|worker| worker.is_on(demand.host)).collect();
        let takes: Vec<&Worker> = here.iter().copied().filter(|worker| worker.takes_work()).collect();
        let since = Some(self.in_turn_since(batch, takes.iter().copied()));
        let free = |worker: &Worker| worker.slots.get(job_type).map_or(0, |slots| slots.free_for(&demand));
        if demand.memory_mb > 0 && takes.iter().any(|worker| free(worker) > 0) {
            let most = takes.iter().map(|worker| worker.memory_left()).max().unwrap_or(0);
            let silent = takes.iter().filter(|worker| worker.machine.is_none()).count();
            let silent =
                if silent == 0 { String::new() } else { format!("; {silent} do not say what they have") };
            let need = demand.memory_mb;
            let message =
                format!("it needs {need} MiB of memory, and no worker has more than {most} MiB left{silent}");
            return Condition { since, ..self.condition("no_memory", message, batch) };
        }
        let overloaded = here.iter().filter(|worker| worker.is_overloaded()).count();
        let kept =
            takes.iter().any(|worker| worker.slots.get(job_type).is_some_and(|slots| slots.free() > 0));
        let mut message = format!("every slot for {job_type} is taken");
        if kept {
            message.push_str(", but for those kept for other jobs");
        }
        if overloaded > 0 {
            message.push_str(&format!("; {overloaded} workers are overloaded and get no work"));
        }
        Condition { since, ..self.condition("no_slot", message, batch) }
    }

    /// Since when it only waits for its turn: since it is ready, or since the first of its workers is back.
    fn in_turn_since<'a>(&self, batch: &Batch, workers: impl Iterator<Item = &'a Worker>) -> Timestamp {
        let back = workers.filter(|worker| worker.takes_work()).filter_map(|worker| worker.turned.back).min();
        back.unwrap_or(batch.since).max(batch.since)
    }

    fn condition(&self, kind: &str, message: String, batch: &Batch) -> Condition {
        let since = Some(batch.since);
        Condition { kind: kind.to_owned(), message, since, job: None, logical_time: None, pools: Vec::new() }
    }

    pub(crate) fn name_of(&self, job: JobId) -> String {
        let name = |definition: &JobDefinition| format!("{}/{}", definition.spec.group, definition.spec.name);
        let here = self.jobs.get(&job).map(|job| name(&job.definition));
        let name = here.or_else(|| self.dependencies.foreign().get(job).map(|job| job.name.clone()));
        let name = name.or_else(|| self.dependencies.deleted_name(job));
        name.unwrap_or_else(|| format!("job {job}"))
    }

    /// Whether the job had that full name before, and so where an older definition names it.
    pub(crate) fn was_named(&self, job: JobId, name: &str) -> bool {
        let here = self.jobs.get(&job).map(|job| &job.former_names);
        let names = here.or_else(|| self.dependencies.foreign().get(job).map(|job| &job.former_names));
        names.is_some_and(|names| names.had(name))
    }
}

fn waived(job: JobId, time: Timestamp) -> WaivedParent {
    WaivedParent { job, logical_time: Some(time) }
}
