//! One partition's owner, without I/O: what it reads goes in, what it wants done comes out.
//!
//! ```text
//!            caught up, suggested, and (nobody owns it, or suggested long enough)
//! Following ─────────────────────────────────────────────► Claiming
//!     ▲                                                       │ own claim read back, accepted
//!     │ Restart: a foreign claim, a refused or unknown append ▼
//!     └──────────────────────────────────────────────────── Owning
//! ```
//!
//! *Invariant:* `state` holds more than the journal only while an append is under way. Whatever makes that
//! append's fate doubtful ends this value; the next one folds the journal anew.

use std::collections::VecDeque;

use jiff::Timestamp;
use tidemill_engine::{Courier, Draft, Effect, Partition, effects};
use tidemill_log::{AppendError, Chain, Hash, Head, Kind, Record, Verdict};
use tidemill_model::{CommandRecord, Envelope, LiveAnswer, LiveQuery, Resume, ShardId};

use crate::silence::Silence;
use crate::{Config, Error, Moment};

/// Where a partition's owner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Folds what others write.
    Following,
    /// Has appended a claim and waits to read it.
    Claiming,
    /// Decides.
    Owning,
}

/// What an owner learns.
#[derive(Debug)]
pub enum Input {
    /// Records of the journal, in order.
    Journal(Vec<Record>),
    /// Records of the commands, in order.
    Commands(Vec<Record>),
    /// What became of the last append.
    Appended(Result<u64, AppendError>),
    /// The answer to [`Output::AskEnds`]: both topics' ends at a moment after the question.
    Ends {
        /// When it was asked.
        asked: Moment,
        /// The journal's end then.
        journal: u64,
        /// The commands' end then.
        commands: u64,
    },
    /// Whether the partition is suggested to this process.
    Suggested(bool),
    /// Some effects may not have reached the log: all that is outstanding must be said again.
    EffectsLost,
    /// Time has passed.
    Tick,
    /// Hand the partition over.
    Resign,
}

/// What an owner wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Append this to the journal; the outcome comes back as [`Input::Appended`].
    Append(Vec<u8>),
    /// Ask for both topics' ends.
    AskEnds,
    /// Read commands from this offset on.
    ReadCommands(u64),
    /// Act outside.
    Act(Effect),
    /// This value is spent: make a new one, with a new producer, and wait first if `back_off`.
    Restart {
        /// Another owner is there: give it time.
        back_off: bool,
        /// For the log.
        reason: String,
    },
    /// The partition has been handed over.
    Resigned,
}

/// What an owner is made from.
#[derive(Debug, Clone)]
pub struct Start {
    /// Which partition.
    pub partition: u32,
    /// Of how many.
    pub count: u32,
    /// This life of this process.
    pub incarnation: String,
    /// Its settings.
    pub config: Config,
}

#[derive(Debug)]
struct UnderWay {
    record: Vec<u8>,
    envelope: Option<Envelope>,
    notices: Vec<Effect>,
    /// When it was handed to the log.
    since: Moment,
    /// Since when the log has had no room for it, on the monotonic clock.
    full_since: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    asked: Moment,
    commands: u64,
}

/// The owner of one partition, or one that may become it.
#[derive(Debug)]
pub struct Owner {
    start: Start,
    chain: Chain,
    state: Partition,
    role: Role,
    suggested_since: Option<u64>,
    /// The journal's end when it was asked for: what must be folded before a claim.
    journal_goal: Option<u64>,
    /// Journal offset up to which it has read.
    journal_next: u64,
    pending: VecDeque<Record>,
    /// Offset of the next command to decide.
    decided_next: u64,
    /// The last command decided, ahead of the journal's resume point when nothing had to be written.
    read: Option<Resume>,
    uncovered: u64,
    uncovered_since: Option<u64>,
    under_way: Option<UnderWay>,
    ends: Option<Ends>,
    asking: bool,
    /// Silences were looked for with the present ends.
    looked_for_silence: bool,
    silence: Silence,
    courier: Courier,
    courier_since: u64,
    /// Effects were lost, and what is outstanding has not been said again since.
    effects_lost: bool,
    said_again_ms: Option<u64>,
    /// Wall minus boot time at the claim.
    clock_base_ms: Option<i64>,
    resigning: bool,
    /// The check of the resume point against the topic is outstanding.
    check_resume: Option<Resume>,
}

/// Unacknowledged messages between shards are sent again after this.
const RESEND_AFTER_MS: u64 = 3_000;
/// Between two times that everything outstanding is said again.
const SAY_AGAIN_AFTER_MS: u64 = 1_000;

