//! An owner without threads: its journal, its commands and its clocks lie on the desk.

use jiff::SignedDuration;
use tidemill_dispatcher::{Config, Input, Moment, Output, Owner, Role, Start};
use tidemill_engine::Effect;
use tidemill_log::{Frame, Genesis, Hash, Head, LogId, Payload, Record};
use tidemill_model::{
    Actor, AttemptOutcome, AttemptResult, CatalogueCommand, Command, CommandRecord, Envelope, Event,
    GroupSettings, Heartbeat, Incarnation, InstanceId, JobCommand, JobId, Nonce, ReplicationEvent, RequestId,
    ShardId, StartRequest, Timestamp, Token, WorkerCommand, WorkerId,
};

use super::journal::{History, kind_of};
use super::worker::{public_key, registration};

/// Midnight of a day without surprises.
pub const MIDNIGHT: Timestamp = Timestamp::constant(1_790_812_800);
pub const GROUP: ShardId = ShardId(1);

pub struct Requester {
    pub owner: Owner,
    pub start: Start,
    pub journal: Vec<Record>,
    pub commands: Vec<Record>,
    pub moment: Moment,
    /// What the owner wanted done outside, in order.
    pub acts: Vec<Effect>,
    journal_read: usize,
    commands_read: Option<usize>,
    requests: u64,
}

impl Requester {
    /// A partition with its genesis, and an owner that has read nothing, a second past midnight.
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    pub fn with(config: Config) -> Self {
        let start = Start { partition: 0, count: 1, incarnation: "me".to_owned(), config };
        let moment = Moment { wall: MIDNIGHT, boot_ms: 1_000_000 };
        let mut requester = Self {
            owner: Owner::new(start.clone()),
            start,
            journal: Vec::new(),
            commands: Vec::new(),
            moment,
            acts: Vec::new(),
            journal_read: 0,
            commands_read: None,
            requests: 0,
        };
        let genesis = Genesis { log_id: LogId::try_from("log".to_owned()).unwrap(), partition: 0, count: 1 };
        requester.land(genesis.record());
        requester
    }

    /// Puts a record into the journal; the owner has not read it.
    pub fn land(&mut self, value: impl Into<Payload>) -> u64 {
        let offset = self.journal.len() as u64;
        self.journal.push(record(offset, self.moment.wall, value));
        offset
    }

