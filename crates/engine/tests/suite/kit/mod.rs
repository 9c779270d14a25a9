//! A whole partition in one value: it decides as an owner does, keeps its journal as JSON, carries messages
//! between its shards, and plays workers.

mod print;
mod pull;
pub(crate) mod refusal;
mod worker;

use std::collections::VecDeque;

use ed25519_dalek::{Signer, SigningKey};
use jiff::SignedDuration;
use tidemill_engine::{Draft, Effect, FaultInjection, OutboxSender, Partition, effects};
use tidemill_model::{
    Actor, Answer, BatchCommand, BatchId, CatalogueCommand, Cause, Command, CommandRecord, Condition,
    Envelope, Event, GroupName, GroupSettings, InstanceId, JobCommand, JobEvent, JobId, JobSpec, Level,
    LevelCommand, LiveAnswer, LiveQuery, Outcome, PartitionEvent, Process, Program, Recorded, Reply,
    RequestId, Resume, ShardId, Source, Submission, Timestamp, WorkMessage, WorkerCommand, WorkerId,
};

pub(crate) use self::print::{brief, rejection};
pub(crate) use self::pull::{spec, user};
pub(crate) use self::worker::{Script, TestWorker};

/// The group's shard.
pub(crate) const GROUP: ShardId = ShardId(1);
/// Where a test begins, if it does not say: a Wednesday, ten minutes past the hour.
pub(crate) const START: &str = "2026-07-01T10:10:00Z";

/// An instant.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The key of every group of the tests.
pub(crate) fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sign(text: &str) -> String {
    hex(&signing_key().sign(text.as_bytes()).to_bytes())
}

/// The public key of every group here.
pub(crate) fn public_key() -> String {
    hex(signing_key().verifying_key().as_bytes())
}

pub(crate) fn group(name: &str) -> GroupName {
    name.try_into().unwrap()
}

/// A job as JSON, with name, group and type filled in where they are missing.
pub(crate) fn job(name: &str, more: serde_json::Value) -> JobSpec {
    let mut value = serde_json::json!({"name": name, "group": "g", "type": "noop"});
    for (key, field) in more.as_object().unwrap() {
        value[key] = field.clone();
    }
    JobSpec::from_value(value).unwrap()
}

/// A schedule field.
pub(crate) fn every(period: &str) -> serde_json::Value {
    serde_json::json!({"period": period, "zone": "UTC"})
}

/// One partition with a catalogue, one group `g`, and what went in and out.
pub(crate) struct World {
    pub(crate) partition: Partition,
    fault_injection: FaultInjection,
    /// Every envelope, as it would stand in the journal.
    pub(crate) journal: Vec<Vec<u8>>,
    pub(crate) wall: Timestamp,
    pub(crate) workers: Vec<TestWorker>,
    /// Replies, dead letters and messages to workers that the test does not play.
    pub(crate) outside: Vec<Effect>,
    /// Messages between shards that have not been handed on, when the test holds them up.
    pub(crate) held: Option<Vec<Effect>>,
    /// The largest envelope so far, bytes.
    pub(crate) largest: usize,
    outbox_sender: OutboxSender,
    queue: VecDeque<CommandRecord>,
    offset: u64,
    read: Option<Resume>,
    requests: u64,
    seen: usize,
    /// The owner has just read a heartbeat of every worker.
    pub(crate) gives_rights: bool,
}

/// Heartbeat 7 of every life has just been read.
#[derive(Debug)]
struct Beating;

impl tidemill_engine::Heartbeats for Beating {
    fn last(
        &self,
        _: ShardId,
        _: &tidemill_model::WorkerId,
        _: &tidemill_model::Incarnation,
    ) -> Option<tidemill_engine::ReadHeartbeat> {
        Some(tidemill_engine::ReadHeartbeat { number: 7, age_ms: 100 })
    }
}

fn due(draft: &mut Draft<'_>, wall: Timestamp, gives_rights: bool) {
    if gives_rights {
        draft.due(wall, &Beating);
    } else {
        draft.due(wall, &());
    }
}

impl World {
    /// A world whose group `g` has default bounds.
    pub(crate) fn new() -> Self {
        Self::with(START, GroupSettings::default())
    }

    pub(crate) fn at(start: &str) -> Self {
        Self::with(start, GroupSettings::default())
    }

    pub(crate) fn with(start: &str, settings: GroupSettings) -> Self {
        Self::fault_injected(start, settings, FaultInjection::default())
    }