impl Owner {
    /// An owner that has read nothing.
    pub fn new(start: Start) -> Self {
        let state = Partition::new(start.partition, start.count);
        Self {
            start,
            chain: Chain::new(),
            state,
            role: Role::Following,
            suggested_since: None,
            journal_goal: None,
            journal_next: 0,
            pending: VecDeque::new(),
            decided_next: 0,
            read: None,
            uncovered: 0,
            uncovered_since: None,
            under_way: None,
            ends: None,
            asking: false,
            looked_for_silence: false,
            silence: Silence::default(),
            courier: Courier::default(),
            courier_since: 0,
            effects_lost: false,
            said_again_ms: None,
            clock_base_ms: None,
            resigning: false,
            check_resume: None,
        }
    }

    /// Where it stands.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The journal's last accepted record.
    pub fn head(&self) -> Option<&Head> {
        self.chain.head()
    }

    /// Journal records that were void.
    pub fn void_records(&self) -> u64 {
        self.chain.void_count()
    }

    /// The state, for those who only look. While an append is under way it is ahead of the journal.
    pub fn state(&self) -> Option<&Partition> {
        self.under_way.is_none().then_some(&self.state)
    }

    /// Answers a question about the present, from what the journal holds; `None` while an append is under way.
    pub fn answer(&self, shard: ShardId, query: &LiveQuery) -> Option<LiveAnswer> {
        self.state().map(|state| state.answer(shard, query))
    }

    /// Commands read and not yet decided.
    pub fn backlog(&self) -> usize {
        self.pending.len()
    }

    /// When it must be stepped again even if nothing is read: the next timer, if it owns and can decide.
    pub fn next_timer(&self) -> Option<Timestamp> {
        (self.role == Role::Owning).then(|| self.state()?.next_timer()).flatten()
    }

    /// Takes in one thing. Call [`Owner::drive`] after all that is there was taken in.
    ///
    /// # Errors
    /// What makes this partition unworkable for this process until a person acts.
    pub fn step(&mut self, input: Input, moment: Moment) -> Result<Vec<Output>, Error> {
        match input {
            Input::Journal(records) => self.journal(records, moment),
            Input::Commands(records) => self.commands(records),
            Input::Appended(result) => self.appended(result, moment),
            Input::Ends { asked, journal, commands } => self.take_ends(asked, journal, commands),
            Input::Suggested(suggested) => {
                self.suggested_since = match (suggested, self.suggested_since) {
                    (true, since) => since.or(Some(moment.boot_ms)),
                    (false, _) => None,
                };
                Ok(Vec::new())
            }
            Input::EffectsLost => {
                self.courier.start_over();
                self.effects_lost = true;
                Ok(Vec::new())
            }
            Input::Resign => {
                self.resigning = true;
                Ok(Vec::new())
            }
            Input::Tick => Ok(Vec::new()),
        }
    }

