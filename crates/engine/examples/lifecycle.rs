//! How fast the rules are by themselves: batches of type `noop` from submission to result, with a worker
//! that answers at once, everything in one thread and nothing on a disk.
//!
//! ```text
//! cargo run --release -p tidemill-engine --example lifecycle [batches [submitted|defined|memory-submitted|memory-waiting]]
//! ```

#![allow(clippy::unwrap_used, reason = "an example that fails may say so bluntly")]

use std::collections::BTreeMap;
use std::time::Instant;

use ed25519_dalek::{Signer, SigningKey};
use jiff::SignedDuration;
use tidemill_engine::{Draft, Effect, OutboxSender, Partition, effects};
use tidemill_model::{
    Actor, AttemptOutcome, BatchCommand, CatalogueCommand, Command, CommandRecord, Envelope, GroupId,
    GroupSettings, Incarnation, JobCommand, JobId, JobSpec, Nonce, Priority, Program, Registration, ShardId,
    StartRequest, Submission, Timestamp, WorkMessage, WorkerCommand, WorkerId,
};

const GROUP: ShardId = ShardId(1);
/// Batches under way at once.
const IN_FLIGHT: usize = 2_000;

fn main() {
    let batches: usize = std::env::args().nth(1).map_or(200_000, |count| count.parse().unwrap());
    // What is resident can be told apart only in a process of its own.
    match std::env::args().nth(2).as_deref() {
        Some("submitted") => submissions(batches),
        Some("defined") => by_hand(batches),
        Some("memory-submitted") => memory_of_submissions(batches),
        Some("memory-waiting") => memory_of_waiting_batches(batches),
        Some(other) => panic!("{other} is not measured here"),
        None => {
            for what in ["submitted", "defined", "memory-submitted", "memory-waiting"] {
                let program = std::env::current_exe().unwrap();
                let ended = std::process::Command::new(program).args([&batches.to_string(), what]).status();
                assert!(ended.unwrap().success());
            }
        }
    }
}

fn submissions(batches: usize) {
    let mut fixture = Fixture::new();
    fixture.register();
    let begin = Instant::now();
    let mut submitted = 0;
    while submitted < batches || fixture.unfinished() > 0 {
        while submitted < batches && fixture.unfinished() + fixture.commands.len() < IN_FLIGHT {
            submitted += 1;
            fixture.send(GROUP, submission(submitted));
        }
        fixture.draft();
    }
    fixture.report("submitted jobs, to the end", batches, begin);
}

fn by_hand(batches: usize) {
    let mut fixture = Fixture::new();
    let jobs = fixture.define(100, "null");
    fixture.register();
    let begin = Instant::now();
    let mut submitted = 0;
    while submitted < batches || fixture.unfinished() > 0 {
        while submitted < batches && fixture.unfinished() + fixture.commands.len() < IN_FLIGHT {
            let time = fixture.wall.checked_add(SignedDuration::from_millis(submitted as i64)).unwrap();
            fixture.send(GROUP, run(jobs[submitted % jobs.len()], time));
            submitted += 1;
        }
        fixture.draft();
    }
    fixture.report("batches of 100 defined jobs, to the end", batches, begin);
}

fn memory_of_submissions(batches: usize) {
    let mut fixture = Fixture::new();
    let before = resident_bytes();
    for n in 0..batches {
        fixture.send(GROUP, submission(n));
        if fixture.commands.len() == IN_FLIGHT {
            fixture.settle();
        }
    }
    fixture.settle();
    let bytes = resident_bytes().saturating_sub(before) / batches;
    println!(
        "{:<44} {bytes:>9} bytes each, {} waiting",
        "submitted jobs that wait for a worker",
        fixture.unfinished()
    );
}

