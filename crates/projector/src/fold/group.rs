//! Workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{JobType, WorkerEvent};
use tidemill_store::rows::{DrainedHostRow, ResourceRow, WorkerRow};

use super::batch::person;
use super::job::json;
use super::{Caches, Place};

impl Caches {
    pub(super) fn need_worker(&mut self, shard: i64, event: &WorkerEvent) {
        match event {
            WorkerEvent::HostDrained { host, .. }
            | WorkerEvent::HostEmptied { host }
            | WorkerEvent::HostResumed { host, .. } => {
                self.shards.need((shard,));
                self.drained_hosts.need((host.as_str().into(), shard));
            }
            WorkerEvent::Registered { worker, host, .. } => {
                self.shards.need((shard,));
                self.drained_hosts.need((host.as_str().into(), shard));
                self.workers.need((worker.0.clone(), shard));
            }
            WorkerEvent::Measured { worker, .. }
            | WorkerEvent::Lost { worker, .. }
            | WorkerEvent::Recovered { worker, .. }
            | WorkerEvent::LeaseExpired { worker, .. }
            | WorkerEvent::LeaseHalfOver { worker, .. }
            | WorkerEvent::EndVouched { worker, .. }
            | WorkerEvent::StraysFound { worker, .. }
            | WorkerEvent::StrayKillRequested { worker, .. }
            | WorkerEvent::StrayEnded { worker, .. }
            | WorkerEvent::Leaving { worker, .. }
            | WorkerEvent::Left { worker, .. }
            | WorkerEvent::Unready { worker, .. }
            | WorkerEvent::Ready { worker, .. }
            | WorkerEvent::Drained { worker }
            | WorkerEvent::Resumed { worker } => self.workers.need((worker.0.clone(), shard)),
        }
    }

    pub(super) fn apply_worker(&mut self, at: Place, event: &WorkerEvent) {
        match event {
            WorkerEvent::Registered { .. } => self.register(at, event),
            WorkerEvent::Measured { worker, measure, overloaded } => self.worker(at, &worker.0, |row| {
                row.memory_total_mb = Some(i64::from(measure.memory_total_mb));
                row.memory_free_mb = Some(i64::from(measure.memory_free_mb));
                row.load_percent = Some(i64::from(measure.load_percent));
                row.measured_at = Some(at.now);
                row.overloaded = *overloaded;
            }),
            WorkerEvent::Lost { worker, .. } => self.worker(at, &worker.0, |row| {
                row.state = "lost".into();
                row.lost_at = Some(at.now);
            }),
            WorkerEvent::Recovered { worker, .. } => self.worker(at, &worker.0, |row| {
                row.state = if row.leaving_since.is_some() { "leaving".into() } else { "live".into() };
                row.lost_at = None;
                row.lease_expired_at = None;
            }),
            WorkerEvent::LeaseExpired { worker, .. } | WorkerEvent::EndVouched { worker, .. } => {
                self.worker(at, &worker.0, |row| {
                    row.state = "gone".into();
                    row.lease_expired_at = Some(at.now);
                })
            }
            // The alarm says it, and who lists them asks the owner.
            WorkerEvent::LeaseHalfOver { .. }
            | WorkerEvent::StraysFound { .. }
            | WorkerEvent::StrayKillRequested { .. }
            | WorkerEvent::StrayEnded { .. } => {}
            WorkerEvent::Leaving { worker, keeps_jobs, .. } => self.worker(at, &worker.0, |row| {
                row.state = "leaving".into();
                row.leaving_since = Some(at.now);
                row.keeps_jobs = *keeps_jobs;
            }),
            WorkerEvent::Left { worker, .. } => self.worker(at, &worker.0, |row| row.state = "left".into()),
            WorkerEvent::HostDrained { host, by, reason } => self.drained_hosts.put(DrainedHostRow {
                host: host.as_str().into(),
                shard: at.shard,
                group_name: self.group_of(at),
                drained_by: person(by),
                drained_at: at.now,
                reason: reason.as_str().into(),
                emptied_at: None,
            }),
            WorkerEvent::HostEmptied { host } => {
                let key = (host.as_str().into(), at.shard);
                self.drained_hosts.change(key, |row| row.emptied_at = Some(at.now));
            }
            WorkerEvent::HostResumed { host, .. } => {
                self.drained_hosts.remove((host.as_str().into(), at.shard));
            }
            WorkerEvent::Drained { worker } => self.drain(at, &worker.0),
            WorkerEvent::Resumed { worker } => self.worker(at, &worker.0, |row| {
                row.drained = false;
                row.drained_at = None;
                row.drained_by = None;
            }),
            WorkerEvent::Unready { worker, reason, .. } => self.worker(at, &worker.0, |row| {
                row.unready_reason = Some(reason.as_str().into());
                row.unready_since = Some(at.now);
            }),
            WorkerEvent::Ready { worker, .. } => self.worker(at, &worker.0, |row| {
                row.unready_reason = None;
                row.unready_since = None;
            }),
        }
    }

