//! EXE-9: a person drains a host, and whoever works there gets no new work until a person resumes it: the next life of a worker,
//! and a worker of another name after a reboot, too.
//!
//! The host's state is the fold of `host.drained`, `host.emptied` and `host.resumed`; each of its workers is on record as drained
//! beside that, so that who looks at a worker alone sees it. Below level 3 a worker is drained by itself.

use tidemill_derive::Stored;
use tidemill_model::{Actor, Event, Rejection, WorkerEvent, WorkerId, bounds};

use super::Workers;
use crate::decision::Decision;
use crate::group::GroupShard;

/// Hosts of a group that are drained at once.
const MAX_DRAINED: usize = 10_000;
/// Workers of one host that one decision drains or resumes.
const MAX_WORKERS: usize = 1_000;

/// A host that a person drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Stored)]
pub(crate) struct DrainedHost {
    /// That nothing is left on it is on record.
    pub(super) is_emptied: bool,
}

impl GroupShard {
    /// Drains the host of a worker, or lets it work again; below level 3, the worker alone.
    pub(in crate::group) fn drain_by_worker(
        &self,
        worker: &WorkerId,
        is_drained: bool,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        if !self.records_departures() {
            return self.workers.drain_worker(worker, is_drained);
        }
        let known = self.workers.get(worker).ok_or_else(|| Rejection::unknown("worker", worker))?;
        match is_drained {
            true => self.drain_host(&known.host, "", by),
            false => self.resume_host(&known.host, by),
        }
    }

    pub(in crate::group) fn drain_host(
        &self,
        host: &str,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let reason = reason.trim();
        if reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be at most {} characters", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        if self.workers.drained_hosts.contains_key(host) {
            return Ok(Decision::nothing());
        }
        let mut to_drain = Vec::new();
        for id in self.workers.on_host(host) {
            let known = self.workers.get(id);
            if known.is_some_and(|known| !known.expired && !known.drained) {
                to_drain.push(id.clone());
            }
        }
        if self.workers.on_host(host).next().is_none() {
            return Err(Rejection::unknown("host", host));
        }
        if to_drain.len() > MAX_WORKERS {
            let what = format!("host {host}: its number of workers");
            return Err(Rejection::limit(what, MAX_WORKERS as u64));
        }
        if self.workers.drained_hosts.len() >= MAX_DRAINED {
            return Err(Rejection::limit("the number of drained hosts".to_owned(), MAX_DRAINED as u64));
        }
        let (host, reason) = (host.to_owned(), reason.to_owned());
        let drained = WorkerEvent::HostDrained { host, by: by.clone(), reason };
        let each = to_drain.into_iter().map(|worker| WorkerEvent::Drained { worker });
        Ok(Decision::events([drained].into_iter().chain(each).map(Event::Worker).collect()))
    }

    /// A host that is not drained may have workers that are, by themselves; those are resumed, too.
    pub(in crate::group) fn resume_host(&self, host: &str, by: &Actor) -> Result<Decision, Rejection> {
        let is_drained = self.workers.drained_hosts.contains_key(host);
        if !is_drained && self.workers.on_host(host).next().is_none() {
            return Err(Rejection::unknown("host", host));
        }
        let resumed = || WorkerEvent::HostResumed { host: host.to_owned(), by: by.clone() };
        let drained = |id: &&WorkerId| self.workers.get(id).is_some_and(|known| known.drained);
        let each = self.workers.on_host(host).filter(drained).take(MAX_WORKERS);
        let each = each.map(|worker| WorkerEvent::Resumed { worker: worker.clone() });
        Ok(Decision::events(is_drained.then(resumed).into_iter().chain(each).map(Event::Worker).collect()))
    }

    /// A worker that registers on a drained host gets no work.
    pub(super) fn drained_with_its_host(&self, worker: &WorkerId, host: &str) -> Option<Event> {
        planted!(DrainEndsWithWorker => return None);
        let is_known = self.workers.get(worker).is_some_and(|known| known.drained);
        let is_drained = self.workers.drained_hosts.contains_key(host);
        (is_drained && !is_known).then(|| Event::Worker(WorkerEvent::Drained { worker: worker.clone() }))
    }

    /// A drained host on which nothing is left, and nobody was told.
    pub(in crate::group) fn next_emptied(&self) -> Option<&str> {
        let untold = self.workers.drained_hosts.iter().filter(|(_, drained)| !drained.is_emptied);
        let is_empty = |id: &WorkerId| self.workers.get(id).is_none_or(|known| known.tokens.is_empty());
        untold.map(|(host, _)| host.as_str()).find(|host| self.workers.on_host(host).all(is_empty))
    }
}

impl Workers {
    fn on_host<'a>(&'a self, host: &str) -> impl Iterator<Item = &'a WorkerId> + use<'a> {
        self.by_host.get(host).into_iter().flatten()
    }

    pub(super) fn host_drained(&mut self, host: &str) {
        self.drained_hosts.entry(host.to_owned()).or_default();
    }

    pub(super) fn host_emptied(&mut self, host: &str) {
        if let Some(drained) = self.drained_hosts.get_mut(host) {
            drained.is_emptied = true;
        }
    }

    pub(super) fn host_resumed(&mut self, host: &str) {
        self.drained_hosts.remove(host);
    }
}
