//! One turn of ownership: from the first record of the journal to the end of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use tidemill_log::{AppendError, From, NewRecord, Producer, Reader, Topic, append_wait};

use super::Owning;
use super::asker::Asker;
use crate::effects::Effects;
use crate::live::{PartitionStatus, Question};
use crate::owner::{Input, Output, Owner, Role};
use crate::{Clock, Error, Moment};

/// With more batches of commands than this undecided, no more are taken from the reader.
const MAX_BACKLOG_BATCHES: usize = 16;
/// Between two times that the log is told how far its commands are done with.
const TRIM_EVERY: Duration = Duration::from_millis(250);
/// Told to leave, an owner that cannot finish what is under way goes without a word after this.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

/// What one turn of ownership ended with.
pub(super) enum End {
    Restart {
        back_off: bool,
    },
    Left,
    /// The commands to go on after are not there. Beyond its own farewell, the journal had been read so far.
    CommandsLost {
        read: u64,
    },
}

impl Owning {
    /// Owns the partition once.
    pub(super) fn turn(&self) -> Result<End, Error> {
        let partition = self.start.partition;
        let failed = || Error::log(partition, "opening a producer");
        let producer = self.log.producer().map_err(failed())?;
        let effects =
            Effects::new(Arc::clone(&self.log), self.live.lines.clone(), partition).map_err(failed())?;
        let (fold, begun_with) = self.begun();
        let (questions, asked) = bounded(64);
        self.live.enter(partition, questions);
        let (failures, failed) = unbounded();
        let asker = Asker::start(Arc::clone(&self.log), partition)?;
        let (news, heard) = bounded(1);
        let from = if fold.next == 0 { From::Start } else { From::Offset(fold.next) };
        let journal = self.reader(Topic::Journal, from, &news)?;
        let turn = Turn {
            owning: self,
            producer,
            effects,
            failures,
            failed,
            asker,
            news,
            heard,
            journal,
            commands: None,
            asked,
            held: Vec::new(),
            trimmed: Instant::now(),
        };
        let end = turn.run(Owner::resumed(self.start.clone(), fold, begun_with));
        self.live.leave(partition);
        end
    }

    /// A reader that says when it may have something.
    fn reader(&self, topic: Topic, from: From, news: &Sender<()>) -> Result<Box<dyn Reader>, Error> {
        let partition = self.start.partition;
        let reader = self.log.reader(topic, partition, from);
        let reader = reader.map_err(Error::log(partition, "opening a reader"))?;
        let news = news.clone();
        // Where there is word already, the owner will look at everything.
        reader.waker().listen(move || {
            let _ = news.try_send(());
        });
        Ok(reader)
    }
}

struct Turn<'a> {
    owning: &'a Owning,
    producer: Arc<dyn Producer>,
    effects: Effects,
    failures: Sender<AppendError>,
    /// Why the append under way failed. One that did not is read back.
    failed: Receiver<AppendError>,
    asker: Asker,
    news: Sender<()>,
    /// One of the readers may have something.
    heard: Receiver<()>,
    journal: Box<dyn Reader>,
    commands: Option<Box<dyn Reader>>,
    asked: Receiver<Question>,
    /// Questions that came while an append was under way.
    held: Vec<Question>,
    /// When the log was last told how far its commands are done with.
    trimmed: Instant,
}