    fn take_ends(&mut self, asked: Moment, journal: u64, commands: u64) -> Result<Vec<Output>, Error> {
        self.asking = false;
        self.looked_for_silence = false;
        self.journal_goal.get_or_insert(journal);
        self.ends = Some(Ends { asked, commands });
        match &self.check_resume {
            // Reading there would wait for a command that is yet to come.
            Some(resume) if commands <= resume.offset => Err(self.commands_lost(resume.offset)),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    fn commands_lost(&self, offset: u64) -> Error {
        Error::CommandsLost { partition: self.start.partition, offset }
    }

    /// Decides what can be decided now.
    ///
    /// # Errors
    /// The clock cannot be trusted.
    pub fn drive(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        if let Some(again) = self.append_again(moment) {
            return Ok(vec![again]);
        }
        match self.role {
            Role::Following => self.follow(moment),
            Role::Claiming => Ok(Vec::new()),
            Role::Owning => self.own(moment),
        }
    }

    fn journal(&mut self, records: Vec<Record>, moment: Moment) -> Result<Vec<Output>, Error> {
        let mut outputs = Vec::new();
        for record in records {
            self.journal_next = record.offset + 1;
            let Verdict::Accepted(frame) = self.chain.accept(record.offset, &record.value) else {
                if self.is_own(&record) {
                    let reason = "an own record was void: another owner was faster".to_owned();
                    outputs.push(Output::Restart { back_off: true, reason });
                    return Ok(outputs);
                }
                continue;
            };
            match frame.kind {
                Kind::Genesis => self.check_genesis()?,
                Kind::Claim if self.is_own(&record) => {
                    let sent = self.under_way.take().map_or(moment, |own| own.since);
                    outputs.extend(self.begin_owning(&record, sent, moment)?);
                }
                Kind::Claim if self.role != Role::Following => {
                    let by = self.chain.head().and_then(|head| head.owner.as_ref());
                    let by = by.map_or("nobody", |claim| claim.incarnation.as_str());
                    let reason = format!("{by} claimed the partition");
                    outputs.push(Output::Restart { back_off: true, reason });
                    return Ok(outputs);
                }
                Kind::Claim => {}
                Kind::Envelope if self.is_own(&record) => outputs.extend(self.read_back(record.offset)),
                Kind::Envelope => self.fold(record.offset, &frame.body)?,
                Kind::Resigned if self.is_own(&record) => {
                    self.under_way = None;
                    self.role = Role::Following;
                    outputs.push(Output::Resigned);
                }
                Kind::Resigned | Kind::Stopped => {}
            }
        }
        Ok(outputs)
    }

    fn is_own(&self, record: &Record) -> bool {
        self.under_way.as_ref().is_some_and(|own| own.record[..] == record.value[..])
    }

    fn check_genesis(&self) -> Result<(), Error> {
        let count = self.chain.head().map_or(0, |head| head.count);
        if count == self.start.count {
            return Ok(());
        }
        let partition = self.start.partition;
        Err(Error::PartitionCount { partition, journal: count, log: self.start.count })
    }

    fn fold(&mut self, offset: u64, body: &[u8]) -> Result<(), Error> {
        let partition = self.start.partition;
        let envelope: Envelope =
            serde_json::from_slice(body).map_err(|source| Error::Unreadable { partition, offset, source })?;
        self.state.apply(&envelope);
        Ok(())
    }

    /// An own envelope is in the journal: what it means outside may happen now.
    fn read_back(&mut self, offset: u64) -> Vec<Output> {
        let Some(own) = self.under_way.take() else { return Vec::new() };
        let Some(envelope) = own.envelope else { return Vec::new() };
        self.uncovered = 0;
        self.uncovered_since = None;
        let mut acts = own.notices;
        acts.extend(effects(&self.state, &envelope, offset));
        acts.extend(self.courier.collect(&self.state));
        acts.into_iter().map(Output::Act).collect()
    }

    fn begin_owning(&mut self, claim: &Record, sent: Moment, moment: Moment) -> Result<Vec<Output>, Error> {
        let off_ms = off_between(claim.timestamp_ms, sent, moment);
        if off_ms.unsigned_abs() > self.start.config.max_clock_step_ms {
            let (partition, against) = (self.start.partition, "the log's time of its claim");
            return Err(Error::Clock { partition, off_ms, against });
        }
        self.clock_base_ms = Some(moment.wall.as_millisecond() - moment.boot_ms as i64);
        self.role = Role::Owning;
        self.silence.start(moment.boot_ms);
        self.ends = None;
        self.read = self.state.resume().cloned();
        let from = self.read.as_ref().map_or(0, |read| read.offset);
        self.check_resume = self.read.clone();
        self.decided_next = from;
        let mut outputs = vec![Output::ReadCommands(from), Output::AskEnds];
        self.asking = true;
        outputs.extend(self.say_again());
        Ok(outputs)
    }

    /// Everything outstanding, as a new owner says it.
    fn say_again(&mut self) -> Vec<Output> {
        let Some(state) = self.state() else { return Vec::new() };
        let works = state.outstanding().into_iter();
        let mut acts: Vec<Effect> = works.map(|(worker, message)| Effect::Work { worker, message }).collect();
        acts.extend(self.courier.collect(&self.state));
        acts.into_iter().map(Output::Act).collect()
    }

    fn commands(&mut self, records: Vec<Record>) -> Result<Vec<Output>, Error> {
        if self.role != Role::Owning {
            return Ok(Vec::new());
        }
        for record in records {
            if let Some(resume) = self.check_resume.take() {
                if record.offset != resume.offset || Hash::of(&record.value).to_string() != resume.hash {
                    return Err(self.commands_lost(resume.offset));
                }
                self.decided_next = record.offset + 1;
                continue;
            }
            self.pending.push_back(record);
        }
        Ok(Vec::new())
    }

    fn appended(&mut self, result: Result<u64, AppendError>, moment: Moment) -> Result<Vec<Output>, Error> {
        let partition = self.start.partition;
        match result {
            Ok(_) => Ok(Vec::new()),
            Err(AppendError::Full) => {
                if let Some(under_way) = &mut self.under_way {
                    under_way.full_since = Some(moment.boot_ms);
                }
                Ok(Vec::new())
            }
            Err(AppendError::Refused(reason)) => Ok(vec![Output::Restart { back_off: true, reason }]),
            Err(AppendError::Unknown(reason)) => Ok(vec![Output::Restart { back_off: false, reason }]),
            Err(source @ AppendError::TooLarge) => {
                // It is certainly not in the log, so that the partition stops can still be told there.
                self.under_way = None;
                Err(Error::Append { partition, source })
            }
        }
    }

    fn follow(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        let Some(since) = self.suggested_since else { return Ok(Vec::new()) };
        if self.journal_goal.is_none_or(|goal| self.journal_next < goal) {
            let ask = self.journal_goal.is_none() && !std::mem::replace(&mut self.asking, true);
            return Ok(if ask { vec![Output::AskEnds] } else { Vec::new() });
        }
        let Some(head) = self.chain.head() else { return Ok(Vec::new()) };
        // An earlier life of this same owner needs no time to speak up.
        let own = head.owner.as_ref().is_some_and(|claim| claim.incarnation == self.start.incarnation);
        let patient = own || moment.boot_ms.saturating_sub(since) >= self.start.config.claim_after_ms;
        let barred = head.stopped && !self.start.config.claim_stopped;
        if barred || self.resigning || !(head.owner.is_none() || head.resigned || patient) {
            return Ok(Vec::new());
        }
        let record = head
            .claim(&self.start.incarnation, &self.start.config.address)
            .map_err(|error| Error::Stopped { partition: self.start.partition, reason: error.to_string() })?;
        self.role = Role::Claiming;
        Ok(vec![self.append(record, None, Vec::new(), moment)])
    }

    fn append(
        &mut self,
        record: Vec<u8>,
        envelope: Option<Envelope>,
        notices: Vec<Effect>,
        since: Moment,
    ) -> Output {
        self.under_way =
            Some(UnderWay { record: record.clone(), envelope, notices, since, full_since: None });
        Output::Append(record)
    }

    /// What the log had no room for is tried again after a while, as it is: it was never in the log.
    fn append_again(&mut self, moment: Moment) -> Option<Output> {
        let under_way = self.under_way.as_mut()?;
        let since = under_way.full_since?;
        if moment.boot_ms.saturating_sub(since) < self.start.config.tick_ms {
            return None;
        }
        under_way.full_since = None;
        Some(Output::Append(under_way.record.clone()))
    }

    fn own(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        self.check_clock(moment)?;
        if self.under_way.is_some() {
            return Ok(Vec::new());
        }
        if self.resigning {
            return self.append_kind(Kind::Resigned, moment).map(|output| vec![output]);
        }
        if self.check_resume.is_some() {
            return Ok(Vec::new());
        }
        let mut outputs = self.say_lost_again(moment);
        outputs.extend(self.draft(moment)?);
        outputs.extend(self.ask_ends(moment));
        outputs.extend(self.resend(moment));
        Ok(outputs)
    }

    /// The record that tells others to leave the partition alone, if this owner can still write one.
    pub fn stopped_record(&self) -> Option<Vec<u8>> {
        if self.role != Role::Owning || self.under_way.is_some() {
            return None;
        }
        let (record, _) = self.chain.head()?.tip().next(Kind::Stopped, Vec::new()).ok()?;
        Some(record)
    }

    fn append_kind(&mut self, kind: Kind, moment: Moment) -> Result<Output, Error> {
        let partition = self.start.partition;
        let stopped = |reason: String| Error::Stopped { partition, reason };
        let tip = self.chain.head().map(Head::tip).ok_or_else(|| stopped("no genesis".to_owned()))?;
        let (record, _) = tip.next(kind, Vec::new()).map_err(|error| stopped(error.to_string()))?;
        Ok(self.append(record, None, Vec::new(), moment))
    }

    fn say_lost_again(&mut self, moment: Moment) -> Vec<Output> {
        let soon = |said: u64| moment.boot_ms.saturating_sub(said) < SAY_AGAIN_AFTER_MS;
        if !self.effects_lost || self.said_again_ms.is_some_and(soon) {
            return Vec::new();
        }
        self.effects_lost = false;
        self.said_again_ms = Some(moment.boot_ms);
        self.say_again()
    }

    /// Rule 10: a clock that steps is not worked with.
    fn check_clock(&self, moment: Moment) -> Result<(), Error> {
        let Some(base_ms) = self.clock_base_ms else { return Ok(()) };
        let off_ms = moment.wall.as_millisecond() - moment.boot_ms as i64 - base_ms;
        if off_ms.unsigned_abs() <= self.start.config.max_clock_step_ms {
            return Ok(());
        }
        let (partition, against) = (self.start.partition, "its own monotonic clock");
        Err(Error::Clock { partition, off_ms, against })
    }

    /// The ends that were asked for, once every command below them is decided (rules 9 and 10).
    fn reached_ends(&self) -> Option<Ends> {
        self.ends.filter(|ends| self.decided_next >= ends.commands)
    }

    /// One envelope of everything that is there to decide. Timers that may fire go before commands that came
    /// after their time, so that no flood of those holds them up.
    fn draft(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        let reached = self.reached_ends();
        let overdue = match reached {
            Some(ends) if !std::mem::replace(&mut self.looked_for_silence, true) => {
                self.silence.overdue(&self.state, ends.asked.boot_ms)
            }
            Some(_) | None => Vec::new(),
        };
        let due = reached.filter(|ends| self.state.next_timer().is_some_and(|at| at <= ends.asked.wall));
        let mut draft = Draft::new(&mut self.state, moment.wall, self.read.clone());
        for (shard, command) in overdue {
            draft.observed(shard, &command);
        }
        if let Some(ends) = due {
            draft.due(ends.asked.wall);
        }
        while !draft.is_full()
            && let Some(record) = self.pending.pop_front()
        {
            self.decided_next = record.offset + 1;
            self.uncovered += 1;
            self.uncovered_since.get_or_insert(moment.boot_ms);
            let hash = hex(&Hash::of(&record.value));
            match serde_json::from_slice::<CommandRecord>(&record.value) {
                Ok(command) => {
                    self.silence.hear(command.shard, &command.command, moment.boot_ms);
                    draft.command(record.offset, hash, command);
                }
                Err(error) => draft.undecodable(record.offset, hash, &error.to_string()),
            }
        }
        let reached = self.ends.filter(|ends| self.decided_next >= ends.commands);
        draft.due(reached.map_or(Timestamp::MIN, |ends| ends.asked.wall));
        self.read = draft.read().cloned();
        let waited = self.uncovered_since.map_or(0, |since| moment.boot_ms.saturating_sub(since));
        let cover = self.uncovered >= self.start.config.cover_after_commands
            || waited >= self.start.config.cover_after_ms;
        let drafted = draft.finish(cover);
        let Some(envelope) = drafted.envelope else {
            return Ok(drafted.notices.into_iter().map(Output::Act).collect());
        };
        let partition = self.start.partition;
        let stopped = |reason: String| Error::Stopped { partition, reason };
        let body = serde_json::to_vec(&envelope).map_err(|error| stopped(error.to_string()))?;
        let tip = self.chain.head().map(Head::tip).ok_or_else(|| stopped("no genesis".to_owned()))?;
        let (record, _) = tip.next(Kind::Envelope, body).map_err(|error| stopped(error.to_string()))?;
        Ok(vec![self.append(record, Some(envelope), drafted.notices, moment)])
    }

    /// Timers and silences count only up to a moment after which both ends were asked for.
    fn ask_ends(&mut self, moment: Moment) -> Option<Output> {
        // A target that is not reached yet stays: a later one would only move away.
        if self.asking || self.ends.is_some() && self.reached_ends().is_none() {
            return None;
        }
        let tick = self.start.config.tick_ms;
        let asked = self.ends.map(|ends| ends.asked);
        let stale = asked.is_none_or(|asked| moment.boot_ms.saturating_sub(asked.boot_ms) >= tick);
        let timer = self.state.next_timer().filter(|at| *at <= moment.wall);
        let timer_due = timer.is_some_and(|at| asked.is_none_or(|asked| asked.wall < at));
        self.asking = timer_due || stale;
        self.asking.then_some(Output::AskEnds)
    }

    fn resend(&mut self, moment: Moment) -> Vec<Output> {
        if self.under_way.is_some() || !self.courier.is_waiting(&self.state) {
            self.courier_since = moment.boot_ms;
            return Vec::new();
        }
        if moment.boot_ms.saturating_sub(self.courier_since) < RESEND_AFTER_MS {
            return Vec::new();
        }
        self.courier_since = moment.boot_ms;
        self.courier.start_over();
        self.courier.collect(&self.state).into_iter().map(Output::Act).collect()
    }
}

/// The same text as the hash displays, at a fraction of the time: one is made for every command.
fn hex(hash: &Hash) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    hash.as_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// By how much the log's time of a record lies outside of the time in which it was appended and read back.
fn off_between(logged_ms: i64, sent: Moment, read: Moment) -> i64 {
    let (sent_ms, read_ms) = (sent.wall.as_millisecond(), read.wall.as_millisecond());
    match logged_ms {
        early if early < sent_ms => sent_ms - early,
        late if late > read_ms => read_ms - late,
        _ => 0,
    }
}
