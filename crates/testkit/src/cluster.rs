//! One machine with a worker: the real state machine, and processes that are only numbers.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use tidemill_executor::{ExitRecord, KillCause, Lease, Setup, Worker};
use tidemill_model::{
    BatchId, GroupName, Incarnation, JobId, JobType, Measure, Priority, Registration, Reserved,
    RunningAttempt, ShardId, Timestamp, Token, WorkerId, WorkerLabel,
};

use crate::rng::Rng;

/// A lease up to then has no end.
const FOREVER_MS: u64 = u64::MAX / 2;

/// A job's processes, under one shim.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) batch: BatchId,
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    /// It is no attempt, but what runs after the last one.
    pub(crate) is_final: bool,
    /// Of which worker it is; a worker that lost its directory does not know it.
    pub(crate) of: WorkerId,
    pub(crate) began: u64,
    pub(crate) natural_end: u64,
    pub(crate) exit_code: i32,
    /// Milliseconds from TERM to the end; absent: it ignores TERM.
    pub(crate) heeds_term: Option<u64>,
    pub(crate) grace_ms: u64,
    /// In the simulator's time.
    pub(crate) lease: Option<Lease>,
    pub(crate) ending: Option<Ending>,
    /// From when on it hears its worker, and the lease that waits for that.
    pub(crate) hears_from: u64,
    pub(crate) renewal: Option<Lease>,
    /// Attempts whose external work its shim ends before it begins.
    pub(crate) unconfirmed: Vec<Token>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) because: KillCause,
    pub(crate) term_at: u64,
    pub(crate) kill_at: u64,
}

impl Process {
    /// As its worker knows it.
    pub(crate) fn running(&self, token: Token) -> RunningAttempt {
        let Self { batch, job, logical_time, is_final, .. } = *self;
        RunningAttempt { token, batch, job, logical_time, is_final }
    }

    /// TERM now, KILL after the grace; the earlier of two KILLs counts.
    pub(crate) fn end(&mut self, now: u64, grace_ms: u64, because: KillCause) {
        match &mut self.ending {
            Some(ending) => ending.kill_at = ending.kill_at.min(now + grace_ms),
            None => self.ending = Some(Ending { because, term_at: now, kill_at: now + grace_ms }),
        }
    }

    /// A lease that is over stays over; one without an end gets one, and one with an end no shorter one.
    fn hear_lease(&mut self, lease: Lease) {
        if self.ending.is_none() {
            let bounded = self.lease.filter(|old| old.kill_at_ms < FOREVER_MS);
            self.lease = bounded.filter(|old| old.kill_at_ms > lease.kill_at_ms).or(Some(lease));
        }
    }

    pub(crate) fn renew(&mut self, now: u64, lease: Lease) {
        if now < self.hears_from { self.renewal = Some(lease) } else { self.hear_lease(lease) }
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> u64 {
        let waits = self.renewal.map_or(u64::MAX, |_| self.hears_from);
        let mut at = self.natural_end.min(waits);
        match &self.ending {
            Some(ending) => {
                at = at.min(ending.kill_at);
                if let Some(reaction) = self.heeds_term {
                    at = at.min(ending.term_at + reaction);
                }
            }
            None => at = self.lease.map_or(at, |lease| at.min(lease.term_at_ms)),
        }
        self.lease.map_or(at, |lease| at.min(lease.kill_at_ms))
    }

    /// How it ended, if it has.
    pub(crate) fn look(&mut self, now: u64) -> Option<ExitRecord> {
        let is_over = self.lease.is_some_and(|lease| lease.term_at_ms <= now);
        let heard = self.renewal.take_if(|_| now >= self.hears_from);
        if let Some(lease) = heard.filter(|_| !is_over) {
            self.hear_lease(lease);
        }
        if let Some(lease) = self.lease
            && self.ending.is_none()
            && lease.term_at_ms <= now
        {
            let because = KillCause::Lease;
            self.ending = Some(Ending { because, term_at: now, kill_at: lease.kill_at_ms.max(now) });
        }
        let duration_ms = now - self.began;
        let record = ExitRecord { duration_ms, ..ExitRecord::default() };
        let because = self.ending.map(|ending| ending.because);
        if let Some(ending) = self.ending {
            let heeded = self.heeds_term.is_some_and(|reaction| ending.term_at + reaction <= now);
            let leased = self.lease.is_some_and(|lease| lease.kill_at_ms <= now);
            if heeded || leased || ending.kill_at <= now {
                let signal = Some(if heeded { 15 } else { 9 });
                return Some(ExitRecord { signal, kill_cause: because, ..record });
            }
        }
        let passed = [("rows".to_owned(), self.natural_end.to_string())];
        let values = if self.natural_end.is_multiple_of(3) { BTreeMap::new() } else { passed.into() };
        (self.natural_end <= now).then_some(ExitRecord {
            exit_code: Some(self.exit_code),
            kill_cause: because,
            excess: self.excess(),
            values,
            ..record
        })
    }
}

/// What stands in the state directory about an attempt.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// Its shim was asked for.
    Wanted,
    /// It was, and is to be ended as soon as it begins.
    Unwanted {
        grace_ms: u64,
        because: KillCause,
    },
    Runs,
    Ended(Box<ExitRecord>),
    /// Its shim is gone without a word.
    Vanished,
}