    /// A world whose shards, and what is folded from its journal, are rigged.
    pub(crate) fn fault_injected(
        start: &str,
        settings: GroupSettings,
        fault_injection: FaultInjection,
    ) -> Self {
        let mut world = Self {
            partition: Partition::new(0, 1).fault_injected(fault_injection.clone()),
            fault_injection,
            journal: Vec::new(),
            wall: at(start),
            workers: Vec::new(),
            outside: Vec::new(),
            held: None,
            largest: 0,
            outbox_sender: OutboxSender::default(),
            queue: VecDeque::new(),
            offset: 0,
            read: None,
            requests: 0,
            seen: 0,
            gives_rights: false,
        };
        world.define_group("g", settings);
        world.events();
        world
    }

    /// A process that reads the newest level registers, and that level stands.
    /// A group whose log is of this level.
    pub(crate) fn of_level(level: u32) -> Self {
        let mut world = Self::new();
        world.raise_to(Level::new(level));
        world
    }

    /// To the newest level.
    pub(crate) fn raise(&mut self) {
        self.raise_to(Level::READS);
    }

    fn raise_to(&mut self, reads: Level) {
        let process = Process {
            id: InstanceId::new("p"),
            host: "h".to_owned(),
            roles: vec!["standalone".to_owned()],
            version: "1.0.0".to_owned(),
            reads,
            expire_after_ms: 60_000,
        };
        let register = LevelCommand::RegisterProcess { process: Box::new(process), number: 0 };
        self.ask(ShardId::CATALOGUE, Command::Level(register));
        assert_eq!(self.partition.level(), reads);
        self.events();
    }

