//! The thread around one [`Owner`]: feeds it what the log has, carries out what it wants.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use tidemill_log::{AppendError, From, Log, Producer, Record, Topic, Waker, append_wait};

use crate::effects::Effects;
use crate::live::{LiveHandle, PartitionStatus, Question};
use crate::owner::{Input, Output, Owner, Role, Start};
use crate::{Clock, Error, Moment};

/// Batches of records on their way from a reader to the owner.
const READ_AHEAD: usize = 8;
/// Until a reader looks whether it is still wanted.
const READ_PATIENCE: Duration = Duration::from_millis(500);
/// A deposed owner waits this long before it claims again, at first; doubled each time, up to the second.
const BACK_OFF_MS: (u64, u64) = (1_000, 5_000);

/// What the coordinator tells a partition's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The partition is suggested elsewhere, or the process ends: hand it over.
    Leave,
}

pub(crate) struct Owning {
    pub(crate) start: Start,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) live: LiveHandle,
    pub(crate) orders: Receiver<Order>,
}

/// What one turn of ownership ended with.
enum End {
    Restart { back_off: bool },
    Left,
}

impl Owning {
    /// Owns the partition, again and again, until told to leave.
    pub(crate) fn run(self) -> Result<(), Error> {
        let mut back_offs: u32 = 0;
        loop {
            match self.turn() {
                Ok(End::Left) => return Ok(()),
                Ok(End::Restart { back_off: false }) => continue,
                Ok(End::Restart { back_off: true }) => {}
                Err(error @ Error::Log { .. }) => {
                    tracing::warn!(partition = self.start.partition, %error, source = ?error.source(), "tries again");
                }
                Err(error) => return Err(error),
            }
            let wait = back_off(back_offs);
            back_offs += 1;
            if self.orders.recv_timeout(wait).is_ok() {
                return Ok(());
            }
        }
    }

    fn turn(&self) -> Result<End, Error> {
        let partition = self.start.partition;
        let log_error = |operation| move |source| Error::Log { partition, operation, source };
        let producer = self.log.producer().map_err(log_error("opening a producer"))?;
        let effects =
            Effects::new(Arc::clone(&self.log), partition).map_err(log_error("opening a producer"))?;
        let (questions, asked) = bounded(64);
        self.live.enter(partition, questions);
        let (completions, completed) = bounded(4);
        let (asks, ends) = asker(Arc::clone(&self.log), partition)?;
        let journal =
            Feed::start(&self.log, Topic::Journal, partition, From::Start, self.start.config.read_batch)?;
        let turn = Turn {
            owning: self,
            producer,
            effects,
            completions,
            completed,
            asks,
            ends,
            journal,
            commands: None,
            asked,
            held: Vec::new(),
        };
        let end = turn.run();
        self.live.leave(partition);
        end
    }
}

struct Turn<'a> {
    owning: &'a Owning,
    producer: Arc<dyn Producer>,
    effects: Effects,
    completions: Sender<Result<u64, AppendError>>,
    completed: Receiver<Result<u64, AppendError>>,
    asks: Sender<Moment>,
    ends: Receiver<Result<Input, tidemill_log::Error>>,
    journal: Feed,
    commands: Option<Feed>,
    asked: Receiver<Question>,
    /// Questions that came while an append was under way.
    held: Vec<Question>,
}

