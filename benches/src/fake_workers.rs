//! Workers without processes: they speak the worker's protocol over the real log, as many as are wanted in this
//! process, and an attempt of theirs does nothing but take its time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ed25519_dalek::{Signer, SigningKey};
use tidemill_journal::now;
use tidemill_log::{From, Log, Producer, Reader, Topic, partition_of_key};
use tidemill_model::{
    Actor, AttemptOutcome, Command, CommandRecord, Heartbeat, Incarnation, JobName, JobType, Nonce,
    Registration, RunSpec, ShardId, StartRequest, Timestamp, Token, WorkMessage, WorkerCommand, WorkerId,
    hex,
};

use tidemill_seal::{GroupSecret, OwnersKey, SealKey};

use crate::fixture::group;

/// A third of the silence after which a worker is lost.
const HEARTBEAT: Duration = Duration::from_secs(10);
const READ_AT_ONCE: usize = 2_048;
const LONGEST_READ: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(300);
/// While something is waited for. Not told of each change, for there are thousands a second.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How many workers, and what they do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) workers: usize,
    pub(crate) slots: u32,
    pub(crate) attempt: Duration,
}

/// What the workers have seen of one another's work, each in the order in which it came to pass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When a worker had read of its assignment.
    pub(crate) assigned: Vec<(Token, Timestamp)>,
    /// When a worker sent the report of an end.
    pub(crate) freed: Vec<Timestamp>,
    granted: BTreeMap<JobName, usize>,
    known: usize,
    failed: Option<String>,
}

impl Seen {
    /// Starts of batches of a job with this name.
    pub(crate) fn granted(&self, name: &str) -> usize {
        self.granted.iter().filter(|(job, _)| job.as_str() == name).map(|(_, count)| count).sum()
    }

    /// Every assignment has been granted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.assigned.len() == self.granted.values().sum::<usize>()
    }
}

struct Shared {
    terms: Terms,
    log: Arc<dyn Log>,
    producer: Arc<dyn Producer>,
    shard: ShardId,
    key: SigningKey,
    /// What workers seal with, once an owner has said its key.
    seals: Mutex<BTreeMap<WorkerId, SealKey>>,
    seen: Mutex<Seen>,
    /// Attempts go on, however long they have run.
    holds: AtomicBool,
    stops: AtomicBool,
    heartbeats: AtomicUsize,
}