    pub(crate) fn define_group(&mut self, name: &str, settings: GroupSettings) {
        let worker_key = public_key();
        let answer = self.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineGroup { name: group(name), worker_key, settings }),
        );
        assert!(matches!(answer, Outcome::Answered(Answer::Group { .. })), "{answer:?}");
    }

    /// The key of those who ask here, with these accounts.
    pub(crate) fn define_key(&mut self, accounts: &[&str]) {
        let run_as = accounts.iter().map(|account| (*account).try_into().unwrap()).collect();
        let (app, hash, role) = ("test".to_owned(), "0".repeat(64), tidemill_model::Role::User);
        let key = Command::Catalogue(CatalogueCommand::DefineKey {
            app,
            hash,
            role,
            groups: Vec::new(),
            run_as,
            may: Default::default(),
            department: None,
            first_only: false,
        });
        let answer = self.ask(ShardId::CATALOGUE, key);
        assert_eq!(answer, Outcome::Answered(Answer::Done));
    }

    /// Puts a command at the end of the topic.
    pub(crate) fn send(&mut self, shard: ShardId, command: Command) {
        self.queue.push_back(CommandRecord {
            shard,
            request: None,
            reply_to: None,
            actor: Actor { app: "test".into(), user: Some("ann".into()) },
            command,
        });
    }

    pub(crate) fn send_record(&mut self, record: CommandRecord) {
        self.queue.push_back(record);
    }

    /// Decides everything that is there, until nothing is left to do.
    pub(crate) fn run(&mut self) {
        for round in 0.. {
            assert!(round < 200_000, "it never comes to rest");
            if !self.step(usize::MAX) {
                return;
            }
        }
    }

    /// One draft of at most `most` commands. False when there was nothing to do.
    pub(crate) fn step(&mut self, most: usize) -> bool {
        let before = (self.journal.len(), self.queue.len());
        let mut draft = Draft::new(&mut self.partition, self.wall, self.read.clone());
        for _ in 0..most {
            if draft.is_full() {
                break;
            }
            let Some(record) = self.queue.pop_front() else { break };
            // Through JSON, as the topic holds it.
            let record = CommandRecord::read(&record.encoded(Level::MAX), Level::MAX).unwrap();
            if draft.raises_for(&record) {
                self.queue.push_front(record);
                break;
            }
            draft.command(self.offset, format!("hash-{}", self.offset), record);
            self.offset += 1;
        }
        due(&mut draft, self.wall, self.gives_rights);
        self.read = draft.read().cloned();
        let drafted = draft.finish(false);
        self.accept(drafted.envelope, drafted.notices);
        (self.journal.len(), self.queue.len()) != before || !self.queue.is_empty()
    }

    /// What the owner saw by its own clock.
    pub(crate) fn observe(&mut self, shard: ShardId, command: Command) {
        let mut draft = Draft::new(&mut self.partition, self.wall, self.read.clone());
        draft.observed(shard, &command);
        due(&mut draft, self.wall, self.gives_rights);
        let drafted = draft.finish(false);
        self.accept(drafted.envelope, drafted.notices);
        self.run();
    }

    /// The log is restored as it stands: what a restore records, but for the workers that nobody has heard of.
    pub(crate) fn restored(&mut self, ids_above: u64) {
        let event = Event::Partition(PartitionEvent::Restored {
            generation: 1,
            ids_above,
            by: "ann".to_owned(),
            upto: self.journal.len() as u64,
        });
        let envelope = Envelope {
            now: self.wall,
            level: self.partition.level(),
            resume: self.partition.resume().cloned(),
            causes: vec![Cause { source: Source::Observed, outcome: Outcome::Done, events: 1 }],
            events: vec![Recorded { shard: ShardId::CATALOGUE, event }],
        };
        self.partition.apply(&envelope);
        self.accept(Some(envelope), Vec::new());
        self.run();
    }

    pub(crate) fn undecodable(&mut self, reason: &str) {
        let mut draft = Draft::new(&mut self.partition, self.wall, self.read.clone());
        draft.undecodable(self.offset, format!("hash-{}", self.offset), reason);
        self.offset += 1;
        self.read = draft.read().cloned();
        let drafted = draft.finish(false);
        self.accept(drafted.envelope, drafted.notices);
    }

    fn accept(&mut self, envelope: Option<Envelope>, notices: Vec<Effect>) {
        let mut acts = notices;
        if let Some(envelope) = envelope {
            let body = serde_json::to_vec(&envelope).unwrap();
            assert!(body.len() < 512 * 1024 - 256, "an envelope of {} bytes", body.len());
            self.largest = self.largest.max(body.len());
            acts.extend(effects(&self.partition, &envelope, self.journal.len() as u64));
            self.journal.push(body);
        }
        acts.extend(self.outbox_sender.collect(&self.partition));
        for act in acts {
            self.act(act);
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Send { .. } if self.held.is_some() => {
                self.held.as_mut().unwrap().push(effect);
            }
            Effect::Send { shard, command } => self.send(shard, command),
            Effect::Work { worker, message } => {
                let now = self.wall;
                match self.workers.iter_mut().find(|known| known.id == worker) {
                    Some(known) => {
                        let shard = known.shard;
                        for command in known.hear(message, now) {
                            self.send(shard, command);
                        }
                    }
                    None => self.outside.push(Effect::Work { worker, message }),
                }
            }
            effect @ (Effect::Reply { .. } | Effect::Underivable { .. } | Effect::DeadLetter { .. }) => {
                self.outside.push(effect);
            }
        }
    }

    /// A worker of another group is there.
    pub(crate) fn worker_of(&mut self, group: &'static str, shard: ShardId, name: &str, slots: u32) {
        let worker = TestWorker { group, shard, ..TestWorker::new(name, slots, Script::Run) };
        let registration = worker.registration();
        self.workers.push(worker);
        self.send(shard, Command::Worker(WorkerCommand::Register(Box::new(registration))));
        self.run();
    }

    pub(crate) fn why_of(&self, shard: ShardId, batch: BatchId) -> Vec<Condition> {
        match self.partition.answer(shard, &LiveQuery::Why { batch }) {
            LiveAnswer::Why(why) => why.conditions,
            other => panic!("{other:?}"),
        }
    }

    /// Works on to the end, with an owner that dies once there are more than so many records. What it was about to say
    /// is lost with it, or not; and what shards say comes once, or twice.
    pub(crate) fn crash_on_the_way(&mut self, records: usize, lost: bool, twice: bool) {
        self.held = Some(Vec::new());
        let mut has_crashed = false;
        loop {
            let busy = self.step(1);
            if !has_crashed && self.journal.len() > records {
                has_crashed = true;
                if lost {
                    self.held = Some(Vec::new());
                }
                self.partition = self.folded();
                self.say_again();
            }
            let held = self.held.replace(Vec::new()).unwrap();
            if held.is_empty() && !busy {
                break;
            }
            for effect in held {
                let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
                self.send(shard, command.clone());
                if twice {
                    self.send(shard, command);
                }
            }
        }
        self.held = None;
    }

    /// What an owner says again after it lost its effects: everything unacknowledged, everything outstanding.
    pub(crate) fn say_again(&mut self) {
        self.outbox_sender.start_over();
        for effect in self.partition.outstanding() {
            self.act(effect);
        }
        self.accept(None, Vec::new());
    }

    /// Lets time pass, in one step, then decides.
    pub(crate) fn pass(&mut self, duration: SignedDuration) {
        self.wall = self.wall.checked_add(duration).unwrap();
        let wall = self.wall;
        let due = |worker: &mut TestWorker| {
            let shard = worker.shard;
            worker.tick(wall).into_iter().map(move |command| (shard, command))
        };
        let due: Vec<(ShardId, Command)> = self.workers.iter_mut().flat_map(due).collect();
        for (shard, command) in due {
            self.send(shard, command);
        }
        self.run();
    }

    pub(crate) fn pass_ms(&mut self, ms: i64) {
        self.pass(SignedDuration::from_millis(ms));
    }

    pub(crate) fn pass_minutes(&mut self, minutes: i64) {
        self.pass(SignedDuration::from_mins(minutes));
    }

    pub(crate) fn until(&mut self, time: &str) {
        self.pass(at(time).duration_since(self.wall));
    }

    /// Sends a command with a request id and gives its outcome.
    pub(crate) fn ask(&mut self, shard: ShardId, command: Command) -> Outcome {
        self.requests += 1;
        let request = RequestId::new(format!("test-{}", self.requests));
        self.ask_as(shard, command, request)
    }

    pub(crate) fn ask_as(&mut self, shard: ShardId, command: Command, request: RequestId) -> Outcome {
        self.ask_of(shard, Actor { app: "test".into(), user: Some("ann".into()) }, command, request)
    }

    /// The catalogue, with this application's key, in the name of this person if there is one.
    pub(crate) fn ask_catalogue(&mut self, (app, user): (&str, Option<&str>), command: Command) -> Outcome {
        let request = RequestId::new(format!("{app}-{}-{}", self.journal.len(), self.outside.len()));
        let actor = Actor { app: app.into(), user: user.map(Into::into) };
        self.ask_of(ShardId::CATALOGUE, actor, command, request)
    }

    fn ask_of(&mut self, shard: ShardId, actor: Actor, command: Command, request: RequestId) -> Outcome {
        let before = self.outside.len();
        self.send_record(CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(tidemill_model::InstanceId::new("tester")),
            actor,
            command,
        });
        self.run();
        let reply = self.outside[before..].iter().find_map(|effect| match effect {
            Effect::Reply { reply: Reply { request: of, outcome, .. }, .. } if *of == request => {
                Some(outcome.clone())
            }
            _ => None,
        });
        reply.expect("a request is answered")
    }

    pub(crate) fn apply(&mut self, jobs: Vec<JobSpec>) -> Outcome {
        self.apply_pruning(jobs, &[])
    }

    pub(crate) fn apply_pruning(&mut self, jobs: Vec<JobSpec>, prune: &[&str]) -> Outcome {
        let prune = prune.iter().map(|name| group(name)).collect();
        self.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Apply { jobs, prune, cancel: false, orphan_children: false }),
        )
    }

    /// Applies jobs that must be accepted, and gives their ids in order.
    pub(crate) fn define(&mut self, jobs: Vec<JobSpec>) -> Vec<JobId> {
        match self.apply(jobs) {
            Outcome::Answered(Answer::Applied { changes, .. }) => {
                self.events();
                changes.into_iter().map(|change| change.job).collect()
            }
            other => panic!("{}", rejection(&other)),
        }
    }

    pub(crate) fn submission(name: &str, parents: &[JobId]) -> Submission {
        Submission {
            name: name.try_into().unwrap(),
            group: group("g"),
            group_id: tidemill_model::GroupId(1),
            app_name: "app".to_owned(),
            owner: "ann".to_owned(),
            job_type: "noop".try_into().unwrap(),
            program: Program::None,
            parameters: std::collections::BTreeMap::new(),
            priority: tidemill_model::Priority::DEFAULT,
            parents: parents.to_vec(),
            retries: 0,
            retry_interval_s: 60,
        }
    }

    pub(crate) fn submit(&mut self, submission: Submission) -> (JobId, BatchId) {
        match self.ask(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(submission)))) {
            Outcome::Answered(Answer::Submitted { job, batch: Some(batch) }) => (job, batch),
            other => panic!("{}", rejection(&other)),
        }
    }

    pub(crate) fn run_job(&mut self, job: JobId, logical_time: Option<&str>) -> Outcome {
        let logical_time = logical_time.map(at);
        let parameters = std::collections::BTreeMap::new();
        self.ask(
            GROUP,
            Command::Batch(BatchCommand::RunJob { job, logical_time, parameters, concurrent: true }),
        )
    }

    /// Runs a job by hand, which must be accepted.
    pub(crate) fn batch(&mut self, job: JobId, logical_time: Option<&str>) -> BatchId {
        match self.run_job(job, logical_time) {
            Outcome::Answered(Answer::Generated { batch, .. }) => batch,
            other => panic!("{}", rejection(&other)),
        }
    }

    pub(crate) fn rerun(&mut self, batch: BatchId, job: JobId, time: &str) -> Outcome {
        self.ask(
            GROUP,
            Command::Batch(BatchCommand::Rerun { batch, job, logical_time: at(time), recorded: None }),
        )
    }

    pub(crate) fn kill(&mut self, batch: BatchId) -> Outcome {
        self.ask(GROUP, Command::Batch(BatchCommand::Kill { batch, reason: "enough".to_owned() }))
    }

    /// A worker with `slots` slots for `noop` and `shell`, registered.
    pub(crate) fn worker(&mut self, name: &str, slots: u32, script: Script) -> WorkerId {
        let worker = TestWorker::new(name, slots, script);
        let id = worker.id.clone();
        let registration = worker.registration();
        self.workers.push(worker);
        self.send(GROUP, Command::Worker(WorkerCommand::Register(Box::new(registration))));
        self.run();
        id
    }

    pub(crate) fn played(&mut self, id: &WorkerId) -> &mut TestWorker {
        self.workers.iter_mut().find(|worker| worker.id == *id).unwrap()
    }

    /// What the worker has to say by itself, then everything that follows.
    pub(crate) fn say(&mut self, command: Command) {
        self.send(GROUP, command);
        self.run();
    }

    pub(crate) fn lost(&mut self, worker: &WorkerId) {
        let incarnation = self.played(worker).incarnation.clone();
        self.observe(
            GROUP,
            Command::Worker(WorkerCommand::DeclareLost { worker: worker.clone(), incarnation }),
        );
    }

    pub(crate) fn lease_over(&mut self, worker: &WorkerId) {
        let incarnation = self.played(worker).incarnation.clone();
        self.observe(
            GROUP,
            Command::Worker(WorkerCommand::ExpireLease { worker: worker.clone(), incarnation }),
        );
    }

    /// The events since this was last called.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let envelopes = self.journal[self.seen..].iter();
        let events = envelopes
            .flat_map(|body| serde_json::from_slice::<Envelope>(body).unwrap().events)
            .map(|recorded| recorded.event)
            .collect();
        self.seen = self.journal.len();
        events
    }

    /// The same, in short, one a line.
    pub(crate) fn told(&mut self) -> String {
        let names = self.names();
        let lines: Vec<String> =
            self.events().iter().filter_map(|event| brief(event, &names)).map(|line| line + "\n").collect();
        lines.concat()
    }

    fn names(&self) -> std::collections::BTreeMap<JobId, String> {
        let mut names = std::collections::BTreeMap::new();
        for body in &self.journal {
            for recorded in serde_json::from_slice::<Envelope>(body).unwrap().events {
                if let Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Submitted { definition }) =
                    recorded.event
                {
                    names.insert(definition.id, definition.spec.name.to_string());
                }
            }
        }
        names
    }

    /// Messages to workers that are not played, since the last call.
    pub(crate) fn work(&mut self) -> Vec<WorkMessage> {
        let (work, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.outside)
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Work { .. }));
        self.outside = rest;
        work.into_iter()
            .filter_map(|effect| match effect {
                Effect::Work { message, .. } => Some(message),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn why(&self, batch: BatchId) -> Vec<Condition> {
        match self.partition.answer(GROUP, &LiveQuery::Why { batch }) {
            LiveAnswer::Why(why) => why.conditions,
            other => panic!("{other:?}"),
        }
    }

    /// The kinds of conditions that keep a batch back.
    pub(crate) fn why_kinds(&self, batch: BatchId) -> Vec<String> {
        self.why(batch).into_iter().map(|condition| condition.kind).collect()
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.partition.group(GROUP).unwrap().unfinished_batches()
    }

    /// The worker asks for the start of what it was assigned last; the command that it then is to run, with its arguments.
    pub(crate) fn granted_command(&mut self, worker: &WorkerId) -> Option<String> {
        let token = self.played(worker).last_token();
        let request = self.played(worker).request(token);
        self.say(request);
        self.played(worker).heard.iter().rev().find_map(|message| match message {
            WorkMessage::Granted { spec, .. } if spec.token == token => match &spec.program {
                Program::Command(text) => Some(text.clone()),
                Program::Script { text, arguments } => Some(format!("{text} {}", arguments.join(" "))),
                Program::Path { .. } | Program::None => None,
            },
            _ => None,
        })
    }

    /// EVT-2: what the journal folds to.
    pub(crate) fn folded(&self) -> Partition {
        let mut fresh = Partition::new(0, 1).fault_injected(self.fault_injection.clone());
        for body in &self.journal {
            fresh.apply(&serde_json::from_slice(body).unwrap());
        }
        fresh
    }
}
