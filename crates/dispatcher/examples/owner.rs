//! How many noop batches a second go from submission to recorded end through one owner, with a scripted worker
//! in the same process, and which threads the time goes to.
//!
//! ```text
//! cargo run --release -p tidemill-dispatcher --example owner -- [memory|sqlite] [batches] [window]
//! ```

#[path = "../../engine/examples/fixture/worker.rs"]
mod worker;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ed25519_dalek::{Signer, SigningKey};
use tidemill_dispatcher::Config;
use tidemill_log::{From, Log, MemoryLog, Producer, Reader, SqliteConfig, SqliteLog, Topic};
use tidemill_model::{
    Actor, BatchCommand, CatalogueCommand, Command, CommandRecord, GroupId, GroupSettings, Heartbeat,
    Incarnation, InstanceId, JobType, Priority, Program, Registration, RequestId, ShardId, Submission,
    WorkMessage, WorkerCommand, WorkerId, hex,
};
use worker::answers;

const GROUP: ShardId = ShardId(1);
const SLOTS: u32 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "memory".to_owned());
    let batches: usize = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let window: usize = arguments.next().map_or(Ok(5_000), |text| text.parse())?;
    let ground = tempfile::tempdir()?;
    let log: Arc<dyn Log> = match kind.as_str() {
        "memory" => Arc::new(MemoryLog::new(1)),
        "sqlite" => Arc::new(SqliteLog::open(&SqliteConfig::new(ground.path()), Box::new(|_| {}))?),
        other => return Err(format!("{other} is neither memory nor sqlite").into()),
    };
    let config = Config { claim_after_ms: 0, ..Config::default() };
    let dispatcher = tidemill_dispatcher::run(config, Arc::clone(&log), "lifecycle")?;
    let done = Arc::new(AtomicUsize::new(0));
    let mut worker = Worker::new(&log, Arc::clone(&done))?;
    worker.begin()?;

    let began = Instant::now();
    let before = cpu_of_threads();
    let work = std::thread::Builder::new().name("worker".to_owned()).spawn(move || worker.work(batches))?;
    submit(log.as_ref(), batches, window, &done)?;
    work.join().map_err(|_| "the worker panicked")??;
    let took = began.elapsed();

    let journal = log.range(Topic::Journal, 0)?;
    let per_second = batches as f64 / took.as_secs_f64();
    println!("{kind}: {batches} batches in {took:.2?}, {per_second:.0}/s, {} journal records", journal.end);
    for (thread, cpu) in cpu_of_threads() {
        let spent = cpu.saturating_sub(before.get(&thread).copied().unwrap_or_default());
        println!("  {thread:<16} {:>6.2} s of CPU", spent.as_secs_f64());
    }
    dispatcher.stop()?;
    Ok(())
}

fn record(command: Command, request: Option<String>) -> Vec<u8> {
    let reply_to = request.as_ref().map(|_| InstanceId::new("lifecycle"));
    let actor = Actor { app: "lifecycle".into(), user: None };
    let request = request.map(RequestId::new);
    let shard = match &command {
        Command::Catalogue(CatalogueCommand::DefineGroup { .. }) => ShardId::CATALOGUE,
        _ => GROUP,
    };
    serde_json::to_vec(&CommandRecord { shard, request, reply_to, actor, command }).expect("plain data")
}

fn say(producer: &dyn Producer, command: Command, request: Option<String>) {
    producer.append(Topic::Commands, 0, b"1", record(command, request), Box::new(|_| {}));
}

