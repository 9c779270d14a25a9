//! What facts about workers do.

use tidemill_model::{Timestamp, WorkerEvent};

use crate::group::GroupShard;
use crate::group::workers::Machine;
use crate::group::workers::settle::SettleCause;

impl GroupShard {
    pub(in crate::group) fn apply_worker(&mut self, now: Timestamp, event: &WorkerEvent) {
        match event {
            WorkerEvent::Registered { .. } => self.worker_registered(now, event),
            WorkerEvent::Measured { worker, measure, overloaded } => {
                self.workers.turn(now, worker, |worker| {
                    worker.machine = Some(Machine::new(*measure, now, *overloaded, worker.reserved_mb));
                });
            }
            WorkerEvent::Lost { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.lost = true);
                self.unsettle(worker, SettleCause::Lost);
            }
            WorkerEvent::Recovered { worker, .. } => {
                self.workers.turn(now, worker, |worker| (worker.lost, worker.warned) = (false, false));
                self.workers.keep_what_was_lost(worker);
            }
            WorkerEvent::LeaseExpired { worker, .. } | WorkerEvent::EndVouched { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.expired = true);
                self.unsettle(worker, SettleCause::Expired);
            }
            WorkerEvent::LeaseHalfOver { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.warned = true);
            }
            WorkerEvent::Leaving { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.leaving = true);
                self.worker_leaves(worker, now);
            }
            WorkerEvent::Left { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.expired = true);
                self.unsettle(worker, SettleCause::Left);
            }
            WorkerEvent::StraysFound { worker, incarnation, strays } => {
                self.strays_found(now, (worker, incarnation), strays);
            }
            WorkerEvent::StrayKillRequested { token, .. } => self.stray_is_to_end(*token),
            WorkerEvent::StrayEnded { token, external, .. } => {
                self.stray_ended(now, *token, external.as_deref());
            }
            WorkerEvent::Drained { worker } => self.workers.turn(now, worker, |worker| worker.drained = true),
            WorkerEvent::Resumed { worker } => {
                self.workers.turn(now, worker, |worker| worker.drained = false)
            }
            WorkerEvent::HostDrained { host, .. } => self.workers.host_drained(host),
            WorkerEvent::HostEmptied { host } => self.workers.host_emptied(host),
            WorkerEvent::HostResumed { host, .. } => self.workers.host_resumed(host),
            WorkerEvent::Unready { worker, reason, .. } => {
                self.workers.turn(now, worker, |worker| worker.unready = Some(reason.as_str().into()));
            }
            WorkerEvent::Ready { worker, .. } => {
                self.workers.turn(now, worker, |worker| worker.unready = None)
            }
        }
    }
}
