//! Who has been silent for how long, by the owner's own monotonic clock: workers (rule 9), and processes (rule 13).

use std::collections::{BTreeMap, BTreeSet};

use tidemill_engine::{Draft, GroupShard, Heartbeats, LiveRight, Partition, ReadHeartbeat};
use tidemill_model::{
    BatchEvent, Command, Envelope, Event, Heartbeat, Incarnation, InstanceId, LevelCommand, ShardId,
    Timestamp, Token, WorkerCommand, WorkerId, WorkerPresent, WorkerStatus,
};

/// One life of one worker.
pub(crate) type Life = (ShardId, WorkerId, Incarnation);

/// Who speaks.
#[derive(Debug)]
pub(crate) enum Speaker {
    /// A life of a worker.
    Worker {
        /// Which.
        life: Life,
        /// The number of its heartbeat, if it was one.
        heartbeat: Option<u64>,
        /// What it says of itself, for people.
        status: Option<Box<WorkerStatus>>,
    },
    /// A process, to the catalogue.
    Process(InstanceId),
}

/// When a life of a worker was heard of.
#[derive(Debug, Clone)]
struct Heard {
    boot_ms: u64,
    /// What it said of itself last, within bounds.
    status: Option<Box<WorkerStatus>>,
    /// The number of its newest heartbeat that was read, and when.
    heartbeat: Option<(u64, u64)>,
    /// The order of its newest sign of life that was sealed.
    sealed_sign: u64,
    /// When a sign was passed over that may have been its.
    may_live_ms: u64,
}

impl Heard {
    fn at(boot_ms: u64) -> Self {
        Self { boot_ms, status: None, heartbeat: None, sealed_sign: 0, may_live_ms: 0 }
    }
}

/// When each registered life of each worker, and each registered process, was last heard of, in this owner's time. A word
/// of an earlier life may come late, and says nothing of the present one.
///
/// *Invariant:* it has at most one entry for each process, and each life of a worker, that the state knows: words of others are not
/// kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    heard: BTreeMap<Life, Heard>,
    /// When the heartbeat of each right was read that this owner has given.
    rights: BTreeMap<(ShardId, Token), u64>,
    processes: BTreeMap<InstanceId, u64>,
    /// Everything counts from the claim at the earliest.
    since_ms: u64,
    /// Up to when commands were read last, and from when the silence of processes counts at the earliest.
    read_ms: u64,
    processes_since_ms: u64,
}

/// So long without an answer of the log is an outage: what processes sent meanwhile may not have reached it. None of them
/// counts as silent for that time. A worker does, for it goes by its lease.
const OUTAGE_MS: u64 = 10_000;

/// The heartbeats that an owner has read, at a moment.
#[derive(Debug)]
pub(crate) struct KnownHeartbeats<'a> {
    silence: &'a Silence,
    boot_ms: u64,
}

impl Heartbeats for KnownHeartbeats<'_> {
    fn last(&self, shard: ShardId, worker: &WorkerId, life: &Incarnation) -> Option<ReadHeartbeat> {
        let heard = self.silence.heard.get(&(shard, worker.clone(), life.clone()))?;
        let (number, read_ms) = heard.heartbeat?;
        Some(ReadHeartbeat { number, age_ms: self.boot_ms.saturating_sub(read_ms) })
    }
}

/// Whose word a command is. Only heartbeats and registrations carry the life that they come from, so only they
/// count.
pub(crate) fn speaker(shard: ShardId, command: &Command) -> Option<Speaker> {
    let (worker, incarnation, heartbeat, status) = match command {
        Command::Worker(WorkerCommand::Heartbeat(heartbeat)) => {
            let status = heartbeat.status.as_ref().map(|status| Box::new((**status).clone().bounded()));
            (&heartbeat.worker, &heartbeat.incarnation, Some(heartbeat.number), status)
        }
        Command::Worker(WorkerCommand::Register(registration)) => {
            (&registration.worker, &registration.incarnation, None, None)
        }
        Command::Level(LevelCommand::RegisterProcess { process, .. }) if shard == ShardId::CATALOGUE => {
            return Some(Speaker::Process(process.id.clone()));
        }
        _ => return None,
    };
    let life = (shard, worker.clone(), incarnation.clone());
    Some(Speaker::Worker { life, heartbeat, status })
}

/// A sign of life of a worker.
#[derive(Debug)]
pub(crate) struct Sign {
    life: Life,
    /// Its place among those of that life. A registration comes between two heartbeats.
    place: u64,
    /// The number of a heartbeat.
    heartbeat: Option<u64>,
}

impl Sign {
    /// Nothing where the command is none.
    pub(crate) fn of(shard: ShardId, command: &Command) -> Option<Self> {
        let Command::Worker(command) = command else { return None };
        let (worker, life, place, heartbeat) = match command {
            WorkerCommand::Heartbeat(heartbeat) => {
                let Heartbeat { worker, incarnation, number, .. } = heartbeat;
                (worker, incarnation, number.saturating_mul(2), Some(*number))
            }
            WorkerCommand::Register(registration) => {
                let place = registration.number.saturating_mul(2).saturating_add(1);
                (&registration.worker, &registration.incarnation, place, None)
            }
            _ => return None,
        };
        Some(Self { life: (shard, worker.clone(), life.clone()), place, heartbeat })
    }
}