/// Keeps at most `window` batches on their way.
fn submit(log: &dyn Log, batches: usize, window: usize, done: &AtomicUsize) -> Result<(), Box<dyn Error>> {
    let producer = log.producer()?;
    for n in 0..batches {
        while n - done.load(Ordering::Acquire) >= window {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let job = Submission {
            name: "noop".try_into()?,
            group: "demo".try_into()?,
            group_id: GroupId(1),
            app_name: "lifecycle".to_owned(),
            owner: String::new(),
            job_type: JobType::try_from("noop")?,
            program: Program::None,
            parameters: BTreeMap::new(),
            priority: Priority::DEFAULT,
            parents: Vec::new(),
            retries: 0,
            retry_interval_s: 0,
        };
        say(producer.as_ref(), Command::Batch(BatchCommand::SubmitJob(Box::new(job))), Some(format!("r{n}")));
    }
    Ok(())
}

/// Everything but the fork.
struct Worker {
    reader: Box<dyn Reader>,
    producer: Arc<dyn Producer>,
    done: Arc<AtomicUsize>,
    worker: WorkerId,
    incarnation: Incarnation,
}

impl Worker {
    fn new(log: &Arc<dyn Log>, done: Arc<AtomicUsize>) -> Result<Self, Box<dyn Error>> {
        let worker = WorkerId::new("w1");
        let partition = tidemill_log::partition_of_key(worker.as_str(), log.partitions(Topic::Work));
        let reader = log.reader(Topic::Work, partition, From::End)?;
        Ok(Self { reader, producer: log.producer()?, done, worker, incarnation: Incarnation::new("1") })
    }

    /// Defines the group and registers until that is known.
    fn begin(&mut self) -> Result<(), Box<dyn Error>> {
        let key = SigningKey::from_bytes(&[7; 32]);
        let name: tidemill_model::GroupName = "demo".try_into()?;
        let worker_key = hex(&key.verifying_key().to_bytes());
        let define = Command::Catalogue(CatalogueCommand::DefineGroup {
            name: name.clone(),
            worker_key,
            settings: GroupSettings::default(),
        });
        say(self.producer.as_ref(), define, None);
        let text = Registration::signed_text(&name, &self.worker, &self.incarnation);
        let registration = Registration {
            worker: self.worker.clone(),
            incarnation: self.incarnation.clone(),
            group: name,
            host: "host".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            slots: [(JobType::try_from("noop")?, SLOTS)].into(),
            reserved: Default::default(),
            labels: Default::default(),
            keeps: None,
            types: BTreeMap::new(),
            live: Vec::new(),
            running: Vec::new(),
            number: 0,
            signature: hex(&key.sign(text.as_bytes()).to_bytes()),
        };
        loop {
            let register = Command::Worker(WorkerCommand::Register(Box::new(registration.clone())));
            say(self.producer.as_ref(), register, None);
            for record in self.reader.poll(10, Duration::from_millis(100))? {
                if matches!(serde_json::from_slice(&record.value)?, WorkMessage::Registered { .. }) {
                    return Ok(());
                }
            }
        }
    }

    fn work(&mut self, batches: usize) -> Result<(), tidemill_log::Error> {
        let mut alive = Instant::now();
        while self.done.load(Ordering::Acquire) < batches {
            for record in self.reader.poll(4_096, Duration::from_millis(50))? {
                let message = serde_json::from_slice(&record.value);
                self.take(message.expect("an owner writes what the model reads"));
            }
            if alive.elapsed() > Duration::from_secs(1) {
                alive = Instant::now();
                let (worker, incarnation) = (self.worker.clone(), self.incarnation.clone());
                self.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat {
                    worker,
                    incarnation,
                    number: 0,
                    measure: None,
                    unready: None,
                    excesses: Vec::new(),
                    leaving: None,
                    external_work: Vec::new(),
                    status: None,
                })));
            }
        }
        Ok(())
    }

    fn say(&self, command: Command) {
        say(self.producer.as_ref(), command, None);
    }

    fn take(&self, message: WorkMessage) {
        for (_, said) in answers(&message, &self.worker, &self.incarnation) {
            self.say(said);
        }
        if let WorkMessage::Recorded { .. } = message {
            self.done.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// CPU time by thread name, from `/proc`; empty where there is none.
fn cpu_of_threads() -> BTreeMap<String, Duration> {
    let mut threads: BTreeMap<String, Duration> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) else { continue };
        let Ok(spent) = std::fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let nanos = spent.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        *threads.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(nanos);
    }
    threads
}