    /// Puts a command into the log; the owner has not read it.
    pub fn submit_request(&mut self, shard: ShardId, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId::new(format!("r{}", self.requests));
        let value = CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(InstanceId::new("api")),
            actor: Actor::default(),
            command,
        };
        self.submit_request_raw(serde_json::to_vec(&value).unwrap());
        request
    }

    /// The same, by someone who does not wait for an answer.
    pub fn say(&mut self, shard: ShardId, command: Command) {
        let actor = Actor::default();
        let value = CommandRecord { shard, request: None, reply_to: None, actor, command };
        self.submit_request_raw(serde_json::to_vec(&value).unwrap());
    }

    pub fn submit_request_raw(&mut self, value: Vec<u8>) {
        let offset = self.commands.len() as u64;
        self.commands.push(record(offset, self.moment.wall, value));
    }

    pub fn step(&mut self, input: Input) -> Vec<Output> {
        self.owner.step(input, self.moment).unwrap()
    }

    pub fn drive(&mut self) -> Vec<Output> {
        self.owner.drive(self.moment).unwrap()
    }

    /// Both clocks go on.
    pub fn pass(&mut self, ms: i64) {
        self.moment.wall += SignedDuration::from_millis(ms);
        self.moment.boot_ms += ms as u64;
    }

    pub fn unread_journal(&mut self) -> Input {
        let records = self.journal[self.journal_read..].to_vec();
        self.journal_read = self.journal.len();
        Input::Journal(records)
    }

    pub fn unread_commands(&mut self) -> Input {
        let from = self.commands_read.expect("the owner has asked for commands");
        self.commands_read = Some(self.commands.len());
        Input::Commands(self.commands[from..].to_vec())
    }

    pub fn ends(&self) -> Input {
        Input::Ends {
            asked: self.moment,
            journal: self.journal.len() as u64,
            commands: self.commands.len() as u64,
        }
    }

    pub fn read_journal(&mut self) -> Vec<Output> {
        let input = self.unread_journal();
        self.step(input)
    }

    pub fn read_commands(&mut self) -> Vec<Output> {
        let input = self.unread_commands();
        self.step(input)
    }

    /// Becomes the owner: everything is read, and nobody else claims.
    pub fn own(&mut self) {
        self.step(Input::Suggested(true));
        self.read_journal();
        self.pass(self.start.config.claim_after_ms as i64);
        self.settle();
        assert_eq!(self.owner.role(), Role::Owning);
    }

    /// Carries out what the owner wants, as the log would, until it wants nothing more.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.commands_read.is_some_and(|read| read < self.commands.len()) {
                let outputs = self.read_commands();
                self.carry_out(outputs);
            }
            let outputs = self.drive();
            if outputs.is_empty() {
                return;
            }
            self.carry_out(outputs);
        }
        panic!("the owner does not come to rest");
    }

    pub fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Append(record) => {
                    let offset = self.land(record);
                    let appended = self.step(Input::Appended(Ok(offset)));
                    let read = self.read_journal();
                    self.carry_out(appended);
                    self.carry_out(read);
                }
                Output::AskEnds => {
                    let ends = self.ends();
                    let outputs = self.step(ends);
                    self.carry_out(outputs);
                }
                Output::ReadCommands(from) => self.commands_read = Some(from as usize),
                Output::Act(Effect::Send { shard, command }) => self.say(shard, command),
                Output::Act(effect) => self.acts.push(effect),
                Output::Restart { reason, .. } => panic!("restart: {reason}"),
                Output::Resigned => {}
            }
        }
    }

    /// The process is gone, and another one begins with what is in the log.
    pub fn another(&mut self, incarnation: &str) {
        self.start.incarnation = incarnation.to_owned();
        self.owner = Owner::new(self.start.clone());
        (self.journal_read, self.commands_read) = (0, None);
    }

    pub fn history(&self) -> History {
        let mut history = History::new(0, 1);
        history.take(self.journal.clone());
        history
    }

    pub fn head(&self) -> Head {
        self.history().head().clone()
    }

    /// A claim by somebody else, who has read everything.
    pub fn foreign_claim(&self) -> Vec<u8> {
        self.head().claim("other", "other:1").unwrap()
    }

    /// The group, and a worker with slots for two attempts.
    pub fn furnish(&mut self, settings: GroupSettings) {
        let name = "demo".try_into().unwrap();
        self.submit_request(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key: public_key(), settings }),
        );
        self.settle();
        self.say(GROUP, Command::Worker(WorkerCommand::Register(Box::new(registration("w1", "life-1", 2)))));
        self.settle();
    }

    /// Defines one job from its fields; gives its id.
    pub fn apply(&mut self, spec: serde_json::Value) -> JobId {
        let jobs = vec![tidemill_model::JobSpec::from_value(spec).unwrap()];
        self.submit_request(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Apply {
                jobs,
                prune: Vec::new(),
                cancel: false,
                orphan_children: false,
            }),
        );
        self.settle();
        let history = self.history();
        let received = history.events().filter_map(|event| match event {
            Event::Replication(ReplicationEvent::JobReplicated { definition, .. }) => Some(definition.id),
            _ => None,
        });
        received.last().expect("the group's shard knows the job")
    }

    pub fn kinds(&self) -> Vec<String> {
        self.history().events().map(kind_of).collect()
    }

    /// Kinds of the events since there were `before`.
    pub fn kinds_since(&self, before: usize) -> Vec<String> {
        self.kinds().split_off(before)
    }
}

pub fn record(offset: u64, at: Timestamp, value: impl Into<Payload>) -> Record {
    Record { offset, timestamp_ms: at.as_millisecond(), key: Vec::new(), value: value.into() }
}

/// What an append would put into the journal, by event kind.
pub fn envelope_of(output: &Output) -> Envelope {
    let Output::Append(record) = output else { panic!("not an append: {output:?}") };
    serde_json::from_slice(&Frame::decode(record).unwrap().body).unwrap()
}

pub fn is_append(output: &Output) -> bool {
    matches!(output, Output::Append(_))
}

pub fn appended_kinds(outputs: &[Output]) -> Vec<String> {
    let appends = outputs.iter().filter(|output| is_append(output));
    appends.flat_map(|output| envelope_of(output).events.into_iter().map(|r| kind_of(&r.event))).collect()
}

pub fn heartbeat() -> Command {
    let (worker, incarnation) = (WorkerId::new("w1"), Incarnation::new("life-1"));
    Command::Worker(WorkerCommand::Heartbeat(Heartbeat {
        worker,
        incarnation,
        number: 0,
        measure: None,
        unready: None,
        excesses: Vec::new(),
        leaving: None,
        external_work: Vec::new(),
        status: None,
    }))
}

pub fn request_start(token: Token) -> Command {
    let (worker, incarnation) = (WorkerId::new("w1"), Incarnation::new("life-1"));
    Command::Worker(WorkerCommand::RequestStart(StartRequest {
        token,
        worker,
        incarnation,
        nonce: Nonce::new("n"),
    }))
}

pub fn report_failed(token: Token) -> Command {
    let outcome = AttemptOutcome { exit_code: Some(1), ..AttemptOutcome::bare(AttemptResult::Failed) };
    Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: WorkerId::new("w1"),
        outcome,
        usage: None,
        interrupted: false,
        external: None,
    })
}

pub fn hash_of(record: &Record) -> String {
    Hash::of(&record.value).to_string()
}
