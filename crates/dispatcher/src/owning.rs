//! The thread around one [`Owner`]: feeds it what the log has, carries out what it wants.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};
use tidemill_log::{AppendError, From, Log, Producer, Record, Topic, Waker, append_wait};

use crate::effects::Effects;
use crate::live::{LiveHandle, PartitionStatus, Question};
use crate::owner::{Input, Output, Owner, Role, Start};
use crate::{Clock, Error, Moment};

/// Batches of records on their way from a reader to the owner.
const READ_AHEAD: usize = 8;
/// Until a reader looks whether it is still wanted.
const READ_PATIENCE: Duration = Duration::from_millis(500);
/// With more batches of commands than this undecided, no more are taken from the reader.
const MAX_BACKLOG_BATCHES: usize = 16;
/// Until the log is asked again for the ends that it could not tell.
const ENDS_AGAIN: Duration = Duration::from_millis(500);
/// Until a partition whose commands were lost is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Between two times that the log is told how far its commands are done with.
const TRIM_EVERY: Duration = Duration::from_millis(250);
/// An ownership that lasted this long was no failure: the next wait is a first one again.
const LASTING: Duration = Duration::from_secs(60);
/// Told to leave, an owner that cannot finish what is under way goes without a word after this.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
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
    /// Owns the partition, again and again, until told to leave.
    pub(crate) fn run(self) -> Result<(), Error> {
        let mut back_offs: u32 = 0;
        loop {
            let began = Instant::now();
            match self.turn() {
                Ok(End::Left) => return Ok(()),
                Ok(End::Restart { back_off: false }) => continue,
                Ok(End::Restart { back_off: true }) => {}
                Err(error @ Error::Log { .. }) => {
                    tracing::warn!(partition = self.start.partition, %error, source = ?error.source(), "tries again");
                }
                // A person can fix it: the journal says so then. Or it was only late, and others decided them.
                Ok(End::CommandsLost { read }) if self.journal_grows(read) => {}
                Ok(End::CommandsLost { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            if began.elapsed() >= LASTING {
                back_offs = 0;
            }
            let wait = back_off(back_offs);
            back_offs += 1;
            match self.orders.recv_timeout(wait) {
                Ok(Order::Leave) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits until the journal has more than was read of it; not, where it is told to leave before.
    fn journal_grows(&self, read: u64) -> bool {
        loop {
            let range = self.log.range(Topic::Journal, self.start.partition);
            if range.is_ok_and(|range| range.end > read) {
                return true;
            }
            match self.orders.recv_timeout(LOOK_AGAIN) {
                Ok(Order::Leave) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
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
        // At most one append is under way, and what came of the others is taken at every turn.
        let (completions, completed) = unbounded();
        let asker = Asker::start(Arc::clone(&self.log), partition)?;
        let journal =
            Feed::start(&self.log, Topic::Journal, partition, From::Start, self.start.config.read_batch)?;
        let turn = Turn {
            owning: self,
            producer,
            effects,
            completions,
            completed,
            asker,
            journal,
            commands: None,
            asked,
            held: Vec::new(),
            trimmed: Instant::now(),
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
    asker: Asker,
    journal: Feed,
    commands: Option<Feed>,
    asked: Receiver<Question>,
    /// Questions that came while an append was under way.
    held: Vec<Question>,
    /// When the log was last told how far its commands are done with.
    trimmed: Instant,
}

impl Turn<'_> {
    fn run(mut self) -> Result<End, Error> {
        let mut leaving = None;
        match self.own(&mut leaving) {
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
    fn own(&mut self, leaving: &mut Option<Instant>) -> Result<End, Error> {
        let mut owner = Owner::new(self.owning.start.clone());
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
            self.answer_held(owner);
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
            self.answer_held(owner);
        }
    }

    /// Waits for something to happen, then takes everything that has.
    fn wait(&mut self, owner: &Owner, leaving: bool) -> Result<Vec<Input>, Error> {
        let never = crossbeam_channel::never();
        let never_orders = crossbeam_channel::never();
        let most = MAX_BACKLOG_BATCHES.saturating_mul(self.owning.start.config.read_batch);
        let feed = self.commands.as_ref().filter(|_| owner.backlog() < most);
        let commands = feed.map_or(&never, |feed| &feed.records);
        let orders = if leaving { &never_orders } else { &self.owning.orders };
        let mut inputs = Vec::new();
        let mut failed = None;
        select! {
            recv(self.journal.records) -> records => take(records, Input::Journal, &mut inputs, &mut failed),
            recv(commands) -> records => take(records, Input::Commands, &mut inputs, &mut failed),
            recv(self.completed) -> result => inputs.extend(result.map(Input::Appended)),
            recv(self.asker.ends) -> ends => inputs.extend(ends),
            recv(self.asked) -> question => self.held.extend(question),
            recv(orders) -> _ => inputs.push(Input::Resign),
            default(self.patience(owner)) => inputs.push(Input::Tick),
        }
        inputs.extend(self.completed.try_iter().map(Input::Appended));
        for (feed, make) in
            [(Some(&self.journal), Input::Journal as fn(Vec<Record>) -> Input), (feed, Input::Commands)]
        {
            let more = feed.into_iter().flat_map(|feed| feed.records.try_iter().take(READ_AHEAD));
            for records in more {
                take(Ok(records), make, &mut inputs, &mut failed);
            }
        }
        if self.effects.begin_again_if_lost() {
            inputs.push(Input::EffectsLost);
        }
        match failed {
            None => Ok(inputs),
            Some(error) => Err(self.read_error(error)),
        }
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
            source => Error::Log { partition, operation: "reading", source },
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
                    let completions = self.completions.clone();
                    let done = Box::new(move |result| {
                        // Where the owner is gone, nobody wants to know.
                        let _ = completions.send(result);
                    });
                    self.producer.append(Topic::Journal, partition, b"", record, done);
                }
                Output::AskEnds => {
                    // The asker takes one question at a time; the owner asks again only after the answer.
                    let _ = self.asker.asks.try_send(Clock.now());
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
            Error::CommandsLost { .. } | Error::Clock { .. } => owner.resigned_record(),
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
        told.map_err(|source| Error::Log { partition, operation: "trimming the commands", source })
    }

    fn answer_held(&mut self, owner: &Owner) {
        if self.held.is_empty() {
            return;
        }
        let Some(state) = owner.state() else { return };
        for question in self.held.drain(..) {
            // Whoever asked may have given up.
            match question {
                Question::Live { shard, query, answer } if owner.role() == Role::Owning => {
                    if let Some(told) = owner.answer(shard, &query) {
                        let _ = answer.send(told);
                    }
                }
                // Dropped, it says that this process does not own the partition.
                Question::Live { .. } => {}
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
    /// Nobody listens any more. A channel that is full when its receiver goes stays full, so it cannot tell.
    over: Arc<AtomicBool>,
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
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let read = move || {
            while !is_over.load(Ordering::Acquire) {
                let read = reader.poll(batch, READ_PATIENCE);
                let ended = read.is_err();
                let idle = read.as_ref().is_ok_and(Vec::is_empty);
                if !idle && (sender.send(read).is_err() || ended) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(name).spawn(read).map_err(Error::Thread)?;
        Ok(Self { records, waker, over, thread: Some(thread) })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let (_, nobody) = bounded(0);
        drop(std::mem::replace(&mut self.records, nobody));
        self.over.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A reader that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// A thread that asks the log for both ends, since that may take a round trip. Ends when dropped.
struct Asker {
    asks: Sender<Moment>,
    ends: Receiver<Input>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    fn start(log: Arc<dyn Log>, partition: u32) -> Result<Self, Error> {
        let (asks, questions) = bounded::<Moment>(1);
        let (answers, answered) = bounded(1);
        let ask = move || {
            for asked in &questions {
                let ends = loop {
                    match ends(log.as_ref(), partition, asked) {
                        Ok(ends) => break ends,
                        Err(error) => tracing::warn!(partition, %error, "the log does not tell its ends"),
                    }
                    if questions.recv_timeout(ENDS_AGAIN).is_err_and(|error| error.is_disconnected()) {
                        return;
                    }
                };
                if answers.send(ends).is_err() {
                    return;
                }
            }
        };
        let name = format!("ends-{partition}");
        let thread = thread::Builder::new().name(name).spawn(ask).map_err(Error::Thread)?;
        Ok(Self { asks, ends: answered, thread: Some(thread) })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.asks = bounded(0).0;
        self.ends = bounded(0).1;
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn ends(log: &dyn Log, partition: u32, asked: Moment) -> Result<Input, tidemill_log::Error> {
    let journal = log.range(Topic::Journal, partition)?.end;
    let commands = log.range(Topic::Commands, partition)?.end;
    Ok(Input::Ends { asked, journal, commands })
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

#[cfg(test)]
mod tests {
    use tidemill_log::MemoryLog;

    use super::*;

    /// While an owner waits for a broker that does not answer, nobody takes what its readers have.
    #[test]
    fn feed_that_is_full_ends_when_dropped() {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(1));
        let producer = log.producer().unwrap();
        for _ in 0..=READ_AHEAD {
            append_wait(&*producer, Topic::Commands, 0, b"", vec![0], READ_PATIENCE).unwrap();
        }
        let feed = Feed::start(&log, Topic::Commands, 0, From::Start, 1).unwrap();
        while !feed.records.is_full() {
            thread::yield_now();
        }
        // One more record waits for room; taken one, the reader has none left and idles beside a full channel.
        feed.records.recv().unwrap().unwrap();
        while !feed.records.is_full() {
            thread::yield_now();
        }
        let (ended, has_ended) = bounded(1);
        thread::spawn(move || {
            drop(feed);
            ended.send(()).unwrap();
        });
        has_ended.recv_timeout(10 * READ_PATIENCE).expect("a feed ends within its patience");
    }
}
