//! Pools and their permits, counted a second time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{BatchId, PermitEvent, PermitReport, Pool, PoolName, PoolUse, ShardId, Timestamp};

use super::Shard;
use crate::{At, Invariant};

/// What a shard knows of pools; the catalogue's also what it gave of those that groups share.
#[derive(Debug, Default)]
pub(super) struct Pools {
    known: BTreeMap<PoolName, Arc<Pool>>,
    starts: HashMap<PoolName, VecDeque<Timestamp>>,
    /// All that a live assignment takes, and what of it needed a permit.
    taken: HashMap<BatchId, (Vec<PoolUse>, Vec<PoolUse>)>,
    /// Permits here, by what one batch needs of shared pools.
    permits: HashMap<Vec<PoolUse>, Permits>,
    /// Permits with shards, as the catalogue knows.
    given: BTreeMap<(ShardId, Vec<PoolUse>), (i64, i64)>,
}

#[derive(Debug, Default)]
struct Permits {
    fresh: i64,
    /// Not told yet.
    started: i64,
    ended: i64,
}

fn weight_of(uses: &[PoolUse], name: &PoolName) -> i64 {
    uses.iter().find(|of| of.name == *name).map_or(0, |of| i64::from(of.weight))
}

impl Pools {
    pub(super) fn give_back(&mut self, batch: BatchId) {
        let Some((_, shared)) = self.taken.remove(&batch) else { return };
        if let Some(permits) = self.permits.get_mut(&shared) {
            permits.ended += 1;
        }
    }

    pub(super) fn permit_event(&mut self, at: &At<'_>, event: &PermitEvent) {
        match event {
            PermitEvent::ReportReceived { from, report } => self.heard(at, *from, report),
            PermitEvent::Granted { to, pools, permits } => self.granted(at, *to, pools, *permits),
            PermitEvent::Received { pools, permits } => {
                self.permits.entry(pools.clone()).or_default().fresh += i64::from(*permits);
            }
            PermitEvent::Reported { report } => self.reported(at, report),
            PermitEvent::RateLimitReset { .. } => {}
        }
    }

    pub(super) fn forget(&mut self, name: &PoolName) {
        self.known.remove(name);
        self.starts.remove(name);
    }

    pub(super) fn define(&mut self, pool: &Arc<Pool>) {
        let name = &pool.spec.name;
        let old = self.known.insert(name.clone(), Arc::clone(pool));
        if old.is_none_or(|old| old.spec.rate != pool.spec.rate) {
            self.starts.remove(name);
        }
    }

    /// How many starts of the interval that ends now, with these; and how many the rate lets.
    fn starts(&mut self, name: &PoolName, now: Timestamp, more: u32) -> Option<(usize, usize)> {
        let rate = self.known.get(name)?.spec.rate?;
        let starts = self.starts.entry(name.clone()).or_default();
        starts.extend((0..more).map(|_| now));
        let interval = SignedDuration::from_secs(i64::from(rate.interval_s));
        while starts.front().is_some_and(|first| now.duration_since(*first) >= interval) {
            starts.pop_front();
        }
        Some((starts.len(), rate.starts as usize))
    }

    fn heard(&mut self, at: &At<'_>, from: ShardId, report: &PermitReport) {
        let (fresh, used) = self.given.entry((from, report.pools.clone())).or_default();
        *fresh -= i64::from(report.started) + i64::from(report.unused);
        *used += i64::from(report.started) - i64::from(report.ended);
        if *fresh < 0 || *used < 0 {
            let why = format!("shard {from} tells of permits that it did not have: {report:?}");
            at.breaks(Invariant::PermitsAccountedFor, why);
        }
        for of in &report.pools {
            self.starts(&of.name, at.now, report.started);
        }
    }

