//! What holds after every step of any history: random commands, workers and clocks over random catalogues.
//!
//! A failing seed is printed; put it into [`SEEDS`] and keep it there.

use std::collections::{BTreeMap, BTreeSet};

use crate::kit::{GROUP, Script, World, every, job};
use jiff::SignedDuration;
use serde_json::json;
use tidemill_engine::{MAX_DECISION_BYTES, MAX_ENVELOPE_BYTES};
use tidemill_model::{
    AttemptEvent, AttemptResult, BatchCommand, BatchEvent, BatchId, Command, Envelope, Event,
    FinalCommandEvent, JobCommand, JobDefinition, JobEvent, JobId, JobSpec, JobType, PartitionEvent,
    ReplicationEvent, ScheduleEvent, ShardId, Timestamp, Token, WorkerCommand, WorkerEvent, WorkerId,
};

const SEEDS: std::ops::Range<u64> = 0..16;
const STEPS: usize = 160;

/// A small generator of numbers (splitmix64), so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Waiting,
    Assigned(Token, WorkerId),
    Granted(Token, WorkerId),
}

#[derive(Debug, Clone)]
struct Live {
    job: JobId,
    kind: JobType,
    time: Timestamp,
    attempts: u32,
    retries: u32,
    stage: Stage,
}

/// What the journal alone says, kept apart from the engine: a second opinion.
#[derive(Debug, Default)]
struct Model {
    definitions: BTreeMap<(JobId, u32), std::sync::Arc<JobDefinition>>,
    limits: BTreeMap<JobId, u32>,
    slots: BTreeMap<WorkerId, BTreeMap<JobType, u32>>,
    live: BTreeMap<BatchId, Live>,
    finished: BTreeSet<BatchId>,
    generated: BTreeSet<(JobId, Timestamp, u32)>,
    tokens: BTreeSet<Token>,
    finals: BTreeMap<BatchId, Token>,
    finals_ended: BTreeSet<BatchId>,
    seen: usize,
}

