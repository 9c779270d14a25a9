//! Pools, and the permits of those that groups share (BYD-4).
//!
//! ```text
//!  shard ── ReportPermits { wanted, started, ended, unused } ──► catalogue
//!  shard ◄─ GrantPermits { permits } ─────────────────────────── catalogue
//! ```
//! *Invariant:* when a permit is given, what all shards together have of each of its pools, on the way there and back
//! included, is at most its slots; and permits that may still be used, with the starts of the last interval, are at
//! most what its rate lets. So whatever is late or sent twice, no history shows more than that.
//!
//! A permit is for all that one batch needs, so no group waits for one pool with another in its hands. Groups get
//! them in the order in which they began to wait; who needs more slots of a pool than are left keeps those behind it
//! from that pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Answer, CatalogueEvent, Event, FieldError, GroupName, JobSpec, LiveAnswer, PermitEvent, PermitReport,
    Pool, PoolHolder, PoolName, PoolSpec, PoolUse, Rate, Rejection, ShardId, ShardMessage, Timestamp, bounds,
};

use super::defined::Defined;
use super::{Catalogue, check_bytes, check_count};
use crate::decision::{Decision, Ruled};
use crate::outbox::Mailbox;
use crate::rate::Starts;

const MAX_HOLDERS: usize = 1_000;

/// All pools, and who has what of those that groups share.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Pools {
    known: Defined<PoolSpec, Starts>,
    shares: BTreeMap<Key, Share>,
    turns: u64,
}

/// A group's shard, and all shared pools that one batch needs.
type Key = (ShardId, Vec<PoolUse>);

/// A pool, and what started of a shared one.
type Known = super::defined::Known<PoolSpec, Starts>;

/// The permits of one shard for one set of pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Stored)]
struct Share {
    /// Given, and not known to be used.
    fresh: u32,
    /// Known to be used, and not back.
    used: u32,
    /// What it would have of fresh ones.
    wanted: u32,
    /// Since when it waits, counted.
    turn: u64,
}

impl Share {
    fn held(self) -> u64 {
        u64::from(self.fresh) + u64::from(self.used)
    }

    fn waits(self) -> bool {
        self.wanted > self.fresh
    }
}

impl Known {
    fn rate(&self) -> Option<Rate> {
        self.accepted.spec.rate.filter(|_| self.accepted.spec.group.is_none())
    }
}

impl Pools {
    /// Whoever has to do with a pool, and what one permit takes of it.
    fn shares_of<'a>(&'a self, pool: &'a PoolName) -> impl Iterator<Item = (&'a Key, &'a Share, u32)> {
        self.shares.iter().filter_map(move |(key, share)| {
            let of = key.1.iter().find(|of| of.name == *pool)?;
            Some((key, share, of.weight))
        })
    }

    /// Those of all groups.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.known.iter().map(|known| &known.accepted).filter(|pool| pool.spec.group.is_none())
    }

    fn left(&self, known: &Known) -> u64 {
        let held = |(_, share, weight): (_, &Share, u32)| share.held() * u64::from(weight);
        let held: u64 = self.shares_of(&known.accepted.spec.name).map(held).sum();
        u64::from(known.accepted.spec.slots).saturating_sub(held)
    }

    /// Batches that its rate lets start now.
    fn starts_left(&self, known: &Known) -> u64 {
        let Some(rate) = known.rate() else { return u64::MAX };
        let fresh: u64 =
            self.shares_of(&known.accepted.spec.name).map(|(_, share, _)| u64::from(share.fresh)).sum();
        u64::from(rate.starts).saturating_sub(u64::from(known.more.count()) + fresh)
    }

    /// What started of a shared pool with a rate.
    fn rated(&mut self, name: &PoolName) -> Option<(&mut Starts, Rate)> {
        let known = self.known.get_mut(name)?;
        let rate = known.rate()?;
        Some((&mut known.more, rate))
    }

    /// How many permits more a set could get, and the pools that have not enough slots left for one.
    fn room(&self, pools: &[PoolUse]) -> (u64, Vec<PoolName>) {
        let mut room = u64::MAX;
        let mut short = Vec::new();
        for of in pools {
            let Some(known) = self.known.get(&of.name) else { continue };
            let left = self.left(known) / u64::from(of.weight.max(1));
            room = room.min(left).min(self.starts_left(known));
            // What can never be is not waited for.
            if left == 0 && of.weight <= known.accepted.spec.slots {
                short.push(of.name.clone());
            }
        }
        (room, short)
    }

    pub(super) fn next_grant(&self, mailbox: &Mailbox) -> Option<Event> {
        let mut waiting: Vec<(&Key, &Share)> =
            self.shares.iter().filter(|(_, share)| share.waits()).collect();
        waiting.sort_by_key(|(key, share)| (share.turn, *key));
        let mut kept: Vec<PoolName> = Vec::new();
        for (key, share) in &waiting {
            let needs = |name: &PoolName| key.1.iter().any(|of| of.name == *name);
            if mailbox.room(key.0) == 0 || kept.iter().any(needs) {
                continue;
            }
            let (room, short) = self.room(&key.1);
            if room == 0 {
                kept.extend(short);
                continue;
            }
            let rivals = waiting.iter().filter(|(other, _)| other.1.iter().any(|of| needs(&of.name))).count();
            let part = (room / rivals.max(1) as u64).max(1);
            let permits = share.wanted.saturating_sub(share.fresh);
            let permits = permits.min(u32::try_from(part).unwrap_or(u32::MAX));
            let permits = permits + u32::from(planted!(PermitGivenAgain));
            return Some(Event::Permit(PermitEvent::Granted { to: key.0, pools: key.1.clone(), permits }));
        }
        None
    }

    /// A rate keeps a group waiting: whose, and until when. The soonest.
    pub(super) fn next_opening(&self) -> Option<(Timestamp, PoolName)> {
        let shut = self.known.iter().filter_map(|known| {
            let name = &known.accepted.spec.name;
            let rate = known.rate().filter(|_| self.starts_left(known) == 0)?;
            let is_waited_for = self.shares_of(name).any(|(_, share, _)| share.waits());
            known.more.next_expiry(rate).filter(|_| is_waited_for).map(|at| (at, name))
        });
        shut.min().map(|(at, name)| (at, name.clone()))
    }
}

