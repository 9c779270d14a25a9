//! Builds journals record by record, framed and chained.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidemill_checker::{Checker, Invariant, Options, Report};
use tidemill_log::{Frame, Genesis, Hash, Head, Kind, LogId, Tip};
use tidemill_model::{
    Answer, BatchId, Cause, Envelope, Event, JobId, Level, Outcome, Recorded, Reply, RequestId, Resume,
    ShardId, Source, Timestamp, Token, WorkMessage,
};

pub(crate) const T0: &str = "2026-03-02T10:00:30.000Z";

#[derive(Clone)]
pub(crate) enum Step {
    Journal { partition: u32, offset: u64, taken_ms: Option<i64>, bytes: Vec<u8> },
    Command { partition: u32, offset: u64, taken_ms: i64, bytes: Vec<u8> },
    Reply(Reply),
    Work(WorkMessage),
}

#[derive(Clone)]
struct End {
    tip: Tip,
    next: u64,
    resume: Option<Resume>,
}

/// A history in the making.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) options: Options,
    pub(crate) steps: Vec<Step>,
    ends: BTreeMap<u32, End>,
    now: Timestamp,
    partition: u32,
    shard: ShardId,
    level: Level,
}

impl History {
    /// One partition, which shard 1 and the catalogue share; owned.
    pub(crate) fn new() -> Self {
        Self::with_partitions(1)
    }

    pub(crate) fn with_partitions(count: u32) -> Self {
        let mut history = Self {
            options: Options { clock_tolerance_ms: 0, ..Options::default() },
            steps: Vec::new(),
            ends: BTreeMap::new(),
            now: at(T0),
            partition: 0,
            shard: ShardId(1),
            level: Level::FIRST,
        };
        for partition in (0..count).rev() {
            let log_id = LogId::try_from("log".to_owned()).unwrap();
            let genesis = Genesis { log_id, partition, count }.record();
            history = history.on(partition, 1).genesis(genesis).claim(1);
        }
        history
    }

    /// Begins anew behind another genesis, in partition 0.
    pub(crate) fn restart(mut self, genesis: Vec<u8>) -> Self {
        self.ends.clear();
        self.steps.clear();
        self.on(0, 1).genesis(genesis)
    }

    pub(crate) fn genesis(mut self, bytes: Vec<u8>) -> Self {
        let tip = Tip { epoch: 0, seq: 0, hash: Hash::of(&bytes) };
        self.ends.insert(self.partition, End { tip, next: 0, resume: None });
        self.raw(bytes)
    }

    /// What follows stands in this partition, and its events are this shard's.
    pub(crate) fn on(mut self, partition: u32, shard: u16) -> Self {
        (self.partition, self.shard) = (partition, ShardId(shard));
        self
    }

    /// The level is raised, and all that follows is of it.
    pub(crate) fn raised(self, level: u32) -> Self {
        let process = json!({
            "id": "p", "host": "h", "roles": ["api"], "version": "1", "reads": level, "expire_after_ms": 60_000,
        });
        let registered = event(json!({"level": {"process_registered": {"process": process}}}));
        let raised = event(json!({"level": {"raised": {"level": level}}}));
        let (partition, shard) = (self.partition, self.shard.0);
        let mut history = self.on(0, 0).timer([registered]).timer([raised]).on(partition, shard);
        history.level = Level::new(level);
        history
    }

    pub(crate) fn at(mut self, time: &str) -> Self {
        self.now = at(time);
        self
    }

