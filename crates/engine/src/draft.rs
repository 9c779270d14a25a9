//! One envelope in the making: commands and due timers, decided one after another, each on the state that
//! the one before it left.
//!
//! The draft applies to the owner's state as it goes. If its envelope is then not accepted, that state is
//! worth nothing and must be folded from the journal again; nothing of it has been shown to anyone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jiff::SignedDuration;
use rustc_hash::{FxHashMap, FxHashSet};
use tidemill_model::{
    Actor, Cause, Command, CommandRecord, Envelope, EnvelopeJson, Event, Level, LevelEvent, Outcome,
    PartitionEvent, Recorded, Rejection, ReplicationEvent, RequestId, Resume, ShardCommand, ShardId, Source,
    Timestamp,
};

use crate::decision::{Decision, Ruling, puts_off};
use crate::effect::{Effect, check_levels};
use crate::group::{self, Chore, GroupShard, Heartbeats, Timer};
use crate::partition::{Due, Partition};

/// A draft of more bytes takes no more. One decision adds at most about as much again, so that an envelope stays below the
/// log's hard cap.
pub const MAX_ENVELOPE_BYTES: usize = 192 * 1024;
/// A command whose outcome would be longer than this is dead-lettered: together with a draft that is nearly
/// full it could not be appended, and nothing that anyone sends may stop the partition.
pub const MAX_DECISION_BYTES: usize = 288 * 1024;
/// So far ahead of its owner's clock a partition may be set: clocks differ, and seconds are rounded.
const MAX_SET_AHEAD: SignedDuration = SignedDuration::from_secs(60);
/// Longest request id, instance id, application name or user of a command, bytes.
const MAX_SENDER_BYTES: usize = 512;

/// One envelope in the making.
#[derive(Debug)]
pub struct Draft<'a> {
    partition: &'a mut Partition,
    /// The owner's clock.
    wall: Timestamp,
    envelope: Envelope,
    notices: Vec<Effect>,
    /// Requests of this draft, whose answers are not in the state yet.
    requests: FxHashSet<RequestId>,
    /// The same by the keys that clients chose.
    keys: FxHashMap<Box<str>, RequestId>,
    /// Where the next task is looked for first, so that no shard keeps the others waiting.
    turn: ShardId,
    /// Causes and events as they are written in the journal.
    json: EnvelopeJson,
    /// Something that must be in the journal before it has an effect.
    binding: bool,
}

/// A draft that is ready to be appended.
#[derive(Debug, Clone, PartialEq)]
pub struct Drafted {
    /// What to append; absent when nothing happened that the journal must hold.
    pub envelope: Option<Envelope>,
    /// Its JSON.
    pub json: Vec<u8>,
    /// What to do once the envelope is read back (at once if there is none).
    pub notices: Vec<Effect>,
}

impl<'a> Draft<'a> {
    /// Begins an envelope at `wall`, the owner's clock, read once. `read` is the last command that earlier
    /// drafts decided without leaving an envelope.
    pub fn new(partition: &'a mut Partition, wall: Timestamp, read: Option<Resume>) -> Self {
        let is_ahead = read.as_ref().is_some_and(|read| read.offset % 32 == 5) && planted!(ClockADayAhead);
        let ahead = SignedDuration::from_hours(if is_ahead { 24 } else { 0 });
        let now = (wall + ahead).max(partition.now());
        let level = stands(partition.level());
        let envelope = Envelope { now, level, resume: read, causes: Vec::new(), events: Vec::new() };
        Self {
            partition,
            wall,
            envelope,
            notices: Vec::new(),
            requests: FxHashSet::default(),
            keys: FxHashMap::default(),
            turn: ShardId::CATALOGUE,
            json: EnvelopeJson::default(),
            binding: false,
        }
    }

    /// Whether it should be appended before more is decided: it is heavy enough, or raises the level, which counts from the
    /// next record on.
    pub fn is_full(&self) -> bool {
        self.json.bytes() >= MAX_ENVELOPE_BYTES || self.partition.raises_level()
    }