impl Turn<'_> {
    fn run(mut self, owner: Owner) -> Result<End, Error> {
        let mut leaving = None;
        match self.own(owner, &mut leaving) {
            // Told to leave, it does not begin again.
            Ok(End::Restart { .. } | End::CommandsLost { .. }) if leaving.is_some() => Ok(End::Left),
            Err(error @ Error::Log { .. }) if leaving.is_some() => {
                tracing::warn!(partition = self.owning.start.partition, %error, "leaves without a word");
                Ok(End::Left)
            }
            end => end,
        }
    }

    /// Sets `leaving` to when it was told to leave.
    fn own(&mut self, mut owner: Owner, leaving: &mut Option<Instant>) -> Result<End, Error> {
        let end = self.drive(&mut owner, leaving);
        let Err(error) = end else { return end };
        let farewell = self.say_stopped(&owner, &error);
        match error {
            Error::CommandsLost { .. } => {
                Ok(End::CommandsLost { read: owner.journal_next() + u64::from(farewell) })
            }
            error => Err(error),
        }
    }

    fn drive(&mut self, owner: &mut Owner, leaving: &mut Option<Instant>) -> Result<End, Error> {
        let clock = Clock;
        self.carry_out(owner, Input::Suggested(true), clock.now())?;
        loop {
            let inputs = self.wait(owner, leaving.is_some())?;
            let moment = clock.now();
            for input in inputs {
                if matches!(input, Input::Resign) {
                    leaving.get_or_insert_with(Instant::now);
                }
                if let Some(end) = self.carry_out(owner, input, moment)? {
                    return Ok(end);
                }
            }
            // Under load the next append begins in the same breath, so this is the moment to answer.
            if let Some(end) = self.answer_held(owner)? {
                return Ok(end);
            }
            self.trim(owner)?;
            if let Some(since) = *leaving
                && (owner.role() == Role::Following || since.elapsed() >= LEAVE_PATIENCE)
            {
                return Ok(End::Left);
            }
            let moment = clock.now();
            let driven = catch_unwind(AssertUnwindSafe(|| owner.drive(moment)));
            let driven = driven.unwrap_or_else(|panic| Err(self.stopped(panic.as_ref())));
            if let Some(end) = self.act(driven?)? {
                return Ok(end);
            }
            if let Some(end) = self.answer_held(owner)? {
                return Ok(end);
            }
        }
    }

    /// Takes what there is, or waits for something to happen.
    fn wait(&mut self, owner: &Owner, leaving: bool) -> Result<Vec<Input>, Error> {
        let mut inputs = self.read(owner)?;
        let never_orders = crossbeam_channel::never();
        let orders = if leaving { &never_orders } else { &self.owning.orders };
        let patience = if inputs.is_empty() { self.patience(owner) } else { Duration::ZERO };
        select! {
            recv(self.heard) -> _ => inputs.extend(self.read(owner)?),
            recv(self.failed) -> error => inputs.extend(error.map(|error| Input::Appended(Err(error)))),
            recv(self.asker.ends) -> ends => inputs.extend(ends),
            recv(self.asked) -> question => self.held.extend(question),
            recv(orders) -> _ => inputs.push(Input::Resign),
            default(patience) => {}
        }
        if self.effects.begin_again_if_lost() {
            inputs.push(Input::EffectsLost);
        }
        Ok(inputs)
    }

    /// What the readers have, without waiting.
    fn read(&mut self, owner: &Owner) -> Result<Vec<Input>, Error> {
        let batch = self.owning.start.config.read_batch;
        let has_room = owner.backlog() < MAX_BACKLOG_BATCHES.saturating_mul(batch);
        let mut inputs = Vec::new();
        match self.journal.poll(batch, Duration::ZERO).map_err(|error| self.read_error(error))? {
            records if records.is_empty() => {}
            records => inputs.push(Input::Journal(records)),
        }
        let commands = self.commands.as_mut().filter(|_| has_room);
        let commands = commands.map_or(Ok(Vec::new()), |reader| reader.poll(batch, Duration::ZERO));
        match commands.map_err(|error| self.read_error(error))? {
            records if records.is_empty() => {}
            records => inputs.push(Input::Commands(records)),
        }
        Ok(inputs)
    }

    fn read_error(&self, source: tidemill_log::Error) -> Error {
        let partition = self.owning.start.partition;
        match source {
            tidemill_log::Error::OffsetOutOfRange { topic: Topic::Commands, wanted, .. } => {
                Error::CommandsLost { partition, offset: wanted }
            }
            damage @ (tidemill_log::Error::Damaged { .. } | tidemill_log::Error::Gap { .. }) => {
                Error::Damaged { partition, damage }
            }
            source => Error::log(partition, "reading")(source),
        }
    }

    /// Until the next timer, a tick at most.
    fn patience(&self, owner: &Owner) -> Duration {
        let tick = Duration::from_millis(self.owning.start.config.tick_ms);
        let Some(at) = owner.next_timer() else { return tick };
        let left = at.duration_since(Clock.now().wall).as_millis().max(0) as u64;
        tick.min(Duration::from_millis(left + 1))
    }

    fn carry_out(&mut self, owner: &mut Owner, input: Input, moment: Moment) -> Result<Option<End>, Error> {
        let stepped = catch_unwind(AssertUnwindSafe(|| owner.step(input, moment)));
        let outputs = stepped.unwrap_or_else(|panic| Err(self.stopped(panic.as_ref())));
        self.act(outputs?)
    }

    fn act(&mut self, outputs: Vec<Output>) -> Result<Option<End>, Error> {
        let end = self.act_on_each(outputs);
        self.effects.send_off();
        end
    }

    fn act_on_each(&mut self, outputs: Vec<Output>) -> Result<Option<End>, Error> {
        let partition = self.owning.start.partition;
        for output in outputs {
            match output {
                Output::Append(record) => {
                    let failures = self.failures.clone();
                    let done = Box::new(move |result: Result<u64, AppendError>| {
                        // Where the owner is gone, nobody wants to know.
                        drop(result.map_err(|error| failures.send(error)));
                    });
                    let (topic, key) = (Topic::Journal, Vec::new());
                    self.producer.append_all(vec![NewRecord {
                        topic,
                        partition,
                        key,
                        value: record,
                        acted_on: false,
                        done,
                    }]);
                }
                Output::AskEnds => {
                    // The asker takes one question at a time; the owner asks again only after the answer.
                    let _ = self.asker.asks.try_send(Clock.now());
                }
                Output::ReadCommands(from) => {
                    let reader = self.owning.reader(Topic::Commands, From::Offset(from), &self.news);
                    self.commands = Some(reader.map_err(|error| lost_or(error, partition, from))?);
                    tracing::info!(partition, from, "owns the partition");
                }
                Output::Act(effect) => self.effects.act(&effect),
                Output::Restart { back_off, reason } => {
                    tracing::warn!(partition, reason, "owns the partition no longer");
                    return Ok(Some(End::Restart { back_off }));
                }
                Output::Resigned => {
                    tracing::info!(partition, "handed the partition over");
                    return Ok(Some(End::Left));
                }
            }
        }
        Ok(None)
    }

    fn stopped(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let reason = text.unwrap_or_else(|| "the rules panicked".to_owned());
        Error::stopped(self.owning.start.partition, reason)
    }

    /// Rule 12: others see that it stopped, and leave the partition alone. One whose commands were lost has no
    /// owner until a person acts, and one whose owner's clock is off is anyone's. Gives whether something was said.
    fn say_stopped(&self, owner: &Owner, error: &Error) -> bool {
        let partition = self.owning.start.partition;
        if matches!(error, Error::Log { .. }) {
            return false;
        }
        tracing::error!(partition, %error, "the partition stops");
        let record = match error {
            Error::Stopped { .. } | Error::Append { .. } => owner.stopped_record(),
            Error::CommandsLost { .. } | Error::Clock { .. } | Error::TooNew { .. } => {
                owner.resigned_record()
            }
            _ => None,
        };
        let Some(record) = record else { return false };
        let patience = Duration::from_secs(5);
        let told = append_wait(self.producer.as_ref(), Topic::Journal, partition, b"", record, patience);
        told.inspect_err(|error| tracing::error!(partition, %error, "that it stopped could not be recorded"))
            .is_ok()
    }

    /// Tells the log how far its commands are done with, by what stands in the journal.
    fn trim(&mut self, owner: &Owner) -> Result<(), Error> {
        let is_due = owner.role() == Role::Owning && self.trimmed.elapsed() >= TRIM_EVERY;
        let Some(resume) = owner.state().filter(|_| is_due).and_then(|state| state.resume()) else {
            return Ok(());
        };
        self.trimmed = Instant::now();
        let partition = self.owning.start.partition;
        let told = self.owning.log.trim(Topic::Commands, partition, resume.offset);
        told.map_err(Error::log(partition, "trimming the commands"))
    }

    fn answer_held(&mut self, owner: &mut Owner) -> Result<Option<End>, Error> {
        if self.held.is_empty() || owner.state().is_none() {
            return Ok(None);
        }
        for question in std::mem::take(&mut self.held) {
            // Whoever asked may have given up.
            match question {
                Question::Live { shard, query, answer } if owner.role() == Role::Owning => {
                    if let Some(told) = owner.answer_at(shard, &query, Clock.now().boot_ms) {
                        let _ = answer.send(told);
                    }
                }
                // Dropped, it says that this process does not own the partition.
                Question::Live { .. } => {}
                Question::Status { answer } => {
                    if let Some(state) = owner.state() {
                        let _ = answer.send(status(owner, state));
                    }
                }
                Question::Mark { answer } => {
                    let _ = answer.send(owner.mark());
                }
                Question::Taken { taken, answer } => {
                    let _ = answer.send(());
                    let end = self.carry_out(owner, Input::SnapshotTaken(*taken), Clock.now())?;
                    if end.is_some() {
                        return Ok(end);
                    }
                }
            }
        }
        Ok(None)
    }
}