fn memory_of_waiting_batches(batches: usize) {
    let mut fixture = Fixture::new();
    let jobs = fixture.define(100, r#"["j0"]"#);
    let before = resident_bytes();
    for n in 0..batches {
        let time = fixture.wall.checked_add(SignedDuration::from_millis(n as i64)).unwrap();
        fixture.send(GROUP, run(jobs[1 + n % (jobs.len() - 1)], time));
        if fixture.commands.len() == IN_FLIGHT {
            fixture.settle();
        }
    }
    fixture.settle();
    let bytes = resident_bytes().saturating_sub(before) / batches;
    println!(
        "{:<44} {bytes:>9} bytes each, {} waiting",
        "batches that wait for a parent",
        fixture.unfinished()
    );
}

fn submission(n: usize) -> Command {
    Command::Batch(BatchCommand::SubmitJob(Box::new(Submission {
        name: format!("job-{n}").try_into().unwrap(),
        group: "bench".try_into().unwrap(),
        group_id: GroupId(1),
        app_name: "bench".to_owned(),
        owner: "bench".to_owned(),
        job_type: "noop".try_into().unwrap(),
        program: Program::None,
        parameters: BTreeMap::new(),
        priority: Priority::DEFAULT,
        parents: Vec::new(),
        retries: 0,
        retry_interval_s: 60,
    })))
}

fn run(job: JobId, time: Timestamp) -> Command {
    Command::Batch(BatchCommand::RunJob {
        job,
        logical_time: Some(time),
        parameters: BTreeMap::new(),
        concurrent: true,
    })
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// One partition, its journal's size, and a worker.
struct Fixture {
    partition: Partition,
    outbox_sender: OutboxSender,
    commands: Vec<CommandRecord>,
    wall: Timestamp,
    offset: u64,
    envelopes: usize,
    bytes: usize,
    largest: usize,
}

impl Fixture {
    fn new() -> Self {
        let mut fixture = Self {
            partition: Partition::new(0, 1),
            outbox_sender: OutboxSender::default(),
            commands: Vec::new(),
            wall: "2026-07-01T10:10:00Z".parse().unwrap(),
            offset: 0,
            envelopes: 0,
            bytes: 0,
            largest: 0,
        };
        let worker_key = hex(key().verifying_key().as_bytes());
        let (name, settings) = ("bench".try_into().unwrap(), GroupSettings::default());
        fixture.send(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key, settings }),
        );
        fixture.settle();
        fixture
    }

    fn define(&mut self, count: usize, parents: &str) -> Vec<JobId> {
        let spec = |n: usize| {
            let parents = if n == 0 || parents == "null" { "[]" } else { parents };
            let text = format!(
                r#"{{"name":"j{n}","group":"bench","type":"noop","max_concurrent":1000,"parents":{parents}}}"#
            );
            JobSpec::from_value(serde_json::from_str(&text).unwrap()).unwrap()
        };
        let jobs = (0..count).map(spec).collect();
        self.send(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Apply {
                jobs,
                prune: Vec::new(),
                cancel: false,
                orphan_children: false,
            }),
        );
        self.settle();
        (1..=count as u64).map(|n| JobId::mint(n, ShardId::CATALOGUE)).collect()
    }

    fn register(&mut self) {
        let (worker, incarnation) = (WorkerId::new("worker-1"), Incarnation::new("life-1"));
        let group = "bench".try_into().unwrap();
        let text = Registration::signed_text(&group, &worker, &incarnation);
        self.send(
            GROUP,
            Command::Worker(WorkerCommand::Register(Box::new(Registration {
                worker,
                incarnation,
                group,
                host: "host".to_owned(),
                address: "127.0.0.1:1".to_owned(),
                slots: [("noop".try_into().unwrap(), IN_FLIGHT as u32)].into_iter().collect(),
                reserved: Default::default(),
                labels: Default::default(),
                live: Vec::new(),
                signature: hex(&key().sign(text.as_bytes()).to_bytes()),
            }))),
        );
        self.settle();
    }

    fn send(&mut self, shard: ShardId, command: Command) {
        let actor = Actor { app: "bench".into(), user: None };
        self.commands.push(CommandRecord { shard, request: None, reply_to: None, actor, command });
    }

    fn unfinished(&self) -> usize {
        self.partition.group(GROUP).map_or(0, |group| group.unfinished_batches())
    }

    fn settle(&mut self) {
        while !self.commands.is_empty() {
            self.draft();
        }
    }

    /// One envelope, encoded, and the worker's answers to what it means.
    fn draft(&mut self) {
        self.wall = self.wall.checked_add(SignedDuration::from_micros(500)).unwrap();
        let mut draft = Draft::new(&mut self.partition, self.wall, None);
        let mut commands = std::mem::take(&mut self.commands).into_iter();
        while !draft.is_full()
            && let Some(record) = commands.next()
        {
            self.offset += 1;
            draft.command(self.offset, String::new(), record);
        }
        draft.due(self.wall, &());
        let drafted = draft.finish(false);
        self.commands = commands.collect();
        if let Some(envelope) = drafted.envelope {
            self.accept(&envelope);
        }
    }

    fn accept(&mut self, envelope: &Envelope) {
        let body = serde_json::to_vec(envelope).unwrap();
        self.envelopes += 1;
        self.bytes += body.len();
        self.largest = self.largest.max(body.len());
        let mut acts = effects(&self.partition, envelope, self.offset);
        acts.extend(self.outbox_sender.collect(&self.partition));
        for act in acts {
            match act {
                Effect::Send { shard, command } => self.send(shard, command),
                Effect::Work { worker, message } => self.work(worker, message),
                Effect::Reply { .. } | Effect::Underivable { .. } | Effect::DeadLetter { .. } => {}
            }
        }
    }

    fn work(&mut self, worker: WorkerId, message: WorkMessage) {
        match message {
            WorkMessage::Assigned { token, .. } => {
                let (incarnation, nonce) = (Incarnation::new("life-1"), Nonce::new("nonce-of-16-byte"));
                self.send(
                    GROUP,
                    Command::Worker(WorkerCommand::RequestStart(StartRequest {
                        token,
                        worker,
                        incarnation,
                        nonce,
                    })),
                );
            }
            WorkMessage::Granted { spec, .. } => {
                let token = spec.token;
                self.send(
                    GROUP,
                    Command::Worker(WorkerCommand::ReportStarted { token, worker: worker.clone() }),
                );
                let outcome = AttemptOutcome::success();
                self.send(
                    GROUP,
                    Command::Worker(WorkerCommand::ReportFinished { token, worker, outcome, usage: None }),
                );
            }
            // Its owner gives no rights.
            WorkMessage::AssignedWithRight { .. }
            | WorkMessage::Confirmed { .. }
            | WorkMessage::AskedBack { .. }
            | WorkMessage::Registered { .. }
            | WorkMessage::Unregistered { .. }
            | WorkMessage::Refused { .. }
            | WorkMessage::Kill { .. }
            | WorkMessage::Recorded { .. } => {}
        }
    }

    fn report(&self, what: &str, batches: usize, begin: Instant) {
        let rate = batches as f64 / begin.elapsed().as_secs_f64();
        println!(
            "{what:<44} {rate:>9.0} batches/s, {} bytes of journal each, {} envelopes, largest {} KiB",
            self.bytes / batches,
            self.envelopes,
            self.largest / 1024
        );
    }
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