    /// Whether the command is of a level that does not stand in this partition yet; then the draft raises it, is full, and
    /// the command is for the next one.
    ///
    /// Its sender has read that the level was raised, and the catalogue raises it when every registered process reads it
    /// (rule 13). What the catalogue says of it may be under way behind this command, from another partition.
    pub fn raises_for(&mut self, record: &CommandRecord) -> bool {
        let level = record.command.level();
        let raises = !self.envelope.level.allows(level) && self.partition.has_shard(record.shard);
        if raises {
            let event: Event = match record.shard {
                ShardId::CATALOGUE => LevelEvent::Raised { level }.into(),
                _ => ReplicationEvent::LevelReplicated { level }.into(),
            };
            self.record(Source::Observed, record.shard, vec![event], Outcome::Done, true);
        }
        raises
    }

    /// Decides the command at `offset`, whose record hashes to `hash`.
    pub fn command(&mut self, offset: u64, hash: String, record: CommandRecord) {
        if let Some(reason) = oversize_sender_field(&record) {
            return self.undecodable(offset, hash, &reason);
        }
        self.envelope.resume = Some(Resume { offset, hash });
        // What the state answers is answered anew each time, whatever its id.
        let request = record.request.as_ref().filter(|_| !group::is_by_state(&record.command));
        let repeated = request.is_some_and(|request| {
            self.partition.answer_to(request).is_some() || !self.requests.insert(request.clone())
        });
        let decision = if repeated {
            None
        } else if request.is_some_and(|request| self.is_reused(request)) {
            Some(Decision::from(Rejection::RequestKeyReused {}))
        } else if let Command::Shard(ShardCommand::SetTime { now }) = record.command
            && let Some(refusal) = self.far_ahead(now)
        {
            Some(Decision::from(refusal))
        } else {
            let now = self.envelope.now;
            let decided = catch_unwind(AssertUnwindSafe(|| self.partition.decide(&record, now)));
            Some(decided.unwrap_or_else(|panic| dead_letters(offset, &panic_text(panic.as_ref()))))
        };
        let waited_for = record.request.is_some();
        let source = Source::Command {
            offset,
            request: record.request,
            reply_to: record.reply_to,
            actor: record.actor,
        };
        match decision {
            None => self.record(source, record.shard, Vec::new(), Outcome::Repeated, true),
            Some(decision) => self.decided(source, record.shard, decision, waited_for),
        }
    }

    /// Passes over the command at `offset`: all that is noted of it is that it was read.
    pub fn pass_over(&mut self, offset: u64, hash: String) {
        self.envelope.resume = Some(Resume { offset, hash });
    }

    /// The state, as far as the draft has come.
    pub fn state(&self) -> &Partition {
        self.partition
    }

    /// Sets aside a command that cannot be decoded.
    pub fn undecodable(&mut self, offset: u64, hash: String, reason: &str) {
        self.envelope.resume = Some(Resume { offset, hash });
        let actor = Actor::default();
        let source = Source::Command { offset, request: None, reply_to: None, actor };
        self.decided(source, self.some_shard(), dead_letters(offset, reason), true);
    }

    /// Decides what the owner saw by its own monotonic clock.
    pub fn observed(&mut self, shard: ShardId, command: &Command) {
        let now = self.envelope.now;
        let decision = self.partition.decide_observed(shard, command, now);
        self.decided(Source::Observed, shard, decision, false);
    }

    /// Records a snapshot, if its kind may be written. Whether it names a record that was read back is the owner's to know.
    pub fn snapshot_taken(&mut self, taken: PartitionEvent) {
        if self.partition.level().allows(Event::from(taken.clone()).of_kind().level) {
            let shard = self.some_shard();
            self.decided(Source::Observed, shard, Decision::of(taken), false);
        }
    }

    /// One that is there already, if there is one.
    fn some_shard(&self) -> ShardId {
        self.partition.shards().next().map_or(self.partition.first_shard(), |(id, _)| id)
    }