pub(crate) struct FakeWorkers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl FakeWorkers {
    /// Gives workers that an owner knows: they have slots for type noop.
    pub(crate) fn start(
        terms: Terms,
        log: &Arc<dyn Log>,
        shard: ShardId,
        key: SigningKey,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            terms,
            log: Arc::clone(log),
            producer: log.producer()?,
            shard,
            key,
            seals: Mutex::default(),
            seen: Mutex::default(),
            holds: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            heartbeats: AtomicUsize::new(0),
        });
        let count = log.partitions(Topic::Work);
        let mut by_partition: BTreeMap<u32, Vec<WorkerId>> = BTreeMap::new();
        for number in 0..terms.workers {
            let id = format!("fake_workers-{number:05}");
            by_partition.entry(partition_of_key(&id, count)).or_default().push(WorkerId::new(id));
        }
        let mut threads = Vec::new();
        for (partition, workers) in by_partition {
            // From the end on, and before they register: they hear the answer.
            let reader = log.reader(Topic::Work, partition, From::End)?;
            let shared = Arc::clone(&shared);
            let run = move || Shift { shared, workers, running: VecDeque::new() }.run(reader);
            threads.push(thread::Builder::new().name(format!("fake_workers-{partition}")).spawn(run)?);
        }
        let fake_workers = Self { shared, threads };
        fake_workers.until("every worker is known", |seen| seen.known >= terms.workers)?;
        Ok(fake_workers)
    }

    /// Waits until so many batches of a job with this name have been granted in all.
    pub(crate) fn until_granted(&self, name: &str, count: usize) -> anyhow::Result<()> {
        self.until(&format!("{count} of {name} are granted"), |seen| seen.granted(name) >= count)
    }

    /// Waits until this holds of what has been seen.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.look(&holds) {
            if let Some(failed) = self.look(|seen| seen.failed.clone()) {
                anyhow::bail!("the workers failed: {failed}");
            }
            anyhow::ensure!(Instant::now() < deadline, "not after {} s: {what}", PATIENCE.as_secs());
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Looks at what has been seen so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen())
    }

    /// No attempt ends until work goes on.
    pub(crate) fn hold(&self) {
        self.shared.holds.store(true, Ordering::Release);
    }

    pub(crate) fn go_on(&self) {
        self.shared.holds.store(false, Ordering::Release);
    }

    pub(crate) fn stop(self) {
        self.shared.stops.store(true, Ordering::Release);
        for thread in self.threads {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn tell(&self, worker: &WorkerId, command: WorkerCommand) {
        let command = Command::Worker(command);
        let actor = Actor { app: "worker".into(), user: None };
        let record = CommandRecord { shard: self.shard, request: None, reply_to: None, actor, command };
        let body = serde_json::to_vec(&record).expect("a command is always JSON");
        let value = match self.seals().get(worker) {
            Some(key) => key.seal(body),
            None => body,
        };
        let partition = self.shard.partition(self.log.partitions(Topic::Commands));
        let key = self.shard.to_string();
        let producer = self.producer.as_ref();
        crate::raw::append_when_there_is_room(producer, Topic::Commands, partition, key.as_bytes(), value);
    }

    fn seals(&self) -> MutexGuard<'_, BTreeMap<WorkerId, SealKey>> {
        self.seals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner seals with this key.
    fn seal(&self, worker: WorkerId, key: &str) {
        let secret = OwnersKey::from_hex(key).and_then(|key| GroupSecret::of_worker(&self.key, &key));
        if let Some(secret) = secret {
            let key = secret.life(&group(), &worker, &Self::incarnation());
            self.seals().insert(worker, key);
        }
    }

    fn see(&self, see: impl FnOnce(&mut Seen)) {
        see(&mut self.seen());
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incarnation() -> Incarnation {
        Incarnation::new("1")
    }

    fn registration(&self, worker: &WorkerId) -> Registration {
        let text = Registration::signed_text(&group(), worker, &Self::incarnation());
        let noop = JobType::try_from("noop").expect("is a name");
        Registration {
            worker: worker.clone(),
            incarnation: Self::incarnation(),
            group: group(),
            host: format!("host-{worker}"),
            address: "127.0.0.1:1".to_owned(),
            slots: BTreeMap::from([(noop, self.terms.slots)]),
            reserved: BTreeMap::new(),
            labels: Default::default(),
            keeps: None,
            types: BTreeMap::new(),
            live: Vec::new(),
            running: Vec::new(),
            number: 0,
            signature: hex(&self.key.sign(text.as_bytes()).to_bytes()),
        }
    }

    fn heartbeat(&self, worker: &WorkerId) -> WorkerCommand {
        WorkerCommand::Heartbeat(Heartbeat {
            worker: worker.clone(),
            incarnation: Self::incarnation(),
            number: self.heartbeats.fetch_add(1, Ordering::Relaxed) as u64,
            measure: None,
            unready: None,
            excesses: Vec::new(),
            leaving: None,
            external_work: Vec::new(),
            status: None,
        })
    }
}

/// The workers of one partition of the work topic.
struct Shift {
    shared: Arc<Shared>,
    workers: Vec<WorkerId>,
    /// In the order in which they end, for all take equally long.
    running: VecDeque<(Instant, Token, WorkerId)>,
}

impl Shift {
    fn run(&mut self, mut reader: Box<dyn Reader>) {
        for worker in &self.workers {
            let registration = Box::new(self.shared.registration(worker));
            self.shared.tell(worker, WorkerCommand::Register(registration));
            self.shared.tell(worker, self.shared.heartbeat(worker));
        }
        let (begun, mut heartbeats) = (Instant::now(), 0);
        while !self.shared.stops.load(Ordering::Acquire) {
            match reader.poll(READ_AT_ONCE, self.until_next_end()) {
                Ok(records) => records.iter().for_each(|record| self.hear(&record.key, &record.value)),
                Err(error) => return self.shared.see(|seen| seen.failed = Some(error.to_string())),
            }
            self.end_attempts();
            // Evenly over the time: worker after worker.
            let due = begun.elapsed().as_secs_f64() / HEARTBEAT.as_secs_f64() * self.workers.len() as f64;
            while heartbeats < due as usize {
                let worker = &self.workers[heartbeats % self.workers.len()];
                self.shared.tell(worker, self.shared.heartbeat(worker));
                heartbeats += 1;
            }
        }
    }

    fn until_next_end(&self) -> Duration {
        let next = self.running.front().filter(|_| !self.shared.holds.load(Ordering::Acquire));
        let left = next.map(|(end, ..)| end.saturating_duration_since(Instant::now()));
        left.map_or(LONGEST_READ, |left| left.min(LONGEST_READ))
    }

    fn hear(&mut self, key: &[u8], value: &[u8]) {
        let worker = WorkerId::new(String::from_utf8_lossy(key));
        let message = match serde_json::from_slice(value) {
            Ok(message) => message,
            Err(error) => return self.shared.see(|seen| seen.failed = Some(error.to_string())),
        };
        match message {
            WorkMessage::Registered { .. } => self.shared.see(|seen| seen.known += 1),
            WorkMessage::Unregistered { .. } => {
                self.shared.see(|seen| seen.failed = Some(format!("{worker} is not known any more")));
            }
            WorkMessage::Assigned { token, .. } => self.ask(token, worker),
            WorkMessage::Granted { spec, .. } => self.start(*spec, worker),
            // A no-op starts as soon as it has asked.
            WorkMessage::AssignedWithRight { spec, .. } => {
                self.ask(spec.token, worker.clone());
                self.start(*spec, worker);
            }
            WorkMessage::SealReports { key, .. } => {
                self.shared.seal(worker.clone(), &key);
                // What went with its registration was passed over.
                self.shared.tell(&worker, self.shared.heartbeat(&worker));
            }
            WorkMessage::Confirmed { .. }
            | WorkMessage::AskedBack { .. }
            | WorkMessage::Refused { .. }
            | WorkMessage::Kill { .. }
            | WorkMessage::Recorded { .. } => {}
        }
    }

    fn ask(&self, token: Token, worker: WorkerId) {
        let now = now();
        let (incarnation, nonce) = (Shared::incarnation(), Nonce::new(token.to_string()));
        let request = StartRequest { token, worker: worker.clone(), incarnation, nonce };
        self.shared.tell(&worker, WorkerCommand::RequestStart(request));
        self.shared.see(|seen| seen.assigned.push((token, now)));
    }

    fn start(&mut self, spec: RunSpec, worker: WorkerId) {
        let token = spec.token;
        self.shared.tell(&worker, WorkerCommand::ReportStarted { token, worker: worker.clone() });
        self.shared.see(|seen| *seen.granted.entry(spec.job_name).or_default() += 1);
        self.running.push_back((Instant::now() + self.shared.terms.attempt, token, worker));
    }

    fn end_attempts(&mut self) {
        while !self.shared.holds.load(Ordering::Acquire)
            && let Some((_, token, worker)) = self.running.pop_front_if(|(end, ..)| *end <= Instant::now())
        {
            let outcome = AttemptOutcome::success();
            let now = now();
            let of = worker.clone();
            let finished = WorkerCommand::ReportFinished {
                token,
                worker,
                outcome,
                usage: None,
                interrupted: false,
                external: None,
            };
            self.shared.tell(&of, finished);
            self.shared.see(|seen| seen.freed.push(now));
        }
    }
}