impl Catalogue {
    pub(super) fn apply_permit(&mut self, now: Timestamp, event: &PermitEvent) {
        match event {
            PermitEvent::ReportReceived { from, report } => self.permit_report_received(now, *from, report),
            PermitEvent::Granted { to, pools, permits } => {
                self.pools.turns += 1;
                let share = self.pools.shares.entry((*to, pools.clone())).or_default();
                share.fresh = share.fresh.saturating_add(*permits);
                share.turn = self.pools.turns;
                let message = ShardMessage::GrantPermits { pools: pools.clone(), permits: *permits };
                self.mailbox.send(*to, message);
            }
            PermitEvent::RateLimitReset { name } => {
                if let Some((starts, rate)) = self.pools.rated(name) {
                    starts.expire(now, rate);
                }
            }
            // Facts of group shards.
            PermitEvent::Received { .. } | PermitEvent::Reported { .. } => {}
        }
    }

    pub(super) fn define_pool(&self, spec: &PoolSpec) -> Ruled {
        check(spec)?;
        self.check_groups(&spec.group)?;
        if let Some(known) = self.pool_spec(&spec.name).filter(|known| known.group != spec.group) {
            let is = known.group.as_ref().map_or("all groups".to_owned(), |of| format!("group {of}"));
            let rule = format!("is of {is}, which stays; remove it first, or take another name");
            return Err(Rejection::field("group", &spec.name, rule));
        }
        if let Some(too_heavy) = self.users_of_pool(&spec.name, |of| of.weight > spec.slots) {
            let rule = format!("one batch of {too_heavy} needs more; lower their weight first");
            return Err(Rejection::field("slots", spec.slots, rule));
        }
        let event = |pool| CatalogueEvent::PoolDefined { pool };
        self.pools.known.define(spec.clone(), event, |version| Answer::Pool { version })
    }

    pub(super) fn delete_pool(&self, name: &PoolName) -> Ruled {
        self.pools.known.check_known(name)?;
        if let Some(users) = self.users_of_pool(name, |_| true) {
            let reason = format!("{users} use it; take it out of them first");
            return Err(Rejection::PoolInUse { pool: name.to_string(), reason });
        }
        Ok(Decision::done(CatalogueEvent::PoolDeleted { name: name.clone() }))
    }

    fn users_of_pool(&self, name: &PoolName, so: impl Fn(&PoolUse) -> bool) -> Option<String> {
        self.users_of(|job| job.spec.pools.iter().any(|of| of.name == *name && so(of)))
    }

    pub(super) fn pool_spec(&self, name: &PoolName) -> Option<&PoolSpec> {
        self.pools.known.get(name).map(|known| &known.accepted.spec)
    }

