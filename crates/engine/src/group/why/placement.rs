//! Why a batch that is ready runs on no worker.

use super::{LISTED_HOLDERS, MAX_HOLDERS};
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, PauseAfter, Phase};
use crate::group::listed::listed;
use crate::group::placement::pools::Shut;
use crate::group::placement::queue::{Lane, ReadyKey};
use crate::group::workers::{Demand, Turned, Worker};
use tidemill_model::{
    BatchId, Condition, LiveAnswer, PoolHolder, PoolName, PoolSpec, Rate, Timestamp, WorkerId,
};

impl GroupShard {
    /// DSP-1: of a disabled job, only what people asked for by name is assigned.
    pub(in crate::group) fn why_disabled(&self, batch: &Batch) -> Option<Condition> {
        let job = self.jobs.get(&batch.definition.id).filter(|job| job.is_off())?;
        if !batch.origin.waits_while_disabled() {
            return None;
        }
        let since = job.disabled_since.filter(|_| batch.holder().is_none())?.max(batch.generated);
        let message = format!("job {} is disabled; enable it to let this go on", job.definition.full_name());
        Some(Condition::new("disabled", message, Some(since)))
    }

    pub(in crate::group) fn unmet_phase(&self, id: BatchId, batch: &Batch) -> Option<Condition> {
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
                    PauseAfter::LostOutput => {
                        let path = self.batches.lost_output(id).unwrap_or_default();
                        let message = format!(
                            "attempt {} was lost; probers look until {until} whether its output path {path} has changed since it \
                             began, which would be its success",
                            batch.attempts
                        );
                        return Some(self.condition("lost_output", message, batch));
                    }
                };
                Some(self.condition("retry_interval", message, batch))
            }
            Phase::Ready { key } => self.why_not_placed(batch, *key),
            Phase::Assigned { worker, token, .. } if self.is_by_word(*token) => {
                let message = format!(
                    "worker {worker} may run it and has not said so: its word decides, or the end of its lease"
                );
                Some(self.condition("not_started", message, batch))
            }
            Phase::Assigned { worker, start_by, .. } => {
                let host = self.workers.get(worker).map_or("?", |worker| worker.host.as_str());
                let message = format!("worker {worker} ({host}) has it and has until {start_by} to start it");
                Some(self.condition("not_started", message, batch))
            }
            Phase::Granted(grant) => self.why_not_begun(id, batch, grant),
        }
    }

    fn why_not_placed(&self, batch: &Batch, key: ReadyKey) -> Option<Condition> {
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
            of_type.retain(|(_, worker)| worker.labels.contains(label));
            let labelled = of_type.clone();
            of_type.retain(|(_, worker)| !worker.lost && !worker.expired);
            if of_type.is_empty() {
                let kind = &definition.spec.job_type;
                let message = format!("no worker of the group that takes {kind} has label {label}");
                return Some(Condition::new("worker_label", message, since(&labelled, gone)));
            }
        }
        if let Some(host) = &lane.host {
            let here = of_type.iter().copied().filter(|(_, worker)| worker.host == host.as_ref());
            let here: Vec<_> = here.collect();
            if !here.iter().any(|(_, worker)| worker.takes_work()) {
                let kind = &definition.spec.job_type;
                let message = format!("it is pinned to host {host}, where no worker takes {kind}");
                let pinned = || Condition::new("pinned_host", message, since(&here, out));
                return Some(self.why_overloaded(batch, &here).unwrap_or_else(pinned));
            }
        }
        if of_type.is_empty() || of_type.iter().all(|(_, worker)| worker.lost || worker.expired) {
            let message = format!("no worker of the group takes jobs of type {}", definition.spec.job_type);
            return Some(Condition::new("no_worker", message, since(&of_type, gone)));
        }
        if of_type.iter().all(|(_, worker)| !worker.takes_work()) {
            let overloaded = self.why_overloaded(batch, &of_type);
            if overloaded.is_some() {
                return overloaded;
            }
            let unready = of_type.iter().find_map(|(id, worker)| Some((*id, worker.unready.as_deref()?)));
            let (kind, message) = match unready {
                Some((id, reason)) => {
                    ("unready", format!("no worker of its type takes work: {id} says {reason}"))
                }
                None => ("drained", "every worker of its type is drained, leaving or lost".to_owned()),
            };
            return Some(Condition::new(kind, message, since(&of_type, out)));
        }
        let has_room = self.workers.fitting(Demand::of(definition)).next().is_some();
        let is_kept_by_pools = has_room && !definition.spec.pools.is_empty();
        (!is_kept_by_pools).then(|| self.why_no_worker_fits(batch, &of_type))
    }

    /// MON-7: of those that would take it but for their load or memory, if there is one.
    fn why_overloaded(&self, batch: &Batch, workers: &[(&WorkerId, &Worker)]) -> Option<Condition> {
        let would_take =
            |worker: &&Worker| !worker.drained && !worker.leaving && !worker.lost && !worker.expired;
        let sick = workers.iter().map(|(_, worker)| *worker).filter(|worker| worker.is_overloaded());
        let sick: Vec<&Worker> = sick.filter(would_take).collect();
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
        Some(Condition::new("worker_overloaded", message, since))
    }

    /// BYD-4: a ready batch that its pools keep, and who has what it waits for.
    pub(in crate::group) fn why_pools(&self, id: BatchId, batch: &Batch) -> Option<Condition> {
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
        let others: Vec<_> = holders
            .iter()
            .filter(|(batch, _)| *batch != except)
            .filter_map(|(batch, weight)| Some((batch, self.batches.get(batch)?, weight)))
            .collect();
        if others.is_empty() {
            return String::new();
        }
        let named = listed(&others, LISTED_HOLDERS, |(batch, known, weight)| {
            format!("batch {batch} of {} ({weight})", known.definition.full_name())
        });
        format!("; {name} is held by {named}")
    }

    pub(in crate::group) fn pool_holders(&self, name: &PoolName) -> LiveAnswer {
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
        // It only waits for its turn since it is ready, or since the first of its workers is back.
        let back = takes.iter().filter_map(|worker| worker.turned.back).min();
        let since = Some(back.unwrap_or(batch.since).max(batch.since));
        let free = |worker: &Worker| worker.slots.get(job_type).map_or(0, |slots| slots.free_for(&demand));
        if demand.memory_mb > 0 && takes.iter().any(|worker| free(worker) > 0) {
            let most = takes.iter().map(|worker| worker.memory_left()).max().unwrap_or(0);
            let silent = takes.iter().filter(|worker| worker.machine.is_none()).count();
            let silent =
                if silent == 0 { String::new() } else { format!("; {silent} do not say what they have") };
            let need = demand.memory_mb;
            let message =
                format!("it needs {need} MiB of memory, and no worker has more than {most} MiB left{silent}");
            return Condition::new("no_memory", message, since);
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
        Condition::new("no_slot", message, since)
    }
}