impl Silence {
    /// Whether a sealed command says more than that its worker lived when an earlier one was sent.
    pub(crate) fn is_new_sign(&self, sign: Option<&Sign>) -> bool {
        let Some(Sign { life, place, .. }) = sign else { return true };
        self.heard.get(life).is_none_or(|heard| *place > heard.sealed_sign)
    }

    /// Whether this owner has taken a sealed sign of this life: it knows this owner's key, then, and seals for no other.
    pub(crate) fn has_sealed(&self, life: &Life) -> bool {
        self.heard.get(life).is_some_and(|heard| heard.sealed_sign > 0)
    }

    /// A sign of the present life was passed over that its worker may have sent before it heard of this owner's key. It goes by its
    /// lease from then on, so the lease is not over earlier; for everything else it was not heard.
    pub(crate) fn may_live(&mut self, life: Life, boot_ms: u64) {
        self.heard.entry(life).or_insert(Heard::at(self.since_ms)).may_live_ms = boot_ms;
    }

    /// A life that another one has replaced, so its registration came late or twice, lives: what it was granted may run. The lease of
    /// the present life, which is that of all that the worker holds, is not over then.
    pub(crate) fn hear_replaced(
        &mut self,
        group: &GroupShard,
        life: &Life,
        sealed: Option<&Sign>,
        boot_ms: u64,
    ) {
        let (shard, worker, replaced) = life;
        let present = group.life_of(worker).filter(|_| group.has_ended(worker, replaced));
        let Some(present) = present.cloned() else { return };
        let present = (*shard, worker.clone(), present);
        let counts = match sealed {
            Some(_) => self.is_new_sign(sealed),
            // Who seals for this owner does not end to; and where the worker knows the key, all of its lives do.
            None => !self.has_sealed(life) && !self.has_sealed(&present),
        };
        if counts {
            self.may_live(present, boot_ms);
        }
        if let Some(sign) = sealed {
            let heard = self.heard.entry(life.clone()).or_insert(Heard::at(boot_ms));
            heard.sealed_sign = heard.sealed_sign.max(sign.place);
        }
    }

    /// Notes a sealed sign of life, after it was heard. What was heard before the first one may be anybody's.
    pub(crate) fn note_sealed(&mut self, sign: &Sign, boot_ms: u64) {
        let Some(heard) = self.heard.get_mut(&sign.life) else { return };
        if let (0, Some(number)) = (heard.sealed_sign, sign.heartbeat) {
            heard.heartbeat = Some((number, boot_ms));
        }
        heard.sealed_sign = heard.sealed_sign.max(sign.place);
    }

    /// A question for this assignment may have been asked for another owner. Its right ends by its worker's word or lease alone.
    pub(crate) fn doubt_right(&mut self, shard: ShardId, token: Token) {
        self.rights.insert((shard, token), u64::MAX);
    }

    pub(crate) fn start(&mut self, boot_ms: u64) {
        self.heard.clear();
        self.rights.clear();
        self.processes.clear();
        self.since_ms = boot_ms;
        self.read_ms = boot_ms;
        self.processes_since_ms = boot_ms;
    }

    /// Notes a word of a life that the state knows as the worker's present one, or of a registered process.
    pub(crate) fn hear(&mut self, speaker: Speaker, boot_ms: u64) {
        match speaker {
            Speaker::Worker { life, heartbeat, status } => {
                let known = self.heard.entry(life).or_insert(Heard::at(boot_ms));
                known.boot_ms = boot_ms;
                known.status = status.or(known.status.take());
                // An older one says nothing new: it was sent earlier than the newest.
                if let Some(number) =
                    heartbeat.filter(|number| known.heartbeat.is_none_or(|(last, _)| *number > last))
                {
                    known.heartbeat = Some((number, boot_ms));
                }
            }
            Speaker::Process(id) => {
                self.processes.insert(id, boot_ms);
            }
        }
    }

    /// What this owner has heard of a worker's life, at `boot_ms`.
    pub(crate) fn tell(&self, life: &Life, boot_ms: u64, present: &mut WorkerPresent) {
        let Some(heard) = self.heard.get(life) else { return };
        let read_ms = heard.heartbeat.map(|(_, read_ms)| read_ms);
        present.heartbeat_age_ms = read_ms.map(|read_ms| boot_ms.saturating_sub(read_ms));
        present.status = heard.status.as_deref().cloned();
    }