    pub(crate) fn pass(mut self, seconds: i64) -> Self {
        self.now += jiff::SignedDuration::from_secs(seconds);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn at_rest(self) -> Self {
        self.options(|options| options.at_rest = true)
    }

    fn end(&mut self) -> &mut End {
        self.ends.get_mut(&self.partition).unwrap()
    }

    pub(crate) fn tip(&self) -> Tip {
        self.ends[&self.partition].tip
    }

    /// Any bytes as the next record.
    pub(crate) fn raw(self, bytes: Vec<u8>) -> Self {
        let taken = self.now.as_millisecond();
        self.raw_taken(bytes, Some(taken))
    }

    fn raw_taken(mut self, bytes: Vec<u8>, taken_ms: Option<i64>) -> Self {
        let partition = self.partition;
        let offset = self.end().next;
        self.end().next += 1;
        self.steps.push(Step::Journal { partition, offset, taken_ms, bytes });
        self
    }

    pub(crate) fn skip_offset(mut self) -> Self {
        self.end().next += 1;
        self
    }

    /// A frame with any epoch, number and link, that does not move the chain on.
    pub(crate) fn stray(self, kind: Kind, (epoch, seq, prev): (u64, u64, Hash), body: &[u8]) -> Self {
        let frame = Frame { kind, epoch, seq, prev, codec: tidemill_log::Codec::Plain, body: body.to_vec() };
        self.raw(frame.encode().unwrap())
    }

    pub(crate) fn claim(mut self, epoch: u64) -> Self {
        let tip = self.tip();
        let head = Head {
            log_id: LogId::try_from("log".to_owned()).unwrap(),
            partition: self.partition,
            count: 1,
            offset: 0,
            epoch: epoch - 1,
            seq: tip.seq,
            hash: tip.hash,
            owner: None,
            resigned: false,
            stopped: false,
        };
        let bytes = head.claim("owner", "address").unwrap();
        self.end().tip = Tip { epoch, seq: tip.seq + 1, hash: Hash::of(&bytes) };
        self.raw(bytes)
    }

    pub(crate) fn put(mut self, kind: Kind, body: Vec<u8>) -> Self {
        let (bytes, tip) = self.tip().next(kind, body).unwrap();
        self.end().tip = tip;
        self.raw(bytes)
    }

    pub(crate) fn envelope(mut self, envelope: &Envelope) -> Self {
        self.end().resume.clone_from(&envelope.resume);
        self.put(Kind::Envelope, serde_json::to_vec(envelope).unwrap())
    }

    /// An envelope with these causes, each with its events, that leaves the resume point where it is.
    pub(crate) fn causes<const N: usize>(self, causes: [(Source, Outcome, Vec<Event>); N]) -> Self {
        let resume = self.ends[&self.partition].resume.clone();
        self.causes_to(resume, causes)
    }

    pub(crate) fn causes_to<const N: usize>(
        self,
        resume: Option<Resume>,
        causes: [(Source, Outcome, Vec<Event>); N],
    ) -> Self {
        let shard = self.shard;
        let mut envelope =
            Envelope { now: self.now, level: self.level, resume, causes: vec![], events: vec![] };
        for (source, outcome, events) in causes {
            envelope.causes.push(Cause { source, outcome, events: events.len() as u32 });
            envelope.events.extend(events.into_iter().map(|event| Recorded { shard, event }));
        }
        self.envelope(&envelope)
    }

    /// Events that time brought.
    pub(crate) fn timer<const N: usize>(self, events: [Event; N]) -> Self {
        self.causes([(Source::Timer, Outcome::Done, events.to_vec())])
    }

    /// Events of what the owner saw.
    pub(crate) fn observed<const N: usize>(self, events: [Event; N]) -> Self {
        self.causes([(Source::Observed, Outcome::Done, events.to_vec())])
    }

    /// Events of the next command, whose record is not given.
    pub(crate) fn command<const N: usize>(self, events: [Event; N]) -> Self {
        let offset = self.ends[&self.partition].resume.as_ref().map_or(0, |resume| resume.offset + 1);
        let resume = Resume { offset, hash: Hash::of(b"not given").to_string() };
        self.causes_to(Some(resume), [(source(offset, None), Outcome::Done, events.to_vec())])
    }

    /// The next command, which is given, with what came of it.
    pub(crate) fn answers(self, request: &str, command: Value, outcome: Outcome) -> Self {
        let offset = self.ends[&self.partition].resume.as_ref().map_or(0, |resume| resume.offset + 1);
        let shard = self.shard;
        let record = json!({"shard": shard, "request": request, "actor": {"app": ""}, "command": command});
        let bytes = serde_json::to_vec(&record).unwrap();
        let cause = [(source(offset, Some(request)), outcome, vec![])];
        self.given(offset, &record).causes_to(resume(offset, &bytes), cause)
    }

    /// The next command, which is given and asks for no answer, with its events.
    pub(crate) fn said(self, command: Value, events: Vec<Event>) -> Self {
        let offset = self.ends[&self.partition].resume.as_ref().map_or(0, |resume| resume.offset + 1);
        let record = json!({"shard": self.shard, "actor": {"app": ""}, "command": command});
        let bytes = serde_json::to_vec(&record).unwrap();
        let cause = [(source(offset, None), Outcome::Done, events)];
        self.given(offset, &record).causes_to(resume(offset, &bytes), cause)
    }

    /// The same, by this actor.
    pub(crate) fn said_by(self, actor: Value, command: Value, events: Vec<Event>) -> Self {
        let offset = self.ends[&self.partition].resume.as_ref().map_or(0, |resume| resume.offset + 1);
        let record = json!({"shard": self.shard, "actor": actor, "command": command});
        let bytes = serde_json::to_vec(&record).unwrap();
        let actor = serde_json::from_value(actor).unwrap();
        let source = Source::Command { offset, request: None, reply_to: None, actor };
        self.given(offset, &record).causes_to(resume(offset, &bytes), [(source, Outcome::Done, events)])
    }

    /// A record of the commands topic.
    pub(crate) fn given(mut self, offset: u64, record: &Value) -> Self {
        let (partition, taken_ms) = (self.partition, self.now.as_millisecond());
        let bytes = serde_json::to_vec(record).unwrap();
        self.steps.push(Step::Command { partition, offset, taken_ms, bytes });
        self
    }

    pub(crate) fn reply(mut self, request: &str, outcome: Outcome) -> Self {
        let request = RequestId::new(request);
        self.steps.push(Step::Reply(Reply { request, outcome, partition: 0, offset: 2 }));
        self.options(|options| options.effects = true)
    }

    pub(crate) fn work(mut self, message: Value) -> Self {
        self.steps.push(Step::Work(serde_json::from_value(message).unwrap()));
        self.options(|options| options.effects = true)
    }

    pub(crate) fn then(self, more: impl FnOnce(Self) -> Self) -> Self {
        more(self)
    }

    pub(crate) fn check(&self) -> Report {
        let mut checker = Checker::new(self.options);
        for step in &self.steps {
            match step {
                Step::Journal { partition, offset, taken_ms: Some(taken_ms), bytes } => {
                    checker.push_timed(*partition, *offset, *taken_ms, bytes);
                }
                Step::Journal { partition, offset, taken_ms: None, bytes } => {
                    checker.push(*partition, *offset, bytes);
                }
                Step::Command { partition, offset, taken_ms, bytes } => {
                    checker.push_command(*partition, *offset, Some(*taken_ms), bytes);
                }
                Step::Reply(reply) => checker.push_reply(reply),
                Step::Work(message) => checker.push_work(message),
            }
        }
        checker.finish()
    }
}

/// A rule with a history that keeps it and one that breaks it, and nothing else.
pub(crate) struct Case {
    pub(crate) rule: Invariant,
    pub(crate) what: &'static str,
    pub(crate) good: History,
    pub(crate) bad: History,
}

pub(crate) fn case(rule: Invariant, what: &'static str, good: History, bad: History) -> Case {
    Case { rule, what, good, bad }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn source(offset: u64, request: Option<&str>) -> Source {
    let request = request.map(RequestId::new);
    Source::Command { offset, request, reply_to: None, actor: Default::default() }
}

pub(crate) fn resume(offset: u64, value: &[u8]) -> Option<Resume> {
    Some(Resume { offset, hash: Hash::of(value).to_string() })
}

pub(crate) fn answered() -> Outcome {
    Outcome::Answered(Answer::Done)
}

pub(crate) fn job_id(n: u64) -> i64 {
    JobId::mint(n, ShardId(0)).0
}

pub(crate) fn batch_id(n: u64) -> i64 {
    BatchId::mint(n, ShardId(1)).0
}

pub(crate) fn token(n: u64) -> i64 {
    Token::mint(n, ShardId(1)).0
}

pub(crate) fn event(value: Value) -> Event {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// An event that concerns nothing else.
pub(crate) fn harmless() -> Event {
    event(json!({"catalogue": {"key_revoked": {"app": "old"}}}))
}

fn merged(mut base: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    base.as_object_mut().unwrap().extend(more);
    base
}

pub(crate) fn definition(n: u64, more: Value) -> Value {
    let mut definition = json!({
        "id": job_id(n), "version": 1, "group_id": 1,
        "spec": {"group": "g", "name": format!("j{n}"), "type": "noop"},
    });
    for (field, value) in more.as_object().unwrap() {
        let is_beside = ["version", "group_id", "parents", "run_as_by"].contains(&field.as_str());
        let object = if is_beside { &mut definition } else { &mut definition["spec"] };
        object[field] = value.clone();
    }
    definition
}

pub(crate) fn group() -> Event {
    event(
        json!({"replication": {"group_replicated": {"group": 1, "name": "g", "worker_key": "k", "settings": {}}}}),
    )
}

pub(crate) fn job(n: u64, more: Value) -> Event {
    event(json!({"replication": {"job_replicated": {"definition": definition(n, more), "enabled": true}}}))
}

pub(crate) fn scheduled(n: u64, schedule: Value, next: (&str, &str)) -> Event {
    let definition = definition(n, json!({"schedule": schedule}));
    let next = json!({"at": next.0, "logical_time": next.1});
    event(
        json!({"replication": {"job_replicated": {"definition": definition, "enabled": true, "next": next}}}),
    )
}

pub(crate) fn registered(worker: &str, incarnation: &str, slots: u32) -> Event {
    event(json!({"worker": {"registered": {
        "worker": worker, "incarnation": incarnation, "host": format!("host-{worker}"),
        "address": "127.0.0.1:1", "slots": {"noop": slots},
    }}}))
}

/// Batch `n` of job `of`, run 0, for 09:00.
pub(crate) fn generated(n: u64, of: u64, more: Value) -> Event {
    let base = json!({
        "batch": batch_id(n), "job": job_id(of), "version": 1, "logical_time": "2026-03-02T09:00:00.000Z",
        "origin": "manual",
    });
    event(json!({"batch": {"generated": merged(base, more)}}))
}

pub(crate) fn assigned(batch: u64, tok: u64, worker: &str, attempt: u32) -> Event {
    event(json!({"batch": {"assigned": {
        "batch": batch_id(batch), "attempt": attempt, "token": token(tok), "worker": worker,
        "start_by": "2026-03-02T10:30:00.000Z",
    }}}))
}

pub(crate) fn granted(batch: u64, tok: u64, worker: &str, incarnation: &str) -> Event {
    event(json!({"attempt": {"start_granted": {
        "batch": batch_id(batch), "token": token(tok), "worker": worker, "incarnation": incarnation,
        "nonce": format!("nonce-{tok}"),
    }}}))
}

pub(crate) fn started(batch: u64, tok: u64) -> Event {
    event(json!({"attempt": {"started": {"batch": batch_id(batch), "token": token(tok)}}}))
}

pub(crate) fn ended(batch: u64, tok: u64, worker: &str, attempt: u32, result: &str) -> Event {
    event(json!({"attempt": {"finished": {
        "batch": batch_id(batch), "token": token(tok), "attempt": attempt, "worker": worker,
        "outcome": {"result": result},
    }}}))
}

pub(crate) fn finished(batch: u64, result: &str) -> Event {
    event(json!({"batch": {"finished": {"batch": batch_id(batch), "result": result}}}))
}

pub(crate) fn killed_by(batch: u64) -> Event {
    event(json!({"batch": {"finished": {"batch": batch_id(batch), "result": "killed", "by": {"app": "me"}}}}))
}

pub(crate) fn retry(batch: u64, attempt: u32, until: &str) -> Event {
    event(json!({"batch": {"retry_scheduled": {"batch": batch_id(batch), "attempt": attempt, "at": until}}}))
}

pub(crate) fn retry_due(batch: u64) -> Event {
    event(json!({"batch": {"retry_due": {"batch": batch_id(batch)}}}))
}

pub(crate) fn returned(batch: u64, tok: u64, worker: &str, reason: Value) -> Event {
    event(json!({"batch": {"assignment_returned": {
        "batch": batch_id(batch), "token": token(tok), "worker": worker, "reason": reason,
    }}}))
}

pub(crate) fn kill(batch: u64, tok: u64) -> Event {
    event(
        json!({"attempt": {"kill_requested": {"batch": batch_id(batch), "token": token(tok), "by": {"app": "me"}}}}),
    )
}

/// Group, job 1 (three at once, one retry), job 2, worker w with four slots.
pub(crate) fn world() -> History {
    History::new().command([
        group(),
        job(1, json!({"max_concurrent": 3, "retries": 1})),
        job(2, json!({})),
        registered("w", "i", 4),
    ])
}

/// Batch 1 of job 1 waits.
pub(crate) fn waiting() -> History {
    world().command([generated(1, 1, json!({}))])
}

/// ... and is assigned to w.
pub(crate) fn given_to_w() -> History {
    waiting().timer([assigned(1, 1, "w", 1)])
}

/// ... and runs.
pub(crate) fn running() -> History {
    given_to_w().command([granted(1, 1, "w", "i")]).command([started(1, 1)])
}

/// ... and has succeeded.
pub(crate) fn done() -> History {
    running().command([ended(1, 1, "w", 1, "success"), finished(1, "success")])
}
