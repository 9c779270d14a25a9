//! Workers come, fall silent, come back, and stop taking work.
//!
//! How long after its last word something may still run on one: it goes by the bounds that it was told when it registered,
//! whatever became of the group's since. The journal says which those were (`WorkerRegistered`), and only they can tell when
//! its silence is long enough.

use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::{Signature, VerifyingKey};
use tidemill_derive::Stored;
use tidemill_model::{
    Event, GroupSettings, Heartbeat, Incarnation, JobType, Level, OnSilence, Registration, Rejection,
    Timestamp, Token, TypeStatus, WorkMessage, WorkerEvent, WorkerId,
};

use crate::decision::Decision;
use crate::group::workers::ended_lives::EndedLives;
use crate::group::workers::machine::heard;
use crate::group::workers::settle::SettleCause;
use crate::group::workers::{Demand, Slots, Worker, Workers};
use crate::group::{Group, GroupShard};

const MAX_WORKERS: usize = 10_000;
const MAX_TYPES: usize = 64;
const MAX_SLOTS: u32 = 100_000;
const MAX_LABELS: usize = 64;

/// What the silence of a worker leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
pub(crate) struct Lease {
    /// When it got no acknowledgement for so many milliseconds, margin included, it has killed what it ran; `None`: what
    /// it runs runs on, however long it is silent.
    pub(in crate::group) ends_after_ms: Option<u64>,
}

impl Lease {
    /// Of a worker that goes by these bounds.
    pub(crate) fn of(settings: &GroupSettings) -> Self {
        let ends_after_ms = match settings.on_silence {
            OnSilence::Kill => Some(settings.lease_ms.saturating_add(settings.lease_margin_ms)),
            OnSilence::Hold => None,
        };
        Self { ends_after_ms }
    }

    /// Of a worker that goes by one of the two, and nobody knows by which.
    fn or_longer(self, other: Self) -> Self {
        let both = self.ends_after_ms.zip(other.ends_after_ms);
        Self { ends_after_ms: both.map(|(ms, other)| ms.max(other)) }
    }
}

/// What one worker was told, in its present life and before.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Told {
    /// The bounds that the answer to its last registration gives.
    pub(crate) settings: GroupSettings,
    /// The longest lease that this life was told. An answer may be lost or late, so any of them may count.
    life: Lease,
    /// The same of earlier lives, while something that they held may not have ended.
    earlier: Option<Lease>,
}

impl Told {
    /// A first life that holds nothing.
    pub(crate) fn new(settings: GroupSettings) -> Self {
        Self { life: Lease::of(&settings), settings, earlier: None }
    }

    /// The same life asked again.
    pub(crate) fn again(self, settings: GroupSettings) -> Self {
        Self { life: self.life.or_longer(Lease::of(&settings)), settings, earlier: self.earlier }
    }

    /// Another life began while attempts of this one were not known to have ended.
    pub(crate) fn reborn(self, settings: GroupSettings) -> Self {
        let earlier = Some(self.lease());
        Self { life: Lease::of(&settings), settings, earlier }
    }

    /// Something that it holds may run on, however long it is silent, also in a life that this log has lost.
    pub(crate) fn hold(&mut self) {
        self.earlier = Some(Lease { ends_after_ms: None });
    }

    /// All that earlier lives held has ended.
    pub(crate) fn forget_earlier(&mut self) {
        self.earlier = None;
    }

    /// What silence means for everything that the worker holds.
    pub(crate) fn lease(&self) -> Lease {
        self.earlier.map_or(self.life, |earlier| self.life.or_longer(earlier))
    }
}

impl Workers {
    pub(crate) fn declare_lost(&self, worker: &WorkerId, incarnation: &Incarnation) -> Decision {
        let known = self.get(worker);
        let counts = |known: &Worker| known.incarnation == *incarnation && !known.lost && !known.expired;
        if !known.is_some_and(counts) {
            return Decision::nothing();
        }
        let (worker, incarnation) = (worker.clone(), incarnation.clone());
        Decision::of(WorkerEvent::Lost { worker, incarnation })
    }

    /// Drains it, or lets it take work again.
    pub(crate) fn drain_worker(&self, worker: &WorkerId, drained: bool) -> Result<Decision, Rejection> {
        let known = self.get(worker).ok_or_else(|| Rejection::unknown("worker", worker))?;
        if known.drained == drained {
            return Ok(Decision::nothing());
        }
        let worker = worker.clone();
        let event = if drained { WorkerEvent::Drained { worker } } else { WorkerEvent::Resumed { worker } };
        Ok(Decision::of(event))
    }
}