pub(crate) struct Cluster {
    pub(crate) index: usize,
    pub(crate) group: GroupName,
    pub(crate) shard: ShardId,
    pub(crate) host: String,
    pub(crate) slots: BTreeMap<JobType, u32>,
    pub(crate) reserved: BTreeMap<JobType, Reserved>,
    pub(crate) worker: Option<Worker>,
    pub(crate) id: WorkerId,
    pub(crate) ids: u32,
    /// Counts the lives of the process; what is addressed to an earlier one is dropped.
    pub(crate) life: u64,
    pub(crate) boot_offset: u64,
    /// By how much its clock is faster than the simulator's, or slower.
    pub(crate) drift_ppm: i64,
    pub(crate) heartbeat_ms: u64,
    pub(crate) paused_until: u64,
    pub(crate) cut_until: u64,
    pub(crate) mute_until: u64,
    pub(crate) processes: BTreeMap<Token, Process>,
    pub(crate) directory: BTreeMap<Token, Entry>,
    /// No append lands before this, so that they keep their order.
    pub(crate) floor: u64,
    pub(crate) hear_floor: u64,
    /// Its disk is full until then.
    pub(crate) full_until: u64,
}

pub(crate) fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

pub(crate) fn public_key() -> String {
    signing_key().verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Cluster {
    /// A new life of its worker.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        let incarnation = Incarnation::new(format!("{}-life-{}", self.id, self.life));
        let registration = Registration {
            worker: self.id.clone(),
            incarnation,
            group: self.group.clone(),
            host: self.host.clone(),
            address: format!("{}:1", self.host),
            slots: self.slots.clone(),
            reserved: self.reserved.clone(),
            labels: [WorkerLabel::try_from(["even", "odd"][self.index % 2]).expect("a label")].into(),
            keeps: None,
            types: BTreeMap::new(),
            live: Vec::new(),
            running: Vec::new(),
            number: 0,
            signature: String::new(),
        };
        self.worker = Some(Worker::new(Setup {
            registration,
            signing_key: signing_key(),
            heartbeat_ms: self.heartbeat_ms,
            shard: self.shard,
            stop_grace_ms: 300,
            keeps_jobs: self.keeps_jobs(),
            max_load_percent: if self.index == 2 { 180 } else { 0 },
        }));
    }

    /// Whether what runs there goes on when its worker is stopped.
    pub(crate) fn keeps_jobs(&self) -> bool {
        self.index % 2 == 1
    }

    /// Another state directory, and so another worker.
    pub(crate) fn wipe(&mut self) {
        self.ids += 1;
        #[cfg(feature = "planted")]
        if self.ids > 1 && tidemill_planted::is(tidemill_planted::Bug::StateDirectoryWiped) {
            return self.directory.clear();
        }
        self.id = WorkerId::new(format!("w{}-{}", self.index, self.ids));
        self.directory.clear();
    }

    /// How its machine stands, which changes every few seconds.
    pub(crate) fn measure(&self, seed: u64, now: u64) -> Measure {
        let mut rng = Rng::new(seed, "machine", (now / 7_000) << 8 | self.index as u64);
        let memory_total_mb = 1_000 * (1 + self.index as u32);
        let busy = rng.chance(20);
        let (least, most_load) = if busy { (50, 500) } else { (2, 150) };
        let all = u64::from(memory_total_mb);
        let memory_free_mb = rng.range(all / least, all) as u32;
        Measure { memory_total_mb, memory_free_mb, load_percent: rng.range(0, most_load) as u32 }
    }

    pub(crate) fn boot(&self, now: u64) -> u64 {
        (now + self.boot_offset).saturating_add_signed(now as i64 * self.drift_ppm / 1_000_000)
    }

    /// The moment in the simulator's time at which its clock shows that, up to a millisecond.
    pub(crate) fn unboot(&self, at: u64) -> u64 {
        let since = at.saturating_sub(self.boot_offset);
        (u128::from(since) * 1_000_000 / (1_000_000 + self.drift_ppm) as u128).min(u128::from(u64::MAX))
            as u64
    }
}

pub(crate) fn slots(rng: &mut Rng) -> BTreeMap<JobType, u32> {
    let kinds = ["noop", "shell", "python"];
    let mut slots = BTreeMap::new();
    for kind in &kinds[..if rng.chance(70) { 3 } else { 2 }] {
        slots.insert(JobType::try_from(*kind).expect("a type"), rng.range(1, 6) as u32);
    }
    slots
}

/// What some workers keep for pinned jobs, and for those of high priority.
pub(crate) fn reserved(rng: &mut Rng, slots: &BTreeMap<JobType, u32>) -> BTreeMap<JobType, Reserved> {
    let kind = JobType::try_from("shell").expect("a type");
    let least = rng.chance(60).then(|| Priority::try_from(rng.range(0, 6) as i64).expect("0 to 9"));
    let kept = Reserved { slots: 1, priority: least };
    // One at least is left for all others, which would wait for ever.
    let can = slots.get(&kind).is_some_and(|slots| *slots > 1);
    if can && rng.chance(30) { BTreeMap::from([(kind, kept)]) } else { BTreeMap::new() }
}
