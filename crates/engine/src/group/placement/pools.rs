//! Pools as a group's shard counts them (BYD-4): what live assignments take, how often batches started, and the
//! permits that it has of pools that groups share.
//!
//! ```text
//!  of the group:    used + weight ≤ slots, and fewer starts in the interval than the rate lets
//!  shared:          a permit, which is for one batch's whole set of such pools
//!
//!      PermitsReceived        BatchAssigned         end of the assignment
//!  ──────────────────► fresh ──────────────► used ────────────────────────► ended
//!                        │                                                    │
//!                        └──────────── PermitsReported (unused) ──────────────┴──► the catalogue has it back
//! ```
//! *Invariant:* a batch takes all of its pools with its assignment and gives back what it took with its end,
//! whatever that is and whatever the pools are by then. A permit is for one start, so the next one is for whoever has
//! waited longest, in whichever group.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, Event, PermitEvent, PermitReport, Pool, PoolName, PoolUse, Priority, Rate, ShardId,
    ShardMessage, Timestamp, Token,
};

use crate::group::GroupShard;
use crate::group::placement::Placement;
use crate::group::placement::queue::{Class, Lane};
use crate::group::workers::Demand;
use crate::rate::Starts;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Pools {
    known: BTreeMap<PoolName, Known>,
    taken: FxHashMap<Token, Taken>,
    /// By the set of shared pools that one batch needs.
    permits: BTreeMap<Arc<[PoolUse]>, Permits>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Known {
    pool: Arc<Pool>,
    used: u64,
    /// Counted where the pool is the group's.
    starts: Starts,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Taken {
    pub(crate) batch: BatchId,
    uses: Arc<[PoolUse]>,
    /// The permit that it has, if it needed one.
    permit: Option<Arc<[PoolUse]>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Stored)]
struct Permits {
    fresh: u32,
    used: u32,
    // What the catalogue has not been told yet.
    started: u32,
    ended: u32,
    unused: u32,
    /// As it was told last.
    wanted: u32,
}

/// Why pools do not let a batch start.
#[derive(Debug, PartialEq)]
pub(crate) enum Shut<'a> {
    Full {
        pool: &'a Pool,
        used: u64,
    },
    Rate {
        pool: &'a Pool,
        rate: Rate,
        opens: Timestamp,
    },
    /// No permit for the pools that groups share.
    Permits {
        pools: Arc<[PoolUse]>,
        used: u32,
    },
}

impl Known {
    fn is_shared(&self) -> bool {
        self.pool.spec.group.is_none()
    }

    /// The rate that this shard counts.
    fn rate(&self) -> Option<Rate> {
        self.pool.spec.rate.filter(|_| !self.is_shared())
    }

    /// Its rate lets nothing start now; from when on it does.
    fn opens(&self) -> Option<(Rate, Timestamp)> {
        let rate = self.rate().filter(|rate| self.starts.count() >= rate.starts)?;
        Some((rate, self.starts.next_expiry(rate)?))
    }
}

impl Pools {
    /// Those of a batch's pools that groups share.
    fn shared_of(&self, uses: &[PoolUse]) -> Option<Arc<[PoolUse]>> {
        let is_shared = |of: &&PoolUse| self.known.get(&of.name).is_some_and(Known::is_shared);
        let shared: Arc<[PoolUse]> = uses.iter().filter(is_shared).cloned().collect();
        (!shared.is_empty()).then_some(shared)
    }

    /// Whether groups share some of these.
    pub(crate) fn are_shared(&self, uses: &[PoolUse]) -> bool {
        self.shared_of(uses).is_some()
    }

