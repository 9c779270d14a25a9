//! The fold of one journal: every shard of the partition, its clock, its resume point, its answers.

use std::collections::BTreeMap;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Cause, Command, CommandRecord, Envelope, Event, Level, LevelCommand, Outcome, PartitionEvent,
    Recorded, Rejection, RequestId, Resume, ShardCommand, ShardId, Source, Timestamp, WorkerCommand,
};

use crate::answers::Answers;
use crate::catalogue::{Catalogue, Chore, Requester};
use crate::decision::{self, Decided, Decision};
use crate::effect::{Effect, check_levels, outstanding_of};
use crate::fault_injection::FaultInjection;
use crate::group::{self, GroupShard, says_state};
use crate::outbox::Mailbox;
use crate::stored::{Malformed, Reader, Stored as _, Writer};

/// One shard's state.
#[derive(Debug, Clone, PartialEq, Stored)]
pub enum Shard {
    /// The one that decides definitions.
    Catalogue(Box<Catalogue>),
    /// One that decides the work of a group.
    Group(Box<GroupShard>),
}

impl Shard {
    /// `ids_above`: as the last restore of the log says.
    fn new(id: ShardId, (level, ids_above): (Level, u64), fault_injection: &FaultInjection) -> Self {
        if id == ShardId::CATALOGUE {
            let mut catalogue = Box::<Catalogue>::default();
            catalogue.mint_above(ids_above);
            return Shard::Catalogue(catalogue);
        }
        let FaultInjection { spare_history, remembered_submissions, listed_parents, .. } = fault_injection;
        let mut group = GroupShard::new(id);
        group.level = level;
        group.mint_above(ids_above);
        let sizes = &mut group.sizes;
        sizes.spare_history = spare_history.unwrap_or(sizes.spare_history);
        sizes.remembered_submissions = remembered_submissions.unwrap_or(sizes.remembered_submissions);
        sizes.listed_parents = listed_parents.unwrap_or(sizes.listed_parents);
        Shard::Group(Box::new(group))
    }

    fn stands_at(&mut self, level: Level) {
        match self {
            // It knows what it raised.
            Shard::Catalogue(_) => {}
            Shard::Group(group) => group.level = level,
        }
    }

    fn restored(&mut self, now: Timestamp, ids_above: u64) {
        match self {
            Shard::Catalogue(catalogue) => catalogue.mint_above(ids_above),
            Shard::Group(group) => {
                group.mint_above(ids_above);
                group.hold_all(now);
            }
        }
    }

    fn apply(&mut self, now: Timestamp, event: &Event) {
        match self {
            Shard::Catalogue(catalogue) => catalogue.apply(now, event),
            Shard::Group(group) => group.apply(now, event),
        }
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        match self {
            Shard::Catalogue(catalogue) => &catalogue.mailbox,
            Shard::Group(group) => &group.mailbox,
        }
    }
}

/// What some shard asks for by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Due {
    Group(group::Chore),
    Catalogue(Chore),
}

/// The state of one partition.
#[derive(Debug, Clone, PartialEq, Stored)]
pub struct Partition {
    number: u32,
    count: u32,
    now: Timestamp,
    resume: Option<Resume>,
    /// What stands since the last record, and what stands from the next one on (rule 13).
    level: Level,
    next_level: Level,
    /// No life of the log before this one minted an id above it; 0: it was never restored.
    ids_above: u64,
    pub(crate) answers: Answers,
    shards: BTreeMap<ShardId, Shard>,
    #[stored(skip)]
    pub(crate) fault_injection: FaultInjection,
}

impl Partition {
    /// Partition `number` of `count`, before its first envelope.
    pub fn new(number: u32, count: u32) -> Self {
        Self {
            number,
            count,
            now: Timestamp::UNIX_EPOCH,
            resume: None,
            level: Level::FIRST,
            next_level: Level::FIRST,
            ids_above: 0,
            answers: Answers::default(),
            shards: BTreeMap::new(),
            fault_injection: FaultInjection::default(),
        }
    }

    /// The same, rigged for a test.
    #[doc(hidden)]
    pub fn fault_injected(mut self, fault_injection: FaultInjection) -> Self {
        self.fault_injection = fault_injection;
        self
    }