    /// Decides what the state asks for by itself, timers only those due by `horizon`, until nothing is left
    /// or the draft is full. An owner that knows heartbeats may give rights to start under them.
    ///
    /// # Panics
    /// When a decision other than a timer's panics: the partition must stop.
    pub fn due(&mut self, horizon: Timestamp, heartbeats: &dyn Heartbeats) {
        let horizon = horizon.min(self.envelope.now);
        let mut events = 0;
        while !self.is_full()
            && let Some((shard, due)) = self.partition.next_task(horizon, self.turn)
        {
            self.turn = ShardId(shard.0.saturating_add(1));
            let now = self.envelope.now;
            let decided = match &due {
                Due::Group(task) => self.partition.group(shard).map(|group| {
                    let decide = || {
                        self.partition.fault_injection.decides(group, task);
                        let decided = group.decide_task(task, now, heartbeats);
                        assert!(!decided.is_empty(), "{task:?} of shard {shard} is due and asks for nothing");
                        decided
                    };
                    catch_unwind(AssertUnwindSafe(decide))
                        .unwrap_or_else(|panic| failed(group, task, now, panic))
                }),
                Due::Catalogue(chore) => {
                    self.partition.catalogue().map(|catalogue| catalogue.decide_chore(chore))
                }
            };
            let decided = decided.unwrap_or_default();
            events += decided.len() as u32;
            self.write(shard, &decided);
            self.push(shard, decided);
        }
        if events > 0 {
            let cause = Cause { source: Source::Timer, outcome: Outcome::Done, events };
            self.json.cause(&cause);
            self.envelope.causes.push(cause);
        }
    }

    /// Ends the draft. `cover` asks for an envelope even if all it says is how far commands were read.
    pub fn finish(self, cover: bool) -> Drafted {
        let Self { partition, envelope, json, notices, binding, .. } = self;
        check_levels(partition, &notices);
        if !(binding || cover && envelope.resume.as_ref() != partition.resume()) {
            return Drafted { envelope: None, json: Vec::new(), notices };
        }
        if !binding {
            partition.begin(envelope.now);
        }
        partition.end(envelope.resume.clone(), &envelope.causes);
        let json = json.finish(&envelope);
        Drafted { envelope: Some(envelope), json, notices }
    }

    /// The last command that was decided.
    pub fn read(&self) -> Option<&Resume> {
        self.envelope.resume.as_ref()
    }

    /// Rule 10: a partition's time follows its owner's clock, which the owner holds against the log's. What lies ahead of it
    /// would skip every fire until then as missed, and stays until the clock has come there.
    fn far_ahead(&self, at: Timestamp) -> Option<Rejection> {
        let wall = self.wall;
        (at.duration_since(wall) > MAX_SET_AHEAD).then(|| {
            let rule = format!(
                "is after the owner's clock, {wall}: every fire until then would be taken for missed; a partition is set \
                 back to its owner's clock or before, from where it follows that clock by itself"
            );
            Rejection::field("at", at, rule)
        })
    }

    /// API-4: whether the key of a client's request stands for another request.
    fn is_reused(&mut self, request: &RequestId) -> bool {
        let Some(key) = request.key().filter(|_| !planted!(ReusedKeyDecided)) else { return false };
        self.partition.answers.is_reused(request)
            || self.keys.entry(key.into()).or_insert_with(|| request.clone()) != request
    }

    fn decided(&mut self, source: Source, shard: ShardId, decision: Decision, waited_for: bool) {
        self.notices.extend(decision.notices);
        match decision.ruling {
            Ruling::Refused(rejection) => {
                planted!(RefusedChangesState => self.partition.take_number(shard));
                self.record(source, shard, Vec::new(), Outcome::Refused(rejection), true);
            }
            Ruling::Accepted { events, answer } => {
                let outcome = match (events.as_slice(), answer) {
                    (events, _) if puts_off(events) => Outcome::Deferred,
                    ([Event::Partition(PartitionEvent::CommandDeadLettered { reason, .. })], _) => {
                        Outcome::Refused(Rejection::DeadLettered { reason: reason.clone() })
                    }
                    (_, Some(answer)) => Outcome::Answered(answer),
                    (_, None) => Outcome::Done,
                };
                let binding = waited_for || !events.is_empty();
                self.record(source, shard, events, outcome, binding);
            }
        }
    }