fn status(owner: &Owner, state: &tidemill_engine::Partition) -> PartitionStatus {
    let head = owner.head();
    let sum =
        |count: fn(&tidemill_engine::GroupShard) -> usize| state.groups().map(count).sum::<usize>() as u64;
    PartitionStatus {
        partition: state.number(),
        owning: owner.role() == Role::Owning,
        epoch: head.map_or(0, |head| head.epoch),
        owner: head
            .and_then(|head| head.owner.as_ref())
            .map_or_else(String::new, |claim| claim.incarnation.clone()),
        journal_offset: head.map_or(0, |head| head.offset),
        void_records: owner.void_records(),
        backlog: owner.backlog() as u64,
        unfinished_batches: sum(tidemill_engine::GroupShard::unfinished_batches),
        queued_batches: sum(tidemill_engine::GroupShard::queued_batches),
        snapshot: owner.newest_snapshot(),
        begun_with: owner.begun_with(),
        events_since_snapshot: owner.events_since_snapshot(),
    }
}

/// A resume point that the topic no longer holds means that the topic was lost.
fn lost_or(error: Error, partition: u32, offset: u64) -> Error {
    match error {
        Error::Log { source: tidemill_log::Error::OffsetOutOfRange { .. }, .. } => {
            Error::CommandsLost { partition, offset }
        }
        other => other,
    }
}
