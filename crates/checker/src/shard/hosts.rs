//! Hosts that a person drains: they get no work, and are empty when nothing is assigned there or runs.

use std::collections::HashMap;

use super::Shard;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::HostsDrainInTurn;

/// Drained hosts, the record that says so, and whether that nothing is left on them is on record.
#[derive(Debug, Default)]
pub(super) struct DrainedHosts(HashMap<String, (u64, bool)>);

impl DrainedHosts {
    pub(super) fn has(&self, host: &str) -> bool {
        self.0.contains_key(host)
    }
}

impl Shard {
    /// `hosts_drain_in_turn`
    pub(super) fn host_drained(&mut self, at: &At<'_>, host: &str) {
        if let Some((said, _)) = self.drained_hosts.0.insert(host.to_owned(), (at.offset, false)) {
            at.contradicts(RULE, format!("host {host} is drained twice"), &[said]);
        }
    }

    /// `hosts_drain_in_turn`
    pub(super) fn host_resumed(&mut self, at: &At<'_>, host: &str) {
        if self.drained_hosts.0.remove(host).is_none() {
            at.breaks(RULE, format!("host {host} is resumed, and was not drained"));
        }
    }

    /// `hosts_drain_in_turn`
    pub(super) fn host_emptied(&mut self, at: &At<'_>, host: &str) {
        let Some((said, is_emptied)) = self.drained_hosts.0.get_mut(host) else {
            return at.breaks(RULE, format!("host {host} is empty, and was not drained"));
        };
        let said = *said;
        if std::mem::replace(is_emptied, true) {
            at.contradicts(RULE, format!("host {host} is empty twice"), &[said]);
        }
        let busy = self.workers.iter().find(|(_, worker)| worker.host == host && worker.is_used());
        if let Some((id, _)) = busy {
            at.contradicts(RULE, format!("host {host} is empty, and worker {id} holds something"), &[said]);
        }
    }

    /// `hosts_drain_in_turn`, at quiescence.
    pub(super) fn empty_hosts_say_so(&self, at: &At<'_>) {
        for (host, (said, is_emptied)) in &self.drained_hosts.0 {
            let is_used = self.workers.values().any(|worker| worker.host == *host && worker.is_used());
            if !is_emptied && !is_used {
                let why = format!("host {host} is drained and empty, and nobody was told");
                at.contradicts(RULE, why, &[*said]);
            }
        }
    }
}
