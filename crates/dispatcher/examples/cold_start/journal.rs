//! Writes a journal as an owner would, as fast as the rules and the log go.

#[path = "../../../engine/examples/fixture/worker.rs"]
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ed25519_dalek::{Signer, SigningKey};
use jiff::SignedDuration;
use tidemill_engine::{Draft, Effect, OutboxSender, Partition, effects};
use tidemill_log::{Chain, From, Head, Kind, Log, NewRecord, Payload, Producer, Tip, Topic, append_wait};
use tidemill_model::{
    Actor, BatchCommand, CatalogueCommand, Cause, Command, CommandRecord, Envelope, GroupSettings,
    Incarnation, JobCommand, JobId, JobSpec, Json as _, Outcome, PartitionEvent, Recorded, Registration,
    ShardId, Source, Timestamp, WorkerCommand, WorkerId,
};
use worker::answers;

const GROUP: ShardId = ShardId(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// Batches under way at once.
const IN_FLIGHT: usize = 2_000;
/// Appends under way at once, as no owner has them.
const APPENDS: u64 = 64;
/// The parent and its children; one more has neither.
const JOBS: u64 = 100;

/// A command that the first owner finds.
pub(crate) fn ask(log: &Arc<dyn Log>) {
    let actor = Actor { app: "bench".into(), user: None };
    let command =
        Command::Batch(BatchCommand::Kill { batch: tidemill_model::BatchId(1), reason: "none".to_owned() });
    let request = Some(tidemill_model::RequestId::new("bench:first"));
    let record = CommandRecord { shard: GROUP, request, reply_to: None, actor, command };
    let producer = log.producer().unwrap();
    append_wait(&*producer, Topic::Commands, 0, b"", record.to_json().into_bytes(), PATIENCE).unwrap();
}

pub(crate) struct Writer {
    producer: Arc<dyn Producer>,
    chain: Chain,
    tip: Tip,
    next: u64,
    done: Arc<AtomicU64>,
    partition: Partition,
    outbox_sender: OutboxSender,
    commands: Vec<CommandRecord>,
    wall: Timestamp,
    asked: u64,
    events: u64,
}

impl Writer {
    /// Claims the partition of an empty log, and defines what there is.
    pub(crate) fn begin(log: &Arc<dyn Log>) -> Self {
        let producer = log.producer().unwrap();
        let mut chain = Chain::new();
        let mut reader = log.reader(Topic::Journal, 0, From::Start).unwrap();
        let genesis = reader.poll(1, PATIENCE).unwrap().remove(0);
        chain.accept(genesis.offset, &genesis.value);
        let claim = chain.head().unwrap().claim("writer", "127.0.0.1:1").unwrap();
        append_wait(&*producer, Topic::Journal, 0, b"", claim.clone(), PATIENCE).unwrap();
        chain.accept(1, &Payload::from(claim));
        let mut writer = Self {
            producer,
            tip: chain.head().unwrap().tip(),
            chain,
            next: 2,
            done: Arc::default(),
            partition: Partition::new(0, 1),
            outbox_sender: OutboxSender::default(),
            commands: Vec::new(),
            wall: "2026-07-01T10:10:00Z".parse().unwrap(),
            asked: 0,
            events: 0,
        };
        writer.define();
        writer
    }

    fn define(&mut self) {
        let worker_key = hex(key().verifying_key().as_bytes());
        let (name, settings) = ("bench".try_into().unwrap(), GroupSettings::default());
        let group = CatalogueCommand::DefineGroup { name, worker_key, settings };
        self.send(ShardId::CATALOGUE, Command::Catalogue(group));
        self.settle();
        let spec = |n: u64| {
            let parents = if n == 0 || n == JOBS { "[]" } else { r#"["j0"]"# };
            let text = format!(
                r#"{{"name":"j{n}","group":"bench","type":"noop","max_concurrent":1000,"parents":{parents}}}"#
            );
            JobSpec::from_value(serde_json::from_str(&text).unwrap()).unwrap()
        };
        let (jobs, prune) = ((0..=JOBS).map(spec).collect(), Vec::new());
        let apply = JobCommand::Apply { jobs, prune, cancel: false, orphan_children: false };
        self.send(ShardId::CATALOGUE, Command::Job(apply));
        self.settle();
        let (worker, incarnation) = (WorkerId::new("worker-1"), Incarnation::new("life-1"));
        let group = "bench".try_into().unwrap();
        let text = Registration::signed_text(&group, &worker, &incarnation);
        let registration = Registration {
            worker,
            incarnation,
            group,
            host: "host".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            slots: [("noop".try_into().unwrap(), IN_FLIGHT as u32)].into_iter().collect(),
            reserved: Default::default(),
            labels: Default::default(),
            keeps: None,
            types: BTreeMap::new(),
            live: Vec::new(),
            running: Vec::new(),
            number: 0,
            signature: hex(&key().sign(text.as_bytes()).to_bytes()),
        };
        self.send(GROUP, Command::Worker(WorkerCommand::Register(Box::new(registration))));
        self.settle();
    }

    fn job(number: u64) -> JobId {
        JobId::mint(number + 1, ShardId::CATALOGUE)
    }

    fn run(&mut self, job: JobId) {
        self.asked += 1;
        let time = self.wall.checked_add(SignedDuration::from_millis(self.asked as i64)).unwrap();
        let (logical_time, parameters) = (Some(time), BTreeMap::new());
        let run = BatchCommand::RunJob { job, logical_time, parameters, concurrent: true };
        self.send(GROUP, Command::Batch(run));
    }

    /// So many batches that wait for a parent's.
    pub(crate) fn wait(&mut self, batches: u64) {
        for n in 0..batches {
            self.run(Self::job(1 + n % (JOBS - 1)));
            if self.commands.len() == IN_FLIGHT {
                self.settle();
            }
        }
        self.settle();
    }

    /// Batches that come and go, until there are so many events.
    pub(crate) fn until(&mut self, events: u64) {
        let waiting = self.unfinished();
        while self.events < events {
            while self.unfinished() - waiting + (self.commands.len() as u64) < IN_FLIGHT as u64 {
                self.run(Self::job(JOBS));
            }
            self.draft();
        }
        self.settle();
        while self.done.load(Ordering::Acquire) + 2 < self.next {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn unfinished(&self) -> u64 {
        self.partition.group(GROUP).map_or(0, |group| group.unfinished_batches() as u64)
    }

    pub(crate) fn head(&self) -> Head {
        self.chain.head().unwrap().clone()
    }

    /// A fact by itself.
    pub(crate) fn record(&mut self, event: PartitionEvent) {
        let (now, level) = (self.wall, self.partition.level());
        let causes = vec![Cause { source: Source::Observed, outcome: Outcome::Done, events: 1 }];
        let events = vec![Recorded { shard: GROUP, event: event.into() }];
        let envelope = Envelope { now, level, resume: None, causes, events };
        self.partition.apply(&envelope);
        self.append(&envelope);
    }

    fn send(&mut self, shard: ShardId, command: Command) {
        let actor = Actor { app: "bench".into(), user: None };
        self.commands.push(CommandRecord { shard, request: None, reply_to: None, actor, command });
    }

    fn settle(&mut self) {
        while !self.commands.is_empty() {
            self.draft();
        }
    }

    fn draft(&mut self) {
        self.wall = self.wall.checked_add(SignedDuration::from_micros(500)).unwrap();
        let mut draft = Draft::new(&mut self.partition, self.wall, None);
        let mut commands = std::mem::take(&mut self.commands).into_iter();
        while !draft.is_full()
            && let Some(record) = commands.next()
        {
            draft.command(0, String::new(), record);
        }
        draft.due(self.wall, &());
        let drafted = draft.finish(false);
        self.commands = commands.collect();
        if let Some(mut envelope) = drafted.envelope {
            // There are no such commands to go on after.
            envelope.resume = None;
            self.append(&envelope);
            self.answer(&envelope);
        }
    }

    fn append(&mut self, envelope: &Envelope) {
        self.events += envelope.events.len() as u64;
        let (record, tip) = self.tip.next(Kind::Envelope, envelope.to_json().into_bytes()).unwrap();
        let value = Payload::from(record);
        assert!(self.chain.accept(self.next, &value).accepted().is_some());
        (self.tip, self.next) = (tip, self.next + 1);
        while self.next - 2 - self.done.load(Ordering::Acquire) > APPENDS {
            std::thread::yield_now();
        }
        let done = Arc::clone(&self.done);
        let told = move |result: Result<u64, _>| {
            assert!(result.is_ok(), "the log takes it");
            done.fetch_add(1, Ordering::Release);
        };
        let (topic, key, done) = (Topic::Journal, Vec::new(), Box::new(told));
        self.producer.append_all(vec![NewRecord { topic, partition: 0, key, value, acted_on: false, done }]);
    }

    /// What the worker and the other shard answer.
    fn answer(&mut self, envelope: &Envelope) {
        let mut acts = effects(&self.partition, envelope, 0);
        acts.extend(self.outbox_sender.collect(&self.partition));
        for act in acts {
            match act {
                Effect::Send { shard, command } => self.send(shard, command),
                Effect::Work { worker, message } => {
                    for (shard, said) in answers(&message, &worker, &Incarnation::new("life-1")) {
                        self.send(shard, said);
                    }
                }
                Effect::Reply { .. } | Effect::Underivable { .. } | Effect::DeadLetter { .. } => {}
            }
        }
    }
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