    fn granted(&mut self, at: &At<'_>, to: ShardId, uses: &[PoolUse], permits: u32) {
        let rule = Invariant::PermitsAccountedFor;
        self.given.entry((to, uses.to_vec())).or_default().0 += i64::from(permits);
        for PoolUse { name, .. } in uses {
            let Some(pool) = self.known.get(name).cloned() else { continue };
            let with = |(fresh, used): &(i64, i64), weight: i64| (fresh + used) * weight;
            let given: i64 = self.given.iter().map(|((_, uses), of)| with(of, weight_of(uses, name))).sum();
            if given > i64::from(pool.spec.slots) {
                let why = format!("{given} slots of pool {name} are given, and it has {}", pool.spec.slots);
                at.breaks(rule, why);
            }
            let needs = |uses: &[PoolUse]| uses.iter().any(|of| of.name == *name);
            let fresh: i64 =
                self.given.iter().filter(|((_, uses), _)| needs(uses)).map(|(_, (fresh, _))| fresh).sum();
            if let Some((starts, most)) = self.starts(name, at.now, 0)
                && starts as i64 + fresh > most as i64
            {
                let why = format!("{starts} batches of pool {name} have started, and {fresh} more may");
                at.breaks(rule, why);
            }
        }
    }

    fn reported(&mut self, at: &At<'_>, report: &PermitReport) {
        let known = self.permits.entry(report.pools.clone()).or_default();
        let told = (i64::from(report.started), i64::from(report.ended));
        known.fresh -= i64::from(report.unused);
        if told != (known.started, known.ended) || known.fresh < 0 {
            let why = format!(
                "told of {} started and {} ended, {} unused; it was {} and {}, and {} are left",
                told.0, told.1, report.unused, known.started, known.ended, known.fresh
            );
            at.breaks(Invariant::PermitsAccountedFor, why);
        }
        (known.started, known.ended) = (0, 0);
    }
}

impl Shard {
    /// `running_never_above_limit`, of a batch's pools, and `permits_accounted_for`.
    pub(super) fn pools_never_above_limit(&mut self, at: &At<'_>, id: BatchId) {
        let Some(of) = self.batches.get(&id).and_then(|batch| batch.of.clone()) else { return };
        if of.spec().pools.is_empty() {
            return;
        }
        let pools = &mut self.pools;
        let is_shared =
            |of: &PoolUse| pools.known.get(&of.name).is_some_and(|pool| pool.spec.group.is_none());
        let (shared, own): (Vec<PoolUse>, Vec<PoolUse>) =
            of.spec().pools.iter().cloned().partition(is_shared);
        pools.taken.insert(id, (of.spec().pools.clone(), shared.clone()));
        for PoolUse { name, .. } in own {
            let Some(pool) = pools.known.get(&name).cloned() else { continue };
            let used: i64 = pools.taken.values().map(|(uses, _)| weight_of(uses, &name)).sum();
            if used > i64::from(pool.spec.slots) {
                let why = format!("{used} slots of pool {name} are taken, and it has {}", pool.spec.slots);
                at.breaks(Invariant::RunningNeverAboveLimit, why);
            }
            if let Some((starts, most)) = pools.starts(&name, at.now, 1)
                && starts > most
            {
                let why =
                    format!("{starts} batches of pool {name} have started in its interval, and {most} may");
                at.breaks(Invariant::RunningNeverAboveLimit, why);
            }
        }
        if shared.is_empty() {
            return;
        }
        let permits = pools.permits.entry(shared).or_default();
        permits.started += 1;
        permits.fresh -= 1;
        if permits.fresh < 0 {
            let why = format!("batch {id} is assigned without a permit for the pools that groups share");
            at.breaks(Invariant::PermitsAccountedFor, why);
        }
    }

    /// `permits_accounted_for`: nothing is left of a permit whose assignment ended.
    pub(super) fn permits_are_back(&self, at: &At<'_>) {
        let untold = self.pools.permits.values().map(|permits| permits.started + permits.ended).sum::<i64>();
        let used: i64 = self.pools.given.values().map(|(_, used)| used).sum();
        if self.pools.taken.is_empty() && untold > 0 {
            let why = format!("what became of {untold} permits has not been told");
            at.breaks(Invariant::PermitsAccountedFor, why);
        }
        if used > 0 && self.id == ShardId::CATALOGUE {
            let why = format!("{used} permits have not come back, and nothing runs any more");
            at.breaks(Invariant::PermitsAccountedFor, why);
        }
    }
}