impl Turn<'_> {
    fn run(mut self) -> Result<End, Error> {
        let mut owner = Owner::new(self.owning.start.clone());
        let clock = Clock;
        let mut leaving = false;
        self.carry_out(&mut owner, Input::Suggested(true), clock.now())?;
        loop {
            let inputs = self.wait(&owner, leaving)?;
            let moment = clock.now();
            for input in inputs {
                leaving |= matches!(input, Input::Resign);
                if let Some(end) = self.carry_out(&mut owner, input, moment)? {
                    return Ok(end);
                }
            }
            if leaving && owner.role() == Role::Following {
                return Ok(End::Left);
            }
            let moment = clock.now();
            let driven = catch_unwind(AssertUnwindSafe(|| owner.drive(moment)));
            let driven = driven.unwrap_or_else(|panic| Err(self.stopped(panic.as_ref())));
            let outputs = driven.inspect_err(|error| self.say_stopped(&owner, error))?;
            if let Some(end) = self.act(outputs)? {
                return Ok(end);
            }
            self.answer_held(&owner);
        }
    }

    /// Waits for something to happen, then takes everything that has.
    fn wait(&mut self, owner: &Owner, leaving: bool) -> Result<Vec<Input>, Error> {
        let never = crossbeam_channel::never();
        let never_orders = crossbeam_channel::never();
        let commands = self.commands.as_ref().map_or(&never, |feed| &feed.records);
        let orders = if leaving { &never_orders } else { &self.owning.orders };
        let mut inputs = Vec::new();
        let mut failed = None;
        select! {
            recv(self.journal.records) -> records => take(records, Input::Journal, &mut inputs, &mut failed),
            recv(commands) -> records => take(records, Input::Commands, &mut inputs, &mut failed),
            recv(self.completed) -> result => inputs.extend(result.map(Input::Appended)),
            recv(self.ends) -> ends => match ends {
                Ok(Ok(input)) => inputs.push(input),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => {}
            },
            recv(self.asked) -> question => self.held.extend(question),
            recv(orders) -> _ => inputs.push(Input::Resign),
            default(self.patience(owner)) => inputs.push(Input::Tick),
        }
        for (feed, make) in [
            (Some(&self.journal), Input::Journal as fn(Vec<Record>) -> Input),
            (self.commands.as_ref(), Input::Commands),
        ] {
            let more = feed.into_iter().flat_map(|feed| feed.records.try_iter());
            for records in more {
                take(Ok(records), make, &mut inputs, &mut failed);
            }
        }
        if self.effects.take_lost() {
            inputs.push(Input::EffectsLost);
        }
        match failed {
            None => Ok(inputs),
            Some(error) => Err(self.read_error(error)),
        }
    }

    fn read_error(&self, source: tidemill_log::Error) -> Error {
        Error::Log { partition: self.owning.start.partition, operation: "reading", source }
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
        self.act(outputs.inspect_err(|error| self.say_stopped(owner, error))?)
    }

    fn act(&mut self, outputs: Vec<Output>) -> Result<Option<End>, Error> {
        let partition = self.owning.start.partition;
        for output in outputs {
            match output {
                Output::Append(record) => {
                    let completions = self.completions.clone();
                    let done = Box::new(move |result| {
                        // At most one append is under way, so there is room unless the owner is gone.
                        let sent = completions.try_send(result);
                        debug_assert!(!matches!(sent, Err(TrySendError::Full(_))));
                    });
                    self.producer.append(Topic::Journal, partition, b"", record, done);
                }
                Output::AskEnds => {
                    // The asker takes one question at a time; the owner asks again only after the answer.
                    let _ = self.asks.try_send(Clock.now());
                }
                Output::ReadCommands(from) => {
                    let batch = self.owning.start.config.read_batch;
                    let log = &self.owning.log;
                    let feed = Feed::start(log, Topic::Commands, partition, From::Offset(from), batch);
                    self.commands = Some(feed.map_err(|error| lost_or(error, partition, from))?);
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
        Error::Stopped { partition: self.owning.start.partition, reason }
    }

    /// Rule 12: others see that it stopped, and leave the partition alone.
    fn say_stopped(&self, owner: &Owner, error: &Error) {
        let partition = self.owning.start.partition;
        tracing::error!(partition, %error, "the partition stops");
        if let (Error::Stopped { .. } | Error::Append { .. }, Some(record)) = (error, owner.stopped_record())
        {
            let patience = Duration::from_secs(5);
            let told = append_wait(self.producer.as_ref(), Topic::Journal, partition, b"", record, patience);
            if let Err(error) = told {
                tracing::error!(partition, %error, "that it stopped could not be recorded");
            }
        }
    }

    fn answer_held(&mut self, owner: &Owner) {
        if self.held.is_empty() {
            return;
        }
        let Some(state) = owner.state() else { return };
        for question in self.held.drain(..) {
            // Whoever asked may have given up.
            match question {
                Question::Live { shard, query, answer } => {
                    let _ = answer.send(state.answer(shard, &query));
                }
                Question::Status { answer } => {
                    let _ = answer.send(status(owner, state));
                }
            }
        }
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

type Read = Result<Vec<Record>, tidemill_log::Error>;

fn take(
    read: Result<Read, crossbeam_channel::RecvError>,
    make: impl Fn(Vec<Record>) -> Input,
    inputs: &mut Vec<Input>,
    failed: &mut Option<tidemill_log::Error>,
) {
    match read {
        Ok(Ok(records)) => inputs.push(make(records)),
        Ok(Err(error)) => *failed = Some(error),
        // The reader's thread has ended after an error that was taken before.
        Err(_) => {}
    }
}

/// A thread that reads one partition into a bounded channel. Ends when dropped.
struct Feed {
    records: Receiver<Read>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    fn start(
        log: &Arc<dyn Log>,
        topic: Topic,
        partition: u32,
        from: From,
        batch: usize,
    ) -> Result<Self, Error> {
        let operation = "opening a reader";
        let reader = log.reader(topic, partition, from);
        let mut reader = reader.map_err(|source| Error::Log { partition, operation, source })?;
        let waker = reader.waker();
        let (sender, records) = bounded::<Read>(READ_AHEAD);
        let name = format!("{topic}-{partition}");
        let read = move || loop {
            let read = reader.poll(batch, READ_PATIENCE);
            let ended = read.is_err();
            let idle = read.as_ref().is_ok_and(Vec::is_empty);
            // An empty batch only finds out whether anybody still listens.
            if idle && !sender.is_full() || !idle {
                if sender.send(read).is_err() || ended {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(name).spawn(read).map_err(Error::Thread)?;
        Ok(Self { records, waker, thread: Some(thread) })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let (_, nobody) = bounded(0);
        drop(std::mem::replace(&mut self.records, nobody));
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A reader that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

type Ends = Receiver<Result<Input, tidemill_log::Error>>;

/// A thread that asks the log for both ends, since that may take a round trip.
fn asker(log: Arc<dyn Log>, partition: u32) -> Result<(Sender<Moment>, Ends), Error> {
    let (asks, questions) = bounded::<Moment>(1);
    let (answers, ends) = bounded(1);
    let ask = move || {
        for asked in questions {
            let journal = log.range(Topic::Journal, partition);
            let both = journal.and_then(|journal| Ok((journal, log.range(Topic::Commands, partition)?)));
            let input = both.map(|(journal, commands)| Input::Ends {
                asked,
                journal: journal.end,
                commands: commands.end,
            });
            if answers.send(input).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name(format!("ends-{partition}")).spawn(ask).map_err(Error::Thread)?;
    Ok((asks, ends))
}

/// Random within the bounds, doubled with each time in a row.
fn back_off(times: u32) -> Duration {
    let (low, high) = BACK_OFF_MS;
    let mut bytes = [0; 8];
    // Without randomness the wait is only less well spread.
    let _ = getrandom::fill(&mut bytes);
    let spread = u64::from_le_bytes(bytes) % (high - low);
    Duration::from_millis((low + spread) << times.min(4))
}