impl GroupShard {
    /// EXE-11: only with the group's key.
    pub(crate) fn register_worker(&self, registration: &Registration) -> Result<Decision, Rejection> {
        let group = self.group.as_ref().ok_or_else(|| Rejection::unknown("group", &registration.group))?;
        check_registration(group, registration)?;
        let known = self.workers.get(&registration.worker);
        if known.is_none() && self.workers.iter().filter(|(_, worker)| !worker.expired).count() >= MAX_WORKERS
        {
            let what = format!("group {}: its number of workers", group.name);
            return Err(Rejection::limit(what, MAX_WORKERS as u64));
        }
        if known.is_some_and(|known| known.incarnation == registration.incarnation && known.expired) {
            return Err(bad(registration, "the lease of this life is over; start as a new one"));
        }
        if self.has_ended(&registration.worker, &registration.incarnation) && !planted!(EndedLifeRegisters) {
            return Err(bad(registration, "another life has replaced this one; start as a new one"));
        }
        let drained = self.drained_with_its_host(&registration.worker, &registration.host);
        let registered = WorkerEvent::Registered {
            worker: registration.worker.clone(),
            incarnation: registration.incarnation.clone(),
            host: registration.host.clone(),
            address: registration.address.clone(),
            slots: registration.slots.clone(),
            labels: registration.labels.clone(),
            settings: Some(Box::new(GroupSettings {
                accounts: None,
                limits: None,
                ..group.settings.clone()
            })),
            reserved: registration.reserved.clone(),
            keeps: registration.keeps,
            types: TypeStatus::bounded(&registration.types),
        };
        let strays = self.strays_of(registration);
        Ok(Decision::events([registered.into()].into_iter().chain(drained).chain(strays).collect()))
    }

    /// Makes an event only when a lost worker turns out to live, or its machine stands otherwise; an unknown one
    /// is told to register.
    pub(crate) fn heartbeat(&self, heartbeat: &Heartbeat, now: Timestamp) -> Decision {
        let Heartbeat { worker, incarnation, measure, .. } = heartbeat;
        let unregistered = || {
            let message =
                WorkMessage::Unregistered { incarnation: incarnation.clone(), shard: Some(self.id) };
            Decision::nothing().telling(worker, message)
        };
        match self.workers.get(worker) {
            // Its registration says what it runs of a life that is lost.
            Some(known) if known.unheard => unregistered(),
            Some(known) if known.incarnation == *incarnation && !known.expired => {
                let found = || {
                    let (worker, incarnation) = (worker.clone(), incarnation.clone());
                    Event::Worker(WorkerEvent::Recovered { worker, incarnation })
                };
                let measured = measure.and_then(|measure| self.measured(worker, measure, now));
                let turned = heard(known, heartbeat);
                let over = self.over_limit_while_running(heartbeat);
                let work = self.external_work_while_running(heartbeat);
                let found = known.lost.then(found).into_iter();
                let said = found.chain(measured).chain(turned).chain(over).chain(work);
                Decision::events(said.chain(self.departure(known, heartbeat)).collect())
            }
            Some(_) | None => unregistered(),
        }
    }

    /// The answer to a registration: everything outstanding for the worker.
    pub(crate) fn registered_message(&self, worker: &WorkerId) -> Option<WorkMessage> {
        let known = self.workers.get(worker)?;
        let is_granted = |token: &Token| match self.batches.of_token(*token) {
            Some(id) => {
                self.batches.get(&id).is_some_and(|batch| batch.grant().is_some()) || self.is_by_word(*token)
            }
            None => self.final_commands.is_granted(*token) || self.strays.has(*token),
        };
        Some(WorkMessage::Registered {
            incarnation: known.incarnation.clone(),
            shard: self.id,
            settings: known.told.settings.clone(),
            granted: self.tokens_of(worker).filter(is_granted).collect(),
        })
    }

    /// EXE-8: the lease of a lost worker is over, so nothing of it runs any more, unless it was told to hold.
    pub(crate) fn expire_lease(&self, worker: &WorkerId, incarnation: &Incarnation) -> Decision {
        let lost = |known: &Worker| known.incarnation == *incarnation && known.lost && !known.expired;
        let ends = |known: &Worker| lost(known) && self.lease_of(known).ends_after_ms.is_some();
        if !self.workers.get(worker).is_some_and(ends) {
            return Decision::nothing();
        }
        let (worker, incarnation) = (worker.clone(), incarnation.clone());
        Decision::of(WorkerEvent::LeaseExpired { worker, incarnation })
    }

    /// Counts what the tokens hold of the slots, and says how much memory they reserve, MiB.
    fn occupy(&self, slots: &mut BTreeMap<JobType, Slots>, tokens: &BTreeSet<Token>) -> u32 {
        let demand = |token: &Token| match self.batches.of_token(*token) {
            Some(id) => self.batches.get(&id).map(|batch| Demand::of(&batch.definition)),
            None => self.final_commands.demand(*token),
        };
        let mut reserved_mb = 0_u32;
        for demand in tokens.iter().filter_map(demand) {
            reserved_mb = reserved_mb.saturating_add(demand.memory_mb);
            if let Some(slot) = slots.get_mut(demand.job_type) {
                slot.count(&demand, true);
            }
        }
        reserved_mb
    }

    /// By which public key a worker that registers now seals its reports. The group may have another one later.
    fn seals_by(&self) -> Option<String> {
        let group = self.group.as_ref().filter(|_| self.level().allows(Level::SEALED_REPORTS));
        group.map(|group| group.worker_key.clone())
    }