    fn record(
        &mut self,
        source: Source,
        shard: ShardId,
        events: Vec<Event>,
        outcome: Outcome,
        binding: bool,
    ) {
        if !binding {
            return;
        }
        let (level, needed) = (self.envelope.level, outcome.level());
        assert!(level.allows(needed), "{outcome:?} of level {needed} is written where level {level} stands");
        let (mark, before) = (self.json.mark(), self.json.bytes());
        let cause = Cause { source, outcome, events: events.len() as u32 };
        self.json.cause(&cause);
        self.write(shard, &events);
        let bytes = self.json.bytes() - before;
        if bytes > MAX_DECISION_BYTES {
            self.json.back_to(mark);
            let reason = format!(
                "its outcome would take {bytes} bytes, and one decision may take {MAX_DECISION_BYTES}"
            );
            let Source::Command { offset, .. } = cause.source else {
                panic!("a decision without a command is bounded: {reason}");
            };
            return self.decided(cause.source, shard, dead_letters(offset, &reason), true);
        }
        self.envelope.causes.push(cause);
        self.bind();
        self.push(shard, events);
    }

    fn write(&mut self, shard: ShardId, events: &[Event]) {
        events.iter().for_each(|event| self.json.event(shard, event));
    }

    /// From here on there will be an envelope, so its time is the partition's.
    fn bind(&mut self) {
        if !std::mem::replace(&mut self.binding, true) {
            self.partition.begin(self.envelope.now);
        }
    }

    /// Applies events that are written.
    fn push(&mut self, shard: ShardId, events: Vec<Event>) {
        if !events.is_empty() {
            self.bind();
        }
        for event in events {
            let (level, kind) = (self.envelope.level, event.of_kind());
            assert!(
                level.allows(kind.level),
                "{} of level {} is written where level {level} stands",
                kind.name,
                kind.level
            );
            let recorded = Recorded { shard, event };
            self.partition.apply_event(self.envelope.now, &recorded);
            self.envelope.events.push(recorded);
        }
    }
}

/// The level of what is drafted (rule 13).
fn stands(level: Level) -> Level {
    planted!(KindWrittenBeforeLevel => return Level::new(level.number() + 1));
    level
}

/// Why a command cannot be named in an envelope.
fn oversize_sender_field(record: &CommandRecord) -> Option<String> {
    let texts = [
        ("request", record.request.as_ref().map(RequestId::as_str)),
        ("reply_to", record.reply_to.as_ref().map(tidemill_model::InstanceId::as_str)),
        ("actor.app", Some(record.actor.app.as_ref())),
        ("actor.user", record.actor.user.as_deref()),
    ];
    let long = texts.into_iter().find(|(_, text)| text.is_some_and(|text| text.len() > MAX_SENDER_BYTES));
    long.map(|(field, _)| format!("{field} is longer than {MAX_SENDER_BYTES} bytes"))
}

fn dead_letters(offset: u64, reason: &str) -> Decision {
    let reason = reason.chars().take(500).collect();
    Decision::of(PartitionEvent::CommandDeadLettered { offset, reason })
}

/// Rule 12: a timer that panics suspends its entity, a fire after it was tried again; any other failure of the rules
/// stops the partition.
fn failed(
    group: &GroupShard,
    task: &Chore,
    now: Timestamp,
    panic: Box<dyn std::any::Any + Send>,
) -> Vec<Event> {
    let Chore::Timer(_, timer) = task else { resume_unwind(panic) };
    let reason = panic_text(panic.as_ref());
    match timer {
        Timer::Fire(job) => group.generation_failed(*job, &reason, now),
        timer => vec![PartitionEvent::TimerSuspended { entity: timer.entity(), reason }.into()],
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".to_owned())
}

#[cfg(test)]
mod tests;