    /// Whether a batch that needs these may start now, as far as pools go. A pool that is gone keeps nobody.
    pub(crate) fn admit(&self, uses: &[PoolUse]) -> Result<(), Shut<'_>> {
        for of in uses {
            let Some(known) = self.known.get(&of.name) else { continue };
            let slots = u64::from(known.pool.spec.slots);
            if !known.is_shared() && known.used + u64::from(of.weight) > slots {
                return Err(Shut::Full { pool: &known.pool, used: known.used });
            }
            if let Some((rate, opens)) = known.opens() {
                return Err(Shut::Rate { pool: &known.pool, rate, opens });
            }
        }
        let Some(pools) = self.shared_of(uses) else { return Ok(()) };
        let permits = self.permits.get(&pools).copied().unwrap_or_default();
        if permits.fresh == 0 {
            return Err(Shut::Permits { pools, used: permits.used });
        }
        Ok(())
    }

    /// Who has slots of a pool, in order of their batches.
    pub(crate) fn holders(&self, name: &PoolName) -> Vec<(BatchId, u32)> {
        let of = |taken: &Taken| Some((taken.batch, taken.uses.iter().find(|of| of.name == *name)?.weight));
        let mut holders: Vec<(BatchId, u32)> = self.taken.values().filter_map(of).collect();
        holders.sort_unstable();
        holders
    }

    pub(crate) fn take(&mut self, token: Token, batch: BatchId, uses: &[PoolUse], now: Timestamp) {
        if uses.is_empty() {
            return;
        }
        let permit = self.shared_of(uses);
        for of in uses {
            let Some(known) = self.known.get_mut(&of.name) else { continue };
            known.used += u64::from(of.weight);
            if let Some(rate) = known.rate() {
                known.starts.note(now, 1, rate);
            }
        }
        if let Some(pools) = &permit {
            let permits = self.permits.entry(Arc::clone(pools)).or_default();
            permits.fresh = permits.fresh.saturating_sub(1);
            permits.used += 1;
            permits.started += 1;
        }
        self.taken.insert(token, Taken { batch, uses: uses.into(), permit });
    }

    pub(crate) fn give_back(&mut self, token: Token) {
        let Some(taken) = self.taken.remove(&token) else { return };
        for of in taken.uses.iter() {
            if let Some(known) = self.known.get_mut(&of.name) {
                known.used = known.used.saturating_sub(u64::from(of.weight));
            }
        }
        if let Some(permits) = taken.permit.and_then(|pools| self.permits.get_mut(&pools)) {
            permits.used = permits.used.saturating_sub(1);
            permits.ended += 1;
        }
    }

    /// A pool is there, or is another. What live assignments have of it counts from the start; permits that have not
    /// been used were given by its old bounds and go back.
    pub(crate) fn received(&mut self, pool: &Arc<Pool>) {
        let name = &pool.spec.name;
        for (pools, permits) in &mut self.permits {
            if pools.iter().any(|of| of.name == *name) {
                permits.unused += std::mem::take(&mut permits.fresh);
            }
        }
        let old = self.known.remove(name);
        let used = match &old {
            Some(old) => old.used,
            None => self.holders(name).iter().map(|(_, weight)| u64::from(*weight)).sum(),
        };
        let same = old.filter(|old| old.pool.spec.rate == pool.spec.rate);
        let starts = same.map(|old| old.starts).unwrap_or_default();
        self.known.insert(name.clone(), Known { pool: Arc::clone(pool), used, starts });
    }

    pub(crate) fn forgotten(&mut self, name: &PoolName) {
        self.known.remove(name);
    }

    pub(crate) fn opened(&mut self, now: Timestamp, name: &PoolName) {
        if let Some(known) = self.known.get_mut(name)
            && let Some(rate) = known.rate()
        {
            known.starts.expire(now, rate);
        }
    }

    pub(crate) fn permits_received(&mut self, pools: &[PoolUse], permits: u32) {
        self.permits.entry(pools.into()).or_default().fresh += permits;
    }

    fn told(&mut self, report: &PermitReport) {
        let permits = self.permits.entry(report.pools[..].into()).or_default();
        let surplus = report.unused.saturating_sub(permits.unused);
        permits.fresh = permits.fresh.saturating_sub(surplus);
        permits.unused = permits.unused.saturating_sub(report.unused);
        permits.started = permits.started.saturating_sub(report.started);
        permits.ended = permits.ended.saturating_sub(report.ended);
        permits.wanted = report.wanted;
        if *permits == Permits::default() {
            self.permits.remove(&report.pools[..]);
        }
    }

    /// Of one batch's whole set, no more permits than this are of use at once.
    fn most(&self, pools: &[PoolUse]) -> u32 {
        let slots = |of: &PoolUse| Some(self.known.get(&of.name)?.pool.spec.slots / of.weight.max(1));
        pools.iter().filter_map(slots).min().unwrap_or(u32::MAX)
    }
}