    /// The state as bytes, which are the same for whoever folded it: what a snapshot holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.write(&mut to);
        to.into_bytes()
    }

    /// The state that [`Partition::to_bytes`] of a program with the same [`form`](crate::form) gave.
    ///
    /// # Errors
    /// They are of another form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        #[allow(unused_mut, reason = "a planted bug changes it")]
        let mut state = Self::read(&mut from)?;
        planted!(SnapshotForgetsOutcomes => state.answers = Answers::default());
        if from.is_at_end() { Ok(state) } else { Err(Malformed("state")) }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The shard of this partition that is there first.
    pub(crate) fn first_shard(&self) -> ShardId {
        ShardId(u16::try_from(self.number).unwrap_or(ShardId::MAX.0))
    }

    /// The time of the last envelope, or what an operator set since.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The last command that is done with.
    pub fn resume(&self) -> Option<&Resume> {
        self.resume.as_ref()
    }

    /// Whether the record in the making raises the level.
    pub(crate) fn raises_level(&self) -> bool {
        self.next_level > self.level
    }

    /// Whether it has that shard.
    pub(crate) fn has_shard(&self, id: ShardId) -> bool {
        self.shards.contains_key(&id)
    }

    /// The level that stands: nothing of a higher one may be written.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Its shards.
    pub fn shards(&self) -> impl Iterator<Item = (ShardId, &Shard)> {
        self.shards.iter().map(|(id, shard)| (*id, shard))
    }

    /// Its group shards.
    pub fn groups(&self) -> impl Iterator<Item = &GroupShard> {
        self.shards.values().filter_map(|shard| match shard {
            Shard::Group(group) => Some(group.as_ref()),
            Shard::Catalogue(_) => None,
        })
    }

    /// What a refused command does all the same.
    #[cfg(feature = "planted")]
    pub(crate) fn take_number(&mut self, id: ShardId) {
        if let Some(Shard::Group(group)) = self.shards.get_mut(&id) {
            group.jobs.note_submitted();
        }
    }

    /// The state of a group's shard.
    pub fn group(&self, id: ShardId) -> Option<&GroupShard> {
        match self.shards.get(&id) {
            Some(Shard::Group(group)) => Some(group),
            Some(Shard::Catalogue(_)) | None => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn group_mut(&mut self, id: ShardId) -> Option<&mut GroupShard> {
        match self.shards.get_mut(&id) {
            Some(Shard::Group(group)) => Some(group),
            Some(Shard::Catalogue(_)) | None => None,
        }
    }

    /// The catalogue, if this partition holds it and it is not empty.
    pub fn catalogue(&self) -> Option<&Catalogue> {
        match self.shards.get(&ShardId::CATALOGUE) {
            Some(Shard::Catalogue(catalogue)) => Some(catalogue),
            Some(Shard::Group(_)) | None => None,
        }
    }

    /// Folds one accepted envelope. Total.
    pub fn apply(&mut self, envelope: &Envelope) {
        self.begin(envelope.now);
        for recorded in &envelope.events {
            self.apply_event(envelope.now, recorded);
        }
        self.end(envelope.resume.clone(), &envelope.causes);
    }

    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.now = now;
        self.answers.pass(now);
    }

    pub(crate) fn apply_event(&mut self, now: Timestamp, recorded: &Recorded) {
        if let Event::Partition(PartitionEvent::ClockSet { now }) = recorded.event {
            self.now = now;
        }
        if let Event::Partition(PartitionEvent::Restored { ids_above, .. }) = recorded.event {
            self.ids_above = ids_above;
            self.shards.values_mut().for_each(|shard| shard.restored(now, ids_above));
        }
        if let Event::Partition(PartitionEvent::CommandLossAccepted { .. }) = recorded.event {
            // What was lost of the log may be the end of the journal, too.
            for shard in self.shards.values_mut() {
                if let Shard::Group(group) = shard {
                    group.hear_all(now);
                }
            }
        }
        self.fault_injection.folds(&recorded.event);
        if let Some(Decided { request: Some(request), outcome, .. }) = decision::decided(&recorded.event) {
            self.answers.keep(request.clone(), outcome);
        }
        if let Some(level) = recorded.event.raises() {
            self.next_level = self.next_level.max(level);
        }
        let shard = self.shards.entry(recorded.shard).or_insert_with(|| {
            Shard::new(recorded.shard, (self.level, self.ids_above), &self.fault_injection)
        });
        shard.apply(now, &recorded.event);
        if group::puts_rights_in_doubt(&recorded.event) {
            self.hold_rights();
        }
    }

    /// What was asked under a right, in any of the shards, may be what was lost or set aside (rule 8).
    fn hold_rights(&mut self) {
        for shard in self.shards.values_mut() {
            if let Shard::Group(group) = shard {
                group.hold_rights();
            }
        }
    }

    pub(crate) fn end(&mut self, resume: Option<Resume>, causes: &[Cause]) {
        for cause in causes {
            if let Source::Command { request: Some(request), .. } = &cause.source
                && cause.outcome != Outcome::Repeated
                && !says_state(&cause.outcome)
                && !(planted!(RefusedDecidedAgain) && matches!(cause.outcome, Outcome::Refused(_)))
            {
                self.answers.keep(request.clone(), cause.outcome.clone());
            }
        }
        if resume.is_some() {
            self.resume = resume;
        }
        // Not before the end of the record: whoever does not read the new level has to understand the one that raises it.
        if self.level < self.next_level {
            self.level = self.next_level;
            for shard in self.shards.values_mut() {
                shard.stands_at(self.level);
            }
        }
    }

    /// The stored answer to a request, if it was decided in the last 24 hours of work.
    pub fn answer_to(&self, request: &RequestId) -> Option<&Outcome> {
        self.answers.get(request)
    }

    /// Whether the shard is one of this partition.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        shard.partition(self.count) == self.number
    }

    /// What a command would do now.
    pub fn decide(&self, record: &CommandRecord, now: Timestamp) -> Decision {
        if !self.has(record.shard) {
            return wrong_shard("the command", record.shard);
        }
        match &record.command {
            Command::Worker(
                WorkerCommand::DeclareLost { .. }
                | WorkerCommand::ExpireLease { .. }
                | WorkerCommand::WarnOfLease { .. }
                | WorkerCommand::EndStartRight { .. },
            )
            | Command::Level(LevelCommand::ExpireProcess { .. }) => {
                wrong_shard("what only an owner can see", record.shard)
            }
            Command::Shard(ShardCommand::SetTime { now }) => {
                Decision::of(PartitionEvent::ClockSet { now: *now })
            }
            command => {
                let (request, reply_to) = (record.request.as_ref(), record.reply_to.as_ref());
                let requester = Requester { request, reply_to, actor: &record.actor };
                self.dispatch(record.shard, command, requester, now)
            }
        }
    }

    /// What follows from something that the owner saw by its own monotonic clock.
    pub(crate) fn decide_observed(&self, shard: ShardId, command: &Command, now: Timestamp) -> Decision {
        let requester = Requester { request: None, reply_to: None, actor: &Actor::default() };
        self.dispatch(shard, command, requester, now)
    }

    fn dispatch(&self, id: ShardId, command: &Command, requester: Requester<'_>, now: Timestamp) -> Decision {
        if let Command::Shard(ShardCommand::Acknowledge { from, upto }) = command {
            let news = self.shards.get(&id).is_some_and(|shard| shard.mailbox().is_news(*from, *upto));
            let event = Event::Partition(PartitionEvent::OutboxAcknowledged { to: *from, upto: *upto });
            return Decision::events(if news { vec![event] } else { Vec::new() });
        }
        let decide = |shard: &Shard| match shard {
            Shard::Catalogue(catalogue) => catalogue.decide(command, requester, now, &self.fault_injection),
            Shard::Group(group) => group.decide(command, requester.actor, now),
        };
        self.shards.get(&id).map_or_else(
            || decide(&Shard::new(id, (self.level, self.ids_above), &self.fault_injection)),
            decide,
        )
    }

    /// The next chore that some shard asks for by itself, shards from `turn` on first; timers only those due
    /// by `horizon`.
    pub(crate) fn next_task(&self, horizon: Timestamp, turn: ShardId) -> Option<(ShardId, Due)> {
        let later = self.shards.range(turn..).chain(self.shards.range(..turn));
        later.into_iter().find_map(|(id, shard)| match shard {
            Shard::Group(group) => group.next_task(horizon).map(|task| (*id, Due::Group(task))),
            Shard::Catalogue(catalogue) => {
                catalogue.next_chore(horizon).map(|chore| (*id, Due::Catalogue(chore)))
            }
        })
    }

    /// When the next timer of any shard is due.
    pub fn next_timer(&self) -> Option<Timestamp> {
        let catalogue = self.catalogue().and_then(Catalogue::next_timer);
        self.groups().filter_map(GroupShard::next_timer).chain(catalogue).min()
    }

    /// Everything that workers should know and may have missed: what a new owner says first.
    pub fn outstanding(&self) -> Vec<Effect> {
        let of_group =
            |group| GroupShard::holders(group).flat_map(move |worker| outstanding_of(self, group, worker));
        let effects: Vec<Effect> = self.groups().flat_map(of_group).collect();
        check_levels(self, &effects);
        effects
    }
}

fn wrong_shard(what: &str, shard: ShardId) -> Decision {
    Rejection::WrongShard { what: what.to_owned(), shard: shard.0 }.into()
}