    /// Whether a job may use the pools that it names.
    pub(super) fn check_pools(&self, spec: &JobSpec) -> Result<(), FieldError> {
        check_count("pools", spec.pools.len(), bounds::POOL_USES, " pools")?;
        for (index, PoolUse { name, weight }) in spec.pools.iter().enumerate() {
            let field = format!("pools[{index}]");
            if spec.job_type.is_anchor() {
                return Err(FieldError::new(field, name, "an anchor runs on no worker; leave it out"));
            }
            let Some(pool) = self.pool_spec(name) else {
                return Err(FieldError::new(field, name, "there is no pool of that name; define it first"));
            };
            if let Some(group) = pool.group.as_ref().filter(|group| **group != spec.group) {
                return Err(FieldError::new(field, name, format!("is for jobs of group {group} only")));
            }
            if !(1..=pool.slots).contains(weight) {
                let rule = format!("must be 1 to the slots of the pool, {}", pool.slots);
                return Err(FieldError::new(format!("{field}.weight"), weight, rule));
            }
            if spec.pools[..index].iter().any(|other| other.name == *name) {
                return Err(FieldError::new(field, name, "stands twice among the pools"));
            }
        }
        Ok(())
    }

    /// Where no server is asked: every pool is there, and large enough.
    pub(super) fn suppose_pool(&mut self, name: &PoolName) {
        let spec = PoolSpec {
            name: name.clone(),
            slots: bounds::POOL_SLOTS,
            rate: None,
            group: None,
            comment: String::new(),
        };
        self.pools.known.insert(&Arc::new(Pool { version: 1, spec }), |_| Starts::default());
    }

    pub(super) fn pool_defined(&mut self, pool: &Arc<Pool>) {
        self.revision += 1;
        self.pools.known.insert(pool, |old| {
            let same = old.filter(|old| old.accepted.spec.rate == pool.spec.rate);
            same.map(|old| old.more).unwrap_or_default()
        });
        self.tell_groups(pool.spec.group.as_ref(), &ShardMessage::Pool { pool: Arc::clone(pool) });
    }

    pub(super) fn pool_deleted(&mut self, name: &PoolName) {
        self.revision += 1;
        let Some(known) = self.pools.known.remove(name) else { return };
        self.tell_groups(known.accepted.spec.group.as_ref(), &ShardMessage::DropPool { name: name.clone() });
    }

    fn permit_report_received(&mut self, now: Timestamp, from: ShardId, report: &PermitReport) {
        let key = (from, report.pools.clone());
        let share = self.pools.shares.entry(key.clone()).or_default();
        let waited = share.waits();
        share.fresh = share.fresh.saturating_sub(report.started.saturating_add(report.unused));
        share.used = share.used.saturating_add(report.started).saturating_sub(report.ended);
        share.wanted = report.wanted;
        if !waited && share.waits() {
            self.pools.turns += 1;
            share.turn = self.pools.turns;
        }
        if share.held() == 0 && share.wanted == 0 {
            self.pools.shares.remove(&key);
        }
        for of in &report.pools {
            if let Some((starts, rate)) = self.pools.rated(&of.name) {
                starts.note(now, report.started, rate);
            }
        }
    }

    /// What each group has of a shared pool.
    pub(crate) fn pool_holders(&self, name: &PoolName) -> LiveAnswer {
        let mut held: BTreeMap<ShardId, u64> = BTreeMap::new();
        for (key, share, weight) in self.pools.shares_of(name) {
            *held.entry(key.0).or_default() += share.held() * u64::from(weight);
        }
        let holder = |(group, of): (&GroupName, &super::Group)| {
            let slots = held.get(&of.shard).copied().filter(|slots| *slots > 0)?;
            Some(PoolHolder { group: group.clone(), batch: None, job: None, slots })
        };
        let mut holders: Vec<PoolHolder> = self.groups.iter().filter_map(holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.slots));
        holders.truncate(MAX_HOLDERS);
        LiveAnswer::Pool { holders }
    }
}

fn check(spec: &PoolSpec) -> Result<(), Rejection> {
    let table = [
        ("slots", Some(spec.slots), bounds::POOL_SLOTS),
        ("rate.starts", spec.rate.map(|rate| rate.starts), bounds::POOL_STARTS),
        ("rate.interval_s", spec.rate.map(|rate| rate.interval_s), bounds::POOL_INTERVAL_S),
    ];
    for (field, given, most) in table {
        if let Some(given) = given.filter(|given| !(1..=most).contains(given)) {
            return Err(Rejection::field(field, given, format!("must be 1 to {most}")));
        }
    }
    Ok(check_bytes("comment", &spec.comment, bounds::COMMENT_BYTES)?)
}
