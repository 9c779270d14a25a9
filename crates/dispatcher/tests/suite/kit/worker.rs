//! A worker that does everything but fork.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ed25519_dalek::{Signer, SigningKey};
use tidemill_log::partition_of_key;
use tidemill_log::{From, Log, Producer, Topic};
use tidemill_model::{
    Actor, AttemptOutcome, Command, CommandRecord, Heartbeat, Incarnation, JobType, Nonce, Registration,
    ShardId, StartRequest, Token, WorkMessage, WorkerCommand, WorkerId, hex,
};

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// The public key of every group in these tests.
pub fn public_key() -> String {
    hex(&key().verifying_key().to_bytes())
}

pub fn registration(worker: &str, incarnation: &str, slots: u32) -> Registration {
    let (worker, incarnation) = (WorkerId::new(worker), Incarnation::new(incarnation));
    let group = "demo".try_into().unwrap();
    let text = Registration::signed_text(&group, &worker, &incarnation);
    Registration {
        worker,
        incarnation,
        group,
        host: "host".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        slots: [(JobType::try_from("noop").unwrap(), slots)].into(),
        reserved: Default::default(),
        labels: Default::default(),
        keeps: None,
        types: std::collections::BTreeMap::new(),
        live: Vec::new(),
        running: Vec::new(),
        number: 0,
        signature: hex(&key().sign(text.as_bytes()).to_bytes()),
    }
}

/// What a worker remembers over the lives of the logs that it is connected to.
#[derive(Debug, Default)]
pub struct Memory {
    /// Tokens that were run.
    pub runs: Mutex<BTreeSet<Token>>,
    /// With so many runs it hears no more grants.
    pub deaf_after: Mutex<Option<usize>>,
}

pub struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start(log: &Arc<dyn Log>, shard: ShardId, id: &str, slots: u32, memory: &Arc<Memory>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let partition = partition_of_key(id, log.partitions(Topic::Work));
        let mut reader = log.reader(Topic::Work, partition, From::End).unwrap();
        let hands = Hands {
            producer: log.producer().unwrap(),
            shard,
            partition: shard.partition(log.partitions(Topic::Commands)),
            registration: registration(id, "life-1", slots),
            memory: Arc::clone(memory),
            beats: AtomicU64::new(0),
        };
        let stopped = Arc::clone(&stop);
        let id = id.to_owned();
        let work = move || {
            hands.register();
            let mut alive = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                for record in reader.poll(4_096, Duration::from_millis(50)).unwrap() {
                    if record.key == id.as_bytes() {
                        hands.take(serde_json::from_slice(&record.value).unwrap());
                    }
                }
                if alive.elapsed() >= Duration::from_millis(200) {
                    alive = Instant::now();
                    hands.beat();
                }
            }
        };
        Self { stop, thread: Some(thread::spawn(work)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "the worker panicked");
    }
}

struct Hands {
    producer: Arc<dyn Producer>,
    shard: ShardId,
    partition: u32,
    registration: Registration,
    memory: Arc<Memory>,
    beats: AtomicU64,
}

impl Hands {
    fn say(&self, command: Command) {
        let record = CommandRecord {
            shard: self.shard,
            request: None,
            reply_to: None,
            actor: Actor { app: "worker".into(), user: None },
            command,
        };
        let value = serde_json::to_vec(&record).unwrap();
        // A word that is lost with its log is asked for again.
        self.producer.append(Topic::Commands, self.partition, b"", value, Box::new(|_| {}));
    }

    fn register(&self) {
        self.say(Command::Worker(WorkerCommand::Register(Box::new(self.registration.clone()))));
    }

    fn beat(&self) {
        let Registration { worker, incarnation, .. } = self.registration.clone();
        self.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat {
            worker,
            incarnation,
            number: self.beats.fetch_add(1, Ordering::Relaxed) + 1,
            measure: None,
            unready: None,
            excesses: Vec::new(),
            leaving: None,
            external_work: Vec::new(),
            status: None,
        })));
    }

    fn take(&self, message: WorkMessage) {
        let Registration { worker, incarnation, .. } = self.registration.clone();
        match message {
            WorkMessage::Assigned { token, .. } => self.request(token),
            WorkMessage::Granted { spec, .. } => self.run(spec.token, worker),
            // A no-op runs as soon as it is asked for.
            WorkMessage::AssignedWithRight { right, spec } if right.incarnation == incarnation => {
                self.request(spec.token);
                self.run(spec.token, worker);
            }
            WorkMessage::Unregistered { .. } => self.register(),
            WorkMessage::Registered { .. }
            | WorkMessage::AssignedWithRight { .. }
            | WorkMessage::Confirmed { .. }
            | WorkMessage::AskedBack { .. }
            | WorkMessage::SealReports { .. }
            | WorkMessage::Refused { .. }
            | WorkMessage::Kill { .. }
            | WorkMessage::Recorded { .. } => {}
        }
    }

    fn request(&self, token: Token) {
        let Registration { worker, incarnation, .. } = self.registration.clone();
        let nonce = Nonce::new(format!("n-{token}"));
        let request = StartRequest { token, worker, incarnation, nonce };
        self.say(Command::Worker(WorkerCommand::RequestStart(request)));
    }

    fn run(&self, token: Token, worker: WorkerId) {
        let mut runs = self.memory.runs.lock().unwrap();
        if self.memory.deaf_after.lock().unwrap().is_some_and(|most| runs.len() >= most) {
            return;
        }
        // A grant that is said again is not run again, only its end is told again.
        if runs.insert(token) {
            self.say(Command::Worker(WorkerCommand::ReportStarted { token, worker: worker.clone() }));
        }
        let (outcome, usage) = (AttemptOutcome::success(), None);
        self.say(Command::Worker(WorkerCommand::ReportFinished {
            token,
            worker,
            outcome,
            usage,
            interrupted: false,
            external: None,
        }));
    }
}