    pub(super) fn worker_registered(&mut self, now: Timestamp, event: &WorkerEvent) {
        let WorkerEvent::Registered {
            worker,
            incarnation,
            host,
            address,
            slots,
            labels,
            settings,
            reserved,
            ..
        } = event
        else {
            return;
        };
        let settings = settings.as_deref().cloned().unwrap_or_else(|| self.settings());
        let old = self.workers.get(worker);
        let (is_new, same_life) = (old.is_none(), old.is_some_and(|old| old.incarnation == *incarnation));
        let tokens = old.map(|old| old.tokens.clone()).unwrap_or_default();
        let drained = old.is_some_and(|old| old.drained);
        let told = match old.map(|old| old.told.clone()) {
            Some(told) if same_life => told.again(settings),
            Some(told) if !tokens.is_empty() => told.reborn(settings),
            Some(_) | None => Told::new(settings),
        };
        let ended_lives = old.map_or_else(EndedLives::default, |old| match same_life {
            true => old.ended_lives.clone(),
            false => old.ended_lives.clone().followed_by(incarnation, &old.incarnation),
        });
        let slots_of = |kind, max| Slots { max, used: 0, reserved: reserved.get(kind).copied(), common: 0 };
        let mut slots: BTreeMap<_, _> =
            slots.iter().map(|(kind, max)| (kind.clone(), slots_of(kind, *max))).collect();
        let reserved_mb = self.occupy(&mut slots, &tokens);
        let (machine, turned) = old.map(|old| (old.machine, old.turned)).unwrap_or_default();
        let unready = old.filter(|_| same_life).and_then(|old| old.unready.clone());
        let expired = same_life && old.is_some_and(|old| old.expired);
        let leaving = same_life && old.is_some_and(|old| old.leaving);
        if is_new && self.workers.len() >= MAX_WORKERS {
            self.workers.forget_expired();
        }
        let known = Worker {
            incarnation: incarnation.clone(),
            ended_lives,
            host: host.clone(),
            address: address.clone(),
            slots,
            labels: labels.clone(),
            drained,
            unready,
            leaving,
            unheard: false,
            lost: false,
            warned: false,
            expired,
            // A life that has begun to seal does not end to: a level is never taken back.
            seals_by: self.seals_by(),
            turned,
            tokens,
            told,
            reserved_mb,
            machine,
        };
        self.workers.insert(worker.clone(), known);
        self.workers.turn(now, worker, |_| {});
        match (same_life, self.workers.has_dead_life(worker)) {
            // What its dead life had is ended whoever the worker is now.
            (_, true) => {}
            // A repeat says nothing new of what an earlier life had.
            (true, false) => self.workers.keep_what_was_lost(worker),
            (false, false) => self.unsettle(worker, SettleCause::Restarted),
        }
    }
}

fn bad(registration: &Registration, reason: &str) -> Rejection {
    Rejection::BadRegistration { worker: registration.worker.to_string(), reason: reason.to_owned() }
}

fn check_registration(group: &Group, registration: &Registration) -> Result<(), Rejection> {
    if registration.group != group.name {
        return Err(bad(registration, &format!("this shard works for group {}", group.name)));
    }
    if registration.slots.is_empty() || registration.slots.len() > MAX_TYPES {
        return Err(bad(registration, "it must offer 1 to 64 job types"));
    }
    if registration.slots.values().any(|slots| *slots == 0 || *slots > MAX_SLOTS) {
        return Err(bad(registration, "slots of a type must be 1 to 100000"));
    }
    for (job_type, reserved) in &registration.reserved {
        let slots = registration.slots.get(job_type).copied().unwrap_or(0);
        if reserved.slots == 0 || reserved.slots > slots {
            let rule = format!(
                "it reserves {} of its {slots} slots for {job_type}; 1 to all can be",
                reserved.slots
            );
            return Err(bad(registration, &rule));
        }
    }
    if registration.labels.len() > MAX_LABELS {
        return Err(bad(registration, "it can have at most 64 labels"));
    }
    let too_long = |text: &str| text.is_empty() || text.len() > 255;
    let texts = [
        registration.worker.as_str(),
        registration.incarnation.as_str(),
        &registration.host,
        &registration.address,
    ];
    if texts.into_iter().any(too_long) {
        return Err(bad(registration, "worker, incarnation, host and address must be 1 to 255 bytes"));
    }
    let text =
        Registration::signed_text(&registration.group, &registration.worker, &registration.incarnation);
    let signed = key(&group.worker_key)
        .zip(bytes::<64>(&registration.signature).map(|bytes| Signature::from_bytes(&bytes)))
        .is_some_and(|(key, signature)| key.verify_strict(text.as_bytes(), &signature).is_ok());
    if signed { Ok(()) } else { Err(bad(registration, "its signature is not by the group's key")) }
}

fn key(hex: &str) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(&bytes::<32>(hex)?).ok()
}

pub(crate) fn is_public_key(hex: &str) -> bool {
    // Of a weak one, as 64 zeros, signatures can be made without the private half.
    key(hex).is_some_and(|key| !key.is_weak())
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    if hex.len() != 2 * N || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