    /// Notes the rights that an envelope gives; each counts from the reading of its worker's newest heartbeat, if not of its
    /// own, which was read no later.
    pub(crate) fn note_rights(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            if let Event::Batch(BatchEvent::AssignedWithRight { token, worker, right, .. }) = &recorded.event
            {
                let life = (recorded.shard, worker.clone(), right.incarnation.clone());
                let read = self.heard.get(&life).and_then(|heard| heard.heartbeat);
                if let Some((_, read_ms)) = read {
                    self.rights.insert((recorded.shard, *token), read_ms);
                }
            }
        }
    }

    /// Rights that are over at `boot_ms`, up to which all commands have been read.
    pub(crate) fn rights_over(&mut self, partition: &Partition, boot_ms: u64) -> Vec<(ShardId, Command)> {
        let mut over = Vec::new();
        let mut live_now = BTreeSet::new();
        for group in partition.groups() {
            for LiveRight { token, over_after_ms } in group.live_rights() {
                let place = (group.id(), token);
                // That of an earlier owner counts from the claim.
                let since = self.rights.get(&place).copied().unwrap_or(self.since_ms);
                if boot_ms.saturating_sub(since) > over_after_ms {
                    over.push((group.id(), Command::Worker(WorkerCommand::EndStartRight { token })));
                }
                live_now.insert(place);
            }
        }
        self.rights.retain(|place, _| live_now.contains(place));
        over
    }

    /// What the state asks for by itself; assignments carry rights only if `rights`.
    pub(crate) fn due(&self, draft: &mut Draft<'_>, horizon: Timestamp, boot_ms: u64, rights: bool) {
        match rights {
            true => draft.due(horizon, &KnownHeartbeats { silence: self, boot_ms }),
            false => draft.due(horizon, &()),
        }
    }

    /// What follows at `boot_ms`, up to which all commands have been read: workers to declare lost, leases
    /// that are over, each by the longest lease that its worker may go by.
    pub(crate) fn overdue(&mut self, partition: &Partition, boot_ms: u64) -> Vec<(ShardId, Command)> {
        if boot_ms.saturating_sub(std::mem::replace(&mut self.read_ms, boot_ms)) > OUTAGE_MS {
            self.processes_since_ms = boot_ms;
        }
        // Before the losses: what is over then need not wait for them.
        let mut overdue = self.rights_over(partition, boot_ms);
        let mut live_now = BTreeSet::new();
        for group in partition.groups() {
            let (id, lost_after_ms) = (group.id(), group.settings().lost_after_ms);
            for live in group.live_workers() {
                let lease_ms = if planted!(LeaseCutShort) { Some(0) } else { live.lease_ends_after_ms };
                let life = (id, live.worker, live.incarnation);
                let heard = self.heard.get(&life);
                let last = heard.map_or(self.since_ms, |heard| heard.boot_ms);
                let may_live_ms = heard.map_or(0, |heard| heard.may_live_ms);
                let silent = boot_ms.saturating_sub(last);
                let unheard_ms = silent.min(boot_ms.saturating_sub(may_live_ms));
                let (worker, incarnation) = (life.1.clone(), life.2.clone());
                live_now.insert(life);
                if !live.lost && silent > lost_after_ms {
                    overdue.push((id, Command::Worker(WorkerCommand::DeclareLost { worker, incarnation })));
                } else if live.lost && lease_ms.is_some_and(|lease_ms| unheard_ms > lease_ms) {
                    overdue.push((id, Command::Worker(WorkerCommand::ExpireLease { worker, incarnation })));
                } else if live.owes_warning && lease_ms.is_some_and(|lease_ms| silent > lease_ms / 2) {
                    overdue.push((id, Command::Worker(WorkerCommand::WarnOfLease { worker, incarnation })));
                }
            }
        }
        let is_replaced = |(shard, worker, life): &Life| {
            partition.group(*shard).is_some_and(|group| group.has_ended(worker, life))
        };
        self.heard.retain(|life, heard| {
            let is_live = live_now.contains(life);
            if !is_live {
                heard.status = None;
            }
            is_live || is_replaced(life)
        });
        overdue.extend(self.overdue_processes(partition, boot_ms));
        overdue
    }

    /// Processes that have been silent for longer than they said they would be.
    fn overdue_processes(&mut self, partition: &Partition, boot_ms: u64) -> Vec<(ShardId, Command)> {
        let Some(catalogue) = partition.catalogue() else {
            self.processes.clear();
            return Vec::new();
        };
        let since = self.processes_since_ms;
        let last = |id: &InstanceId| self.processes.get(id).map_or(since, |heard| since.max(*heard));
        let expire = |process: &InstanceId| {
            let process = process.clone();
            (ShardId::CATALOGUE, Command::Level(LevelCommand::ExpireProcess { process }))
        };
        let silent = catalogue.processes();
        let silent = silent.filter(|(id, after_ms)| boot_ms.saturating_sub(last(id)) > *after_ms);
        let overdue = silent.map(|(id, _)| expire(id)).collect();
        self.processes.retain(|id, _| catalogue.has_process(id));
        overdue
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heard.len()
    }
}