impl Model {
    /// Reads the new envelopes and complains about what must never stand there.
    fn read(&mut self, journal: &[Vec<u8>]) {
        let mut last = None;
        for body in &journal[self.seen..] {
            let bytes = body.len();
            assert!(bytes < MAX_ENVELOPE_BYTES + MAX_DECISION_BYTES, "an envelope of {bytes} bytes");
            let envelope: Envelope = serde_json::from_slice(body).unwrap();
            assert!(last.is_none_or(|last| last <= envelope.now), "time goes back");
            last = Some(envelope.now);
            for recorded in &envelope.events {
                self.event(&recorded.event);
            }
        }
        self.seen = journal.len();
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Replication(ReplicationEvent::JobReplicated { definition, .. })
            | Event::Job(JobEvent::Submitted { definition }) => {
                self.limits.insert(definition.id, definition.spec.max_concurrent);
                self.definitions.insert((definition.id, definition.version), definition.clone());
            }
            Event::Replication(ReplicationEvent::JobDropped { job, .. }) => {
                self.limits.insert(*job, u32::MAX);
            }
            Event::Worker(WorkerEvent::Registered { worker, slots, .. }) => {
                self.slots.insert(worker.clone(), slots.clone());
            }
            Event::Batch(BatchEvent::Generated { batch, job, version, logical_time, run, .. }) => {
                let once = self.generated.insert((*job, *logical_time, *run));
                assert!(once, "{job} {logical_time} run {run} is generated twice");
                let definition = &self.definitions[&(*job, *version)];
                let other = self.live.values().any(|live| live.job == *job && live.time == *logical_time);
                assert!(!other, "two runs of {job} {logical_time} live at once");
                let live = Live {
                    job: *job,
                    kind: definition.spec.job_type.clone(),
                    time: *logical_time,
                    attempts: 0,
                    retries: definition.spec.retries,
                    stage: Stage::Waiting,
                };
                assert!(self.live.insert(*batch, live).is_none());
            }
            Event::Batch(
                BatchEvent::Assigned { batch, attempt, token, worker, .. }
                | BatchEvent::AssignedWithRight { batch, attempt, token, worker, .. },
            ) => {
                assert!(self.tokens.last().is_none_or(|last| last < token), "tokens grow");
                self.tokens.insert(*token);
                let live = self.live.get_mut(batch).expect("assigned batches are unfinished");
                assert_eq!(live.stage, Stage::Waiting, "{batch} is assigned twice");
                assert_eq!(*attempt, live.attempts + 1, "attempts have no gaps");
                live.stage = Stage::Assigned(*token, worker.clone());
                let (job, kind) = (live.job, live.kind.clone());
                self.check_limits(job, worker, &kind);
            }
            Event::Batch(BatchEvent::AssignmentReturned { batch, token, worker, .. }) => {
                let live = self.live.get_mut(batch).expect("returned batches are unfinished");
                let held = [Stage::Assigned(*token, worker.clone()), Stage::Granted(*token, worker.clone())];
                assert!(held.contains(&live.stage), "{:?}", live.stage);
                live.stage = Stage::Waiting;
            }
            Event::Attempt(AttemptEvent::StartGranted { batch, token, worker, .. }) => {
                let live = self.live.get_mut(batch).expect("granted batches are unfinished");
                assert_eq!(live.stage, Stage::Assigned(*token, worker.clone()), "one grant an assignment");
                live.stage = Stage::Granted(*token, worker.clone());
            }
            Event::Batch(BatchEvent::ResultOverridden { batch, .. }) => {
                assert!(self.live.contains_key(batch) || self.finished.contains(batch), "a mark of no batch");
            }
            Event::Batch(BatchEvent::TimeoutReached { .. })
            | Event::Alarm(_)
            | Event::Attempt(AttemptEvent::UserCodeReported { .. } | AttemptEvent::Interrupted { .. }) => {}
            Event::FinalCommand(FinalCommandEvent::Assigned { batch, token, .. }) => {
                assert!(self.tokens.last().is_none_or(|last| last < token), "tokens grow");
                self.tokens.insert(*token);
                assert!(self.finished.contains(batch), "a final command of what goes on");
                assert!(self.finals.insert(*batch, *token).is_none(), "two final commands of {batch}");
            }
            Event::FinalCommand(FinalCommandEvent::Granted { batch, token, .. }) => {
                assert_eq!(self.finals[batch], *token)
            }
            Event::FinalCommand(FinalCommandEvent::Finished { batch, token, .. }) => {
                let held = token.and_then(|_| self.finals.get(batch).copied());
                assert_eq!(held, *token);
                assert!(self.finals_ended.insert(*batch), "it ends twice");
            }
            Event::FinalCommand(FinalCommandEvent::NotRun { batch, .. }) => {
                assert!(
                    !self.finals.contains_key(batch) && self.finals_ended.insert(*batch),
                    "it was given away"
                );
            }
            Event::Attempt(
                AttemptEvent::Started { batch, token } | AttemptEvent::KillRequested { batch, token, .. },
            ) => {
                let stage = &self.live[batch].stage;
                assert!(matches!(stage, Stage::Granted(held, _) if held == token), "{stage:?}");
            }
            Event::Attempt(AttemptEvent::Finished { batch, token, attempt, worker, .. }) => {
                let live = self.live.get_mut(batch).expect("what ends is unfinished");
                assert_eq!(live.stage, Stage::Granted(*token, worker.clone()));
                live.stage = Stage::Waiting;
                live.attempts += 1;
                assert_eq!(*attempt, live.attempts, "attempts have no gaps");
                assert!(live.attempts <= live.retries + 1, "more attempts than allowed");
            }
            Event::Batch(BatchEvent::Finished { batch, .. }) => {
                let live = self.live.remove(batch).expect("finished is final");
                assert!(!matches!(live.stage, Stage::Granted(..)), "it ended while it ran");
                assert!(self.finished.insert(*batch));
            }
            Event::Batch(event) => {
                let subject = event.subject();
                let is_live = self.live.keys().any(|batch| subject == format!("batch/{batch}"));
                assert!(is_live, "{} of finished {subject}", event.of_kind().name);
            }
            Event::Partition(
                PartitionEvent::CommandDeadLettered { reason, .. }
                | PartitionEvent::TimerSuspended { reason, .. },
            )
            | Event::Schedule(ScheduleEvent::GenerationFailed { reason, .. }) => {
                panic!("the rules panicked: {reason}")
            }
            // What the model does not look at.
            _ => {}
        }
    }

    fn check_limits(&self, job: JobId, worker: &WorkerId, kind: &JobType) {
        let active =
            self.live.values().filter(|live| live.job == job && live.stage != Stage::Waiting).count();
        assert!(active <= self.limits[&job] as usize, "job {job} runs {active} at once");
        let on_worker = |live: &&Live| match &live.stage {
            Stage::Assigned(_, holder) | Stage::Granted(_, holder) => holder == worker && live.kind == *kind,
            Stage::Waiting => false,
        };
        let used = self.live.values().filter(on_worker).count();
        assert!(used <= self.slots[worker][kind] as usize, "{worker} has {used} attempts of {kind}");
    }
}

