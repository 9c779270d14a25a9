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

mod answering;
mod deciding;
#[cfg(feature = "planted")]
mod planted;
mod reading;
mod seals;
mod snapshots;

use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_engine::{Effect, FaultInjection, OutboxSender, Partition};
use tidemill_log::{AppendError, Chain, Codec, Head, Kind, Payload, Record};
use tidemill_model::{Envelope, Resume, Timestamp};
use tidemill_snapshots::{Fold, Taken};

use self::seals::Seals;
pub use self::snapshots::NamedSnapshot;
use self::snapshots::SnapshotsOfOwner;
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
    /// A snapshot of the record that [`Owner::mark`] named is there.
    SnapshotTaken(Taken),
    /// Hand the partition over.
    Resign,
}

/// What an owner wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Append this to the journal; the outcome comes back as [`Input::Appended`].
    Append(Payload),
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
    record: Payload,
    envelope: Option<Arc<Envelope>>,
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
    seals: Seals,
    outbox_sender: OutboxSender,
    outbox_sender_since: u64,
    /// Effects were lost, and what is outstanding has not been said again since.
    effects_lost: bool,
    said_again_ms: Option<u64>,
    /// Wall minus boot time at the claim.
    clock_base_ms: Option<i64>,
    resigning: bool,
    /// The check of the resume point against the topic is outstanding.
    check_resume: Option<Resume>,
    snapshots: SnapshotsOfOwner,
}

/// Unacknowledged messages between shards are sent again after this.
const RESEND_AFTER_MS: u64 = 3_000;
/// Between two times that everything outstanding is said again.
const SAY_AGAIN_AFTER_MS: u64 = 1_000;

impl Owner {
    /// An owner that has read nothing.
    pub fn new(start: Start) -> Self {
        let fold = Fold::beginning(start.partition, start.count);
        Self::resumed(start, fold, None)
    }

    /// An owner that goes on with a fold: a snapshot that counts, and what was read on from it to see that.
    pub fn resumed(start: Start, fold: Fold, begun_with: Option<NamedSnapshot>) -> Self {
        let Fold { chain, state, next, events, .. } = fold;
        let snapshots = SnapshotsOfOwner::begun(begun_with, events);
        let seals = Seals::new(start.config.reports.clone());
        Self {
            start,
            chain,
            state,
            role: Role::Following,
            suggested_since: None,
            journal_goal: None,
            journal_next: next,
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
            seals,
            outbox_sender: OutboxSender::default(),
            outbox_sender_since: 0,
            effects_lost: false,
            said_again_ms: None,
            clock_base_ms: None,
            resigning: false,
            check_resume: None,
            snapshots,
        }
    }

    /// The same, with rules that a test has rigged.
    #[doc(hidden)]
    pub fn fault_injected(start: Start, fault_injection: FaultInjection) -> Self {
        let fold = Fold::beginning(start.partition, start.count);
        Self::resumed_fault_injected(start, fold, None, fault_injection)
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

    /// Reports that were passed over, for they were not their workers'.
    pub fn refused_reports(&self) -> u64 {
        self.seals.refused()
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
                self.outbox_sender.start_over();
                self.effects_lost = true;
                Ok(Vec::new())
            }
            Input::SnapshotTaken(taken) => {
                self.snapshots.taken(taken);
                Ok(Vec::new())
            }
            Input::Resign => {
                self.resigning = true;
                Ok(Vec::new())
            }
            Input::Tick => Ok(Vec::new()),
        }
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
        let record = head.claim(&self.start.incarnation, &self.start.config.address);
        let record = record.map_err(|error| self.stopped(error))?;
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
        let record = Payload::from(record);
        // Readers of this process need not decode what it has decoded.
        let envelope = envelope.map(Arc::new).inspect(|envelope| record.know(Arc::clone(envelope)));
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

    /// Where the journal goes on behind what it has read.
    pub fn journal_next(&self) -> u64 {
        self.journal_next
    }

    /// The record that tells others to leave the partition alone, if this owner can still write one.
    pub fn stopped_record(&self) -> Option<Vec<u8>> {
        self.last_record(Kind::Stopped)
    }

    /// The record that tells others that the partition has no owner, if this owner can still write one.
    pub fn resigned_record(&self) -> Option<Vec<u8>> {
        self.last_record(Kind::Resigned)
    }

    fn last_record(&self, kind: Kind) -> Option<Vec<u8>> {
        let head = self.chain.head()?;
        // Another's claim may stand behind its own: what links to that one is not its to write.
        let is_own = head.owner.as_ref().is_some_and(|claim| claim.incarnation == self.start.incarnation);
        if self.role != Role::Owning || self.under_way.is_some() || !is_own {
            return None;
        }
        let (record, _) = head.tip().next(kind, Vec::new()).ok()?;
        Some(record)
    }

    /// The next record of this owner.
    fn next_record(&self, kind: Kind, codec: Codec, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let tip = self.chain.head().map(Head::tip).ok_or_else(|| self.stopped("no genesis"))?;
        let (record, _) = tip.next_as(kind, codec, body).map_err(|error| self.stopped(error))?;
        Ok(record)
    }

    fn stopped(&self, reason: impl ToString) -> Error {
        Error::stopped(self.start.partition, reason)
    }
}
