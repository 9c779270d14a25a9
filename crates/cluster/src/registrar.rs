//! Registers this process with the catalogue, and shows that it is alive (rule 13, OPS-9).
//!
//! The first registration is a request, which is asked again until it has an outcome; so is every tenth heartbeat, and the
//! first one after a heartbeat that the log did not take, or after the process stood still. The others wait for nothing, and
//! cost a record of the commands each.
//! Replies are read only while one is waited for, so that thousands of executors can register.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_log::{AppendError, Log, Producer, Topic};
use tidemill_model::{
    Actor, Answer, Command, CommandRecord, Level, LevelCommand, Outcome, Process, Rejection, ShardId,
};

use crate::{Config, Error, SubmitRequest, Submitter, instance_id, request_id};

/// Of so many signs of life one is a request.
const ASKED_EVERY: u64 = 10;
/// Before a registration without an outcome is tried again, at first.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a stopping process waits until the log has its last word.
const LAST_WORD: Duration = Duration::from_secs(2);

/// A registered process, or one that is about to be.
#[derive(Debug)]
pub struct Registrar {
    shared: Arc<Shared>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    refusal: OnceLock<Rejection>,
    /// The log did not take a heartbeat.
    missed: AtomicBool,
}

/// What came of a registration.
enum Told {
    Registered,
    TooOld,
    Nothing,
    Stop,
}

impl Registrar {
    /// Begins to register `process`, and shows that it is alive as often as `every`.
    ///
    /// # Errors
    /// The log takes nothing from this process, or a thread cannot be started.
    pub fn start(log: Arc<dyn Log>, process: Process, every: Duration) -> Result<Self, Error> {
        let shared = Arc::new(Shared { refusal: OnceLock::new(), missed: AtomicBool::new(false) });
        let (stop, stopped) = mpsc::channel();
        let producer = log.producer().map_err(Error::Open)?;
        let registering =
            Registering { log, producer, process, every, shared: Arc::clone(&shared), stopped, number: 0 };
        let thread = std::thread::Builder::new()
            .name("registration".to_owned())
            .spawn(move || registering.run())
            .map_err(Error::Thread)?;
        Ok(Self { shared, stop, thread })
    }

    /// Why the process has to stop, once the catalogue has refused it.
    #[must_use]
    pub fn refusal(&self) -> Option<&Rejection> {
        self.shared.refusal.get()
    }

    /// Tells the catalogue that the process stops in order.
    pub fn stop(self) {
        // It may have ended, where the process was refused.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread that registers this process panicked");
        }
    }
}

struct Registering {
    log: Arc<dyn Log>,
    producer: Arc<dyn Producer>,
    process: Process,
    every: Duration,
    shared: Arc<Shared>,
    stopped: Receiver<()>,
    /// Signs of life so far.
    number: u64,
}

impl Registering {
    fn run(mut self) {
        if self.goes_on_registering() {
            self.append(LevelCommand::DeregisterProcess { process: self.process.id.clone() });
            if let Err(error) = self.producer.flush(LAST_WORD) {
                tracing::warn!(%error, "that this process stops may not have reached the log");
            }
        }
    }

    /// Until it is to stop, or is refused, which is `false`.
    fn goes_on_registering(&mut self) -> bool {
        let (mut asks, mut pause) = (true, PAUSE);
        let mut shown_at = Instant::now();
        let expire_after = Duration::from_millis(self.process.expire_after_ms);
        loop {
            let wait = if asks {
                match self.ask() {
                    Told::Registered => {
                        (asks, pause) = (false, PAUSE);
                        self.every
                    }
                    Told::TooOld => return false,
                    Told::Stop => return true,
                    Told::Nothing => {
                        pause = (pause * 2).min(self.every.max(PAUSE));
                        pause
                    }
                }
            } else {
                self.append(self.next());
                self.every
            };
            match self.stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
            }
            self.number += 1;
            asks |= self.number.is_multiple_of(ASKED_EVERY)
                || self.shared.missed.swap(false, Ordering::Relaxed)
                || shown_at.elapsed() > expire_after / 2 + wait;
            shown_at = Instant::now();
        }
    }

    fn next(&self) -> LevelCommand {
        LevelCommand::RegisterProcess { process: Box::new(self.process.clone()), number: self.number }
    }

    fn ask(&self) -> Told {
        let submitter =
            match Submitter::start(Arc::clone(&self.log), instance_id("process"), Config::default()) {
                Ok(submitter) => submitter,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "this process cannot register yet"
                    );
                    return Told::Nothing;
                }
            };
        let (tell, told) = mpsc::sync_channel(1);
        let submit_request = SubmitRequest {
            shard: ShardId::CATALOGUE,
            request: request_id(),
            actor: actor(),
            command: self.next().into(),
        };
        submitter.submit_with(submit_request, None, move |result| {
            let _ = tell.send(result);
        });
        let outcome = loop {
            match told.recv_timeout(LOOK) {
                Ok(outcome) => break outcome.map(|reply| reply.outcome),
                Err(RecvTimeoutError::Timeout)
                    if !matches!(self.stopped.try_recv(), Err(mpsc::TryRecvError::Empty)) =>
                {
                    return Told::Stop;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Told::Nothing,
            }
        };
        submitter.stop();
        match outcome {
            Ok(Outcome::Answered(Answer::Level { .. })) => Told::Registered,
            Ok(Outcome::Refused(rejection @ Rejection::TooOld { .. })) => {
                tracing::error!("the catalogue refuses this process: {rejection}");
                let _ = self.shared.refusal.set(rejection);
                Told::TooOld
            }
            Ok(outcome) => {
                tracing::warn!("this process cannot register: {outcome:?}; it tries again");
                Told::Nothing
            }
            Err(error) => {
                tracing::debug!("this process is not registered yet: {error}");
                Told::Nothing
            }
        }
    }

    fn append(&self, command: LevelCommand) {
        let shard = ShardId::CATALOGUE;
        let command = Command::Level(command);
        let record = CommandRecord { shard, request: None, reply_to: None, actor: actor(), command };
        let partition = shard.partition(self.log.partitions(Topic::Commands));
        let (key, value) = (shard.to_string(), record.encoded(Level::FIRST));
        let shared = Arc::clone(&self.shared);
        let done = Box::new(move |result: Result<u64, AppendError>| {
            if result.is_err() {
                shared.missed.store(true, Ordering::Relaxed);
            }
        });
        self.producer.append(Topic::Commands, partition, key.as_bytes(), value, done);
    }
}

fn actor() -> Actor {
    Actor { app: "process".into(), user: None }
}