/// Whatever can be done to a world.
struct Player {
    random: Random,
    world: World,
    model: Model,
    jobs: Vec<JobId>,
    lost: BTreeSet<WorkerId>,
    submitted: usize,
}

impl Player {
    fn new(seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x1234_5678_9ABC_DEF1) + 1);
        let world = World::new();
        let (jobs, lost) = (Vec::new(), BTreeSet::new());
        let mut player = Self { random, world, model: Model::default(), jobs, lost, submitted: 0 };
        player.apply();
        for n in 0..3 {
            let slots = 1 + player.random.below(3) as u32;
            let script = player.script();
            player.world.worker(&format!("w{n}"), slots, script);
        }
        player
    }

    fn script(&mut self) -> Script {
        let scripts = [
            Script::Succeed,
            Script::Fail,
            Script::Run,
            Script::Take(40_000),
            Script::Silent,
            Script::Reject,
        ];
        *self.random.pick(&scripts).unwrap()
    }

    /// A random family: jobs on two grids or none, each with parents among those before it.
    fn specs(&mut self) -> Vec<JobSpec> {
        let count = 3 + self.random.below(8);
        let mut grids: Vec<usize> = Vec::new();
        (0..count)
            .map(|n| {
                let mut more = json!({
                    "max_concurrent": 1 + self.random.below(3),
                    "retries": self.random.below(3),
                    "retry_interval_s": self.random.below(200),
                    "priority": self.random.below(10),
                    "type": if self.random.below(6) == 0 { "anchor" } else { "noop" },
                    "enabled": self.random.below(8) != 0,
                });
                // 0: none, 1: hour, 2: day.
                let grid = self.random.below(3);
                let mut parents = Vec::new();
                for (parent, of) in grids.clone().into_iter().enumerate() {
                    if self.random.below(4) != 0 {
                        continue;
                    }
                    let name = format!("j{parent}");
                    match (grid, of) {
                        (a, b) if a == b => parents.push(json!(name)),
                        (0, _) | (_, 0) => {}
                        (_, _) => {
                            let mapping = ["all", "any", "latest"][self.random.below(3)];
                            parents.push(json!({"job": name, "mapping": mapping}));
                        }
                    }
                }
                more["parents"] = json!(parents);
                if grid > 0 {
                    more["schedule"] = every(["hour", "day"][grid - 1]);
                    more["depends_on_past"] = json!(self.random.below(4) == 0);
                    more["missed_runs"] = json!(["all", "latest", "none"][self.random.below(3)]);
                }
                if n % 4 == 3 {
                    more["dependency_timeout_s"] = json!(600);
                    more["output_timeout_s"] = json!(3600);
                    more["not_successful_by"] = json!("07:00:00");
                    more["cancel_on_timeout"] = json!(n == 7);
                }
                if n % 3 == 2 && more["type"] == "noop" {
                    more["final_command"] = json!("echo ${batch_id}");
                    more["expected_duration_s"] = json!(60);
                }
                if self.random.below(6) == 0 {
                    more["host"] = json!(format!("host-w{}", self.random.below(3)));
                }
                grids.push(grid);
                job(&format!("j{n}"), more)
            })
            .collect()
    }

    fn apply(&mut self) {
        let specs = self.specs();
        let prune: &[&str] = if self.random.below(3) == 0 { &["g"] } else { &[] };
        let _ = self.world.apply_pruning(specs, prune);
        self.jobs = (1..=12).map(|n| JobId::mint(n, ShardId::CATALOGUE)).collect();
    }

    fn step(&mut self) {
        match self.random.below(28) {
            0 if self.random.below(4) == 0 => self.apply(),
            0..=2 => self.command_on_a_job(),
            3..=4 => self.command_on_a_batch(),
            5..=6 => self.submit(),
            7..=12 => self.worker_speaks(),
            13 => self.change_script(),
            14 => self.lose_or_find(),
            15 => self.restart_a_worker(),
            16 => self.drain_or_resume(),
            17 => self.world.partition = self.world.folded(),
            18 => self.world.say_again(),
            19 => {
                let _ = self.world.step(1);
                return;
            }
            20..=22 => self.world.pass_ms(self.random.0 as i64 & 0xFFFF),
            23..=26 => self.world.pass_minutes(1 + (self.random.0 as i64 & 0x3F)),
            _ => self.world.pass_minutes(60 * (1 + (self.random.0 as i64 & 0x1F))),
        }
        self.world.run();
    }

    fn command_on_a_job(&mut self) {
        let job = *self.random.pick(&self.jobs).unwrap();
        let (shard, command) = match self.random.below(6) {
            0 => (ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job, enabled: false })),
            1 => (ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job, enabled: true })),
            2 if self.random.below(4) == 0 => (
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Delete {
                    job,
                    cancel: self.random.below(2) == 0,
                    orphan_children: self.random.below(2) == 0,
                }),
            ),
            3 => (GROUP, Command::Batch(BatchCommand::KillJob { job })),
            _ => {
                let hours = self.random.below(50) as i64 - 25;
                let time = self.world.wall.checked_add(SignedDuration::from_hours(hours)).unwrap();
                let seconds = time.as_second() - time.as_second() % 3600;
                let time = (self.random.below(2) == 0).then(|| Timestamp::from_second(seconds).unwrap());
                let parameters = BTreeMap::new();
                (
                    GROUP,
                    Command::Batch(BatchCommand::RunJob {
                        job,
                        logical_time: time,
                        parameters,
                        concurrent: true,
                    }),
                )
            }
        };
        self.world.send(shard, command);
    }

    fn command_on_a_batch(&mut self) {
        let unfinished: Vec<BatchId> = self.model.live.keys().copied().collect();
        let kill = self.random.below(3) > 0;
        if kill && let Some(batch) = self.random.pick(&unfinished).copied() {
            self.world.send(GROUP, Command::Batch(BatchCommand::Kill { batch, reason: "random".to_owned() }));
            return;
        }
        let all: Vec<(JobId, Timestamp, u32)> = self.model.generated.iter().copied().collect();
        if let Some((job, logical_time, _)) = self.random.pick(&all).copied() {
            let batch = BatchId::mint(1 + self.random.below(all.len()) as u64, GROUP);
            self.world.send(
                GROUP,
                Command::Batch(BatchCommand::Rerun { batch, job, logical_time, recorded: None }),
            );
        }
    }

    fn submit(&mut self) {
        self.submitted += 1;
        let candidates: Vec<JobId> = self.model.limits.keys().copied().collect();
        let parent = if self.random.below(2) == 0 { self.random.pick(&candidates).copied() } else { None };
        let parents: Vec<JobId> = parent.into_iter().collect();
        let mut submission = World::submission(&format!("s{}", self.submitted), &parents);
        submission.retries = self.random.below(2) as u32;
        self.world.send(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(submission))));
    }

    /// Says something about a token: mostly what is true, sometimes what is late or foreign.
    fn worker_speaks(&mut self) {
        let worker = self.random.below(self.world.workers.len());
        let tokens: Vec<Token> = self.model.tokens.iter().copied().rev().take(12).collect();
        let own: Vec<Token> = self.world.workers[worker].running.keys().copied().collect();
        let foreign = self.random.below(3) == 0;
        let Some(token) = self.random.pick(if foreign { &tokens } else { &own }).copied() else { return };
        let speaker = &mut self.world.workers[worker];
        let results =
            [AttemptResult::Success, AttemptResult::Failed, AttemptResult::Killed, AttemptResult::Lost];
        let command = match self.random.next() % 5 {
            0 => speaker.request(token),
            1 => speaker.started(token),
            2 if foreign => Command::Worker(WorkerCommand::RejectAssignment {
                lacks_resources: false,
                token,
                worker: speaker.id.clone(),
                nonce: None,
                reason: "no".to_owned(),
            }),
            _ => {
                speaker.running.remove(&token);
                speaker.finished(token, results[(self.random.0 % 4) as usize])
            }
        };
        self.world.send(GROUP, command);
    }

    fn change_script(&mut self) {
        let script = self.script();
        let worker = self.random.below(self.world.workers.len());
        self.world.workers[worker].script = script;
    }

    fn lose_or_find(&mut self) {
        let worker = self.random.below(self.world.workers.len());
        let id = self.world.workers[worker].id.clone();
        if !self.lost.contains(&id) {
            self.lost.insert(id.clone());
            self.world.lost(&id);
            return;
        }
        if self.random.below(2) == 0 {
            self.world.workers[worker].running.clear();
            self.world.lease_over(&id);
        }
        let heartbeat = self.world.workers[worker].heartbeat();
        self.lost.remove(&id);
        self.world.send(GROUP, heartbeat);
    }

    fn restart_a_worker(&mut self) {
        let worker = self.random.below(self.world.workers.len());
        let again = if self.random.below(2) == 0 {
            self.world.workers[worker].restart()
        } else {
            Command::Worker(WorkerCommand::Register(Box::new(self.world.workers[worker].registration())))
        };
        self.lost.remove(&self.world.workers[worker].id);
        self.world.send(GROUP, again);
    }

    fn drain_or_resume(&mut self) {
        let worker = self.random.below(self.world.workers.len());
        let worker = self.world.workers[worker].id.clone();
        let command = match self.random.below(3) {
            0 => Command::Worker(WorkerCommand::Drain { worker }),
            _ => Command::Worker(WorkerCommand::Resume { worker }),
        };
        self.world.send(GROUP, command);
    }

    fn check(&mut self) {
        self.model.read(&self.world.journal);
        assert_eq!(self.model.live.len(), self.world.unfinished(), "the engine and the journal count alike");
    }

    /// In the end, with willing workers, everything that can end does, and nothing is stuck in between.
    fn drain(&mut self) {
        for worker in 0..self.world.workers.len() {
            self.world.workers[worker].script = Script::Succeed;
            let again = self.world.workers[worker].restart();
            let resume =
                Command::Worker(WorkerCommand::Resume { worker: self.world.workers[worker].id.clone() });
            self.world.send(GROUP, again);
            self.world.send(GROUP, resume);
        }
        self.world.run();
        self.world.pass_minutes(30);
        self.check();
        // Disabled jobs keep their batches; enabled again, they go on, and nothing new is generated meanwhile.
        for job in self.jobs.clone() {
            self.world.send(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job, enabled: true }));
        }
        self.world.run();
        self.check();
        for (batch, live) in &self.model.live {
            let kinds = self.world.why_kinds(*batch);
            let fine = kinds.iter().any(|kind| kind == "dependency");
            assert!(fine, "{batch} of job {} waits for nothing real: {kinds:?}", live.job);
        }
    }
}