impl Placement {
    /// A rate keeps a ready batch from its start: whose, and until when. The soonest.
    pub(crate) fn next_opening(&self) -> Option<(Timestamp, PoolName)> {
        let shut = self.pools.known.iter().filter_map(|(name, known)| Some((known.opens()?.1, name)));
        let is_waited_for = |name: &PoolName| {
            let mut uses = self.queue.lanes().filter_map(|(lane, _)| lane.pools.as_deref());
            uses.any(|uses| uses.iter().any(|of| of.name == *name))
        };
        shut.filter(|(_, name)| is_waited_for(name)).min().map(|(at, name)| (at, name.clone()))
    }
}

impl GroupShard {
    pub(in crate::group) fn apply_permit(&mut self, now: Timestamp, event: &PermitEvent) {
        match event {
            PermitEvent::RateLimitReset { name } => self.placement.pools.opened(now, name),
            PermitEvent::Received { pools, permits } => {
                self.placement.pools.permits_received(pools, *permits)
            }
            PermitEvent::Reported { report } => {
                self.placement.pools.told(report);
                self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportPermits { report: report.clone() });
            }
            // What the catalogue decides.
            PermitEvent::ReportReceived { .. } | PermitEvent::Granted { .. } => {}
        }
    }

    /// What the catalogue does not know yet and should.
    pub(crate) fn permit_report(&self) -> Option<Event> {
        let has_shared = || self.placement.pools.known.values().any(Known::is_shared);
        if self.placement.pools.permits.is_empty() && !has_shared()
            || self.mailbox.room(ShardId::CATALOGUE) == 0
        {
            return None;
        }
        let mut requests: BTreeMap<Arc<[PoolUse]>, (u32, bool)> =
            self.placement.pools.permits.keys().map(|pools| (Arc::clone(pools), (0, false))).collect();
        for (lane, classes) in self.placement.queue.lanes() {
            let Some(pools) = lane.pools.as_deref().and_then(|uses| self.placement.pools.shared_of(uses))
            else {
                continue;
            };
            let (free, is_taken) = self.room_for(lane, classes);
            let requested = requests.entry(pools).or_default();
            requested.0 = requested.0.saturating_add(free);
            requested.1 |= is_taken;
        }
        requests.into_iter().find_map(|(pools, (free, is_taken))| {
            // One also where no slot is free: whoever has it takes its turn when one gets free.
            let requested = free.max(u32::from(is_taken)).min(self.placement.pools.most(&pools));
            let known = self.placement.pools.permits.get(&pools).copied().unwrap_or_default();
            let is_news = requested > known.wanted || requested <= known.wanted / 2;
            let wanted = if is_news { requested } else { known.wanted };
            let unused = known.unused + known.fresh.saturating_sub(wanted);
            let Permits { started, ended, .. } = known;
            let changed = wanted != known.wanted || started > 0 || ended > 0 || unused > 0;
            let report = PermitReport { pools: pools.to_vec(), started, ended, unused, wanted };
            changed.then_some(Event::Permit(PermitEvent::Reported { report }))
        })
    }

    pub(crate) fn is_taken(&self, demand: &Demand<'_>) -> bool {
        self.workers.iter().any(|(_, worker)| worker.could_take(demand))
    }

    /// How many ready batches of a lane have room on a worker, and whether any of them would get it in time. What
    /// no worker takes must not hold permits that other groups wait for.
    fn room_for(&self, lane: &Lane, classes: &BTreeMap<Priority, Class>) -> (u32, bool) {
        let (mut ready, mut free, mut is_taken) = (0, 0, false);
        for (priority, class) in classes {
            let demand = Demand::of_class(lane, *priority);
            if !self.is_taken(&demand) {
                continue;
            }
            is_taken = true;
            ready += class.len();
            let fitting = self.workers.iter().filter(|(_, worker)| worker.fits(&demand));
            let of_class =
                fitting.fold(0, |sum: u32, (_, worker)| sum.saturating_add(worker.free_for(&demand)));
            free = free.max(of_class);
        }
        (free.min(u32::try_from(ready).unwrap_or(u32::MAX)), is_taken)
    }
}