    fn drain(&mut self, at: Place, id: &Arc<str>) {
        let (since, by) = self.drained_since(at, id);
        self.worker(at, id, |row| {
            row.drained = true;
            row.drained_at = Some(since);
            row.drained_by = by;
        });
    }

    /// Since when a worker is drained, and by whom: with its host, which may have been before it registered.
    fn drained_since(&self, at: Place, id: &Arc<str>) -> (i64, Option<Arc<str>>) {
        let host = self.workers.get(&(Arc::clone(id), at.shard)).map(|row| (Arc::clone(&row.host), at.shard));
        match host.and_then(|host| self.drained_hosts.get(&host)) {
            Some(host) => (host.drained_at, Some(Arc::clone(&host.drained_by))),
            None => (at.now, self.requester()),
        }
    }

    fn worker(&mut self, at: Place, id: &Arc<str>, change: impl FnOnce(&mut WorkerRow)) {
        self.workers.change((Arc::clone(id), at.shard), change);
    }

    fn register(&mut self, at: Place, event: &WorkerEvent) {
        let WorkerEvent::Registered {
            worker,
            incarnation,
            host,
            address,
            slots,
            labels,
            reserved,
            keeps,
            types,
            ..
        } = event
        else {
            return;
        };
        let id = &worker.0;
        let old = self.workers.get(&(Arc::clone(id), at.shard)).cloned().unwrap_or_default();
        let is_same_life = old.incarnation == incarnation.0;
        let is_leaving = is_same_life && old.leaving_since.is_some();
        let old_slots = Arc::clone(&old.slots);
        self.workers.put(WorkerRow {
            id: Arc::clone(id),
            shard: at.shard,
            group_name: self.group_of(at),
            incarnation: Arc::clone(&incarnation.0),
            host: host.as_str().into(),
            address: address.as_str().into(),
            slots: json(slots),
            reserved: json(reserved),
            labels: json(labels),
            limits_kept: keeps.map_or_else(|| "{}".into(), |kept| json(&kept)),
            types: json(types),
            state: if is_leaving { "leaving".into() } else { "live".into() },
            registered_at: at.now,
            lost_at: None,
            lease_expired_at: None,
            leaving_since: old.leaving_since.filter(|_| is_same_life),
            keeps_jobs: old.keeps_jobs && is_same_life,
            unready_reason: old.unready_reason.filter(|_| is_same_life),
            unready_since: old.unready_since.filter(|_| is_same_life),
            ..old
        });
        let key = |job_type: &JobType| (Arc::clone(id), at.shard, Arc::from(job_type.as_str()));
        // What is no list of slots was changed by hand: the rows left over by it are for `verify` to name.
        let old_slots: BTreeMap<JobType, u32> = serde_json::from_str(&old_slots).unwrap_or_default();
        for job_type in old_slots.keys().filter(|job_type| !slots.contains_key(*job_type)) {
            self.resources.remove(key(job_type));
        }
        for (job_type, slots) in slots {
            let (worker_id, shard, job_type) = key(job_type);
            self.resources.put(ResourceRow { worker_id, shard, job_type, slots: i64::from(*slots) });
        }
    }
}