/// EVT-2, EVT-5, DSP-1, EXE-3: the fold of the journal is the state, limits hold, attempts have one owner,
/// finished is final, and every logical time is generated once a run.
#[test]
fn random_histories_keep_every_promise() {
    let mut exercised: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in SEEDS {
        let played = std::panic::catch_unwind(|| {
            let mut player = Player::new(seed);
            for step in 0..STEPS {
                player.step();
                player.check();
                if step % 4 == 0 {
                    assert!(player.world.partition == player.world.folded(), "step {step}: the fold differs");
                }
            }
            player.drain();
            assert!(player.world.partition == player.world.folded(), "the fold differs in the end");
            player.world.journal
        });
        let journal = match played {
            Ok(journal) => journal,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                panic!("seed {seed}: {}", text.unwrap_or_default());
            }
        };
        for body in journal {
            for recorded in serde_json::from_slice::<Envelope>(&body).unwrap().events {
                *exercised.entry(recorded.event.kind()).or_default() += 1;
            }
        }
    }
    // A property that is never put to the test proves nothing.
    for kind in [
        "batch.generated",
        "schedule.skipped",
        "dependency.satisfied",
        "dependency.revoked",
        "batch.blocked",
        "assignment.returned",
        "start.granted",
        "attempt.finished",
        "retry.due",
        "kill.requested",
        "batch.finished",
        "history.evicted",
        "worker.lost",
        "worker.recovered",
        "lease.expired",
        "worker.drained",
        "job.dropped",
        "job.switch_replicated",
    ] {
        assert!(exercised.get(kind).is_some_and(|count| *count >= 3), "{kind}: {exercised:?}");
    }
}

/// The weight that decides when a draft is full is never below what JSON takes.
#[test]
fn weights_are_upper_estimates() {
    for seed in SEEDS.take(4) {
        let mut player = Player::new(seed);
        for _ in 0..60 {
            player.step();
        }
        for body in &player.world.journal {
            let envelope: Envelope = serde_json::from_slice(body).unwrap();
            for recorded in &envelope.events {
                let real = serde_json::to_vec(recorded).unwrap().len() + 1;
                let estimate = tidemill_engine::weight_of(&recorded.event);
                assert!(real <= estimate, "{real} > {estimate}: {:?}", recorded.event);
                assert!(estimate <= 12 * real, "{estimate} is far above {real}: {:?}", recorded.event);
            }
        }
    }
}
