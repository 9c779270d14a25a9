//! What a caller wants done, and the loop around [`Outstanding`]: one thread that reads replies and minds the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_log::{From, Log, Producer, Reader, Record, Topic, Waker};
use tidemill_model::{Actor, Command, CommandRecord, InstanceId, Json as _, Reply, RequestId, ShardId};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{Config, Error, Load, Output, Outstanding, SubmitError};

/// What is called with the outcome. It runs on the reading thread: it must be short and not block.
type Waiter = Box<dyn FnOnce(Result<Reply, SubmitError>) + Send>;

/// Replies taken from the log at once.
const MAX_REPLIES: usize = 4_096;
/// How long the reading thread waits where nothing is due.
const IDLE: Duration = Duration::from_millis(250);

/// A command that waits to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitRequest {
    /// Which shard decides it.
    pub shard: ShardId,
    /// The caller's id for it; a repeat gets the first answer.
    pub request: RequestId,
    /// Who requests it.
    pub actor: Actor,
    /// What.
    pub command: Command,
}

/// Sends requests and waits for their outcomes. A clone is the same submitter; the last one dropped stops it.
#[derive(Clone)]
pub struct Submitter {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    waker: Mutex<Option<Waker>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    log: Arc<dyn Log>,
    producer: Arc<dyn Producer>,
    instance: InstanceId,
    outstanding: Mutex<Outstanding<Waiter>>,
    stop: AtomicBool,
}

impl Submitter {
    /// Begins to listen for replies to `instance`, which no other process may use, then takes requests.
    ///
    /// # Errors
    /// The configuration is outside its ranges, or the log or a thread cannot be had.
    pub fn start(log: Arc<dyn Log>, instance: InstanceId, config: Config) -> Result<Self, Error> {
        config.check().map_err(Error::Config)?;
        let partition = tidemill_log::partition_of_key(instance.as_str(), log.partitions(Topic::Replies));
        // From the end, and before the first append: no reply to this instance can be missed.
        let reader = log.reader(Topic::Replies, partition, From::End).map_err(Error::Open)?;
        let producer = log.producer().map_err(Error::Open)?;
        let waker = reader.waker();
        let shared = Arc::new(Shared {
            log,
            producer,
            instance,
            outstanding: Mutex::new(Outstanding::new(config)),
            stop: AtomicBool::new(false),
        });
        let listener = Listener { shared: Arc::clone(&shared), partition, reader: Some(reader), next: None };
        let thread = std::thread::Builder::new()
            .name("replies".to_owned())
            .spawn(move || listener.run())
            .map_err(Error::Thread)?;
        let inner = Inner { shared, waker: Mutex::new(Some(waker)), thread: Mutex::new(Some(thread)) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sends the request and waits for its outcome, at most `timeout` (absent: as configured).
    ///
    /// # Errors
    /// As [`SubmitError`] tells; only [`SubmitError::Unknown`] and [`SubmitError::Stopped`] leave open whether
    /// it was done.
    pub async fn submit(
        &self,
        submit_request: SubmitRequest,
        timeout: Option<Duration>,
    ) -> Result<Reply, SubmitError> {
        let (tell, told) = oneshot::channel();
        self.submit_with(submit_request, timeout, |result| {
            // The caller may be gone: then nobody wants to know.
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(SubmitError::Stopped))
    }

    /// As [`Submitter::submit`], for callers without a runtime: `tell` is called once with the outcome, on a
    /// thread that has more to do, so it must be short and not block.
    pub fn submit_with(
        &self,
        submit_request: SubmitRequest,
        timeout: Option<Duration>,
        tell: impl FnOnce(Result<Reply, SubmitError>) + Send + 'static,
    ) {
        self.inner.shared.submit(submit_request, timeout, Box::new(tell));
    }

    /// A reply has come otherwise than by the log: by a line. Waiters are called on this thread.
    pub fn replied(&self, reply: Reply) {
        self.inner.shared.replied(reply);
    }

    /// How much waits at the moment.
    pub fn load(&self) -> Load {
        lock(&self.inner.shared.outstanding).load(Instant::now())
    }

    /// Who waits for the replies.
    pub fn instance(&self) -> &InstanceId {
        &self.inner.shared.instance
    }

    /// Takes no more requests, tells everyone who waits, and ends the thread.
    pub fn stop(&self) {
        self.inner.stop();
    }
}

impl Inner {
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(waker) = lock(&self.waker).take() {
            waker.wake();
        }
        let Some(thread) = lock(&self.thread).take() else { return };
        // A waiter that drops the last submitter runs on that thread, which then ends by itself.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread that reads replies panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn submit(self: &Arc<Self>, submit_request: SubmitRequest, timeout: Option<Duration>, waiter: Waiter) {
        let now = Instant::now();
        let partition = submit_request.shard.partition(self.log.partitions(Topic::Commands));
        let key = submit_request.shard.to_string().into_bytes();
        let joined = lock(&self.outstanding).join(now, &submit_request.request, waiter, timeout);
        let Err(waiter) = joined else { return };
        let SubmitRequest { shard, request, actor, command } = submit_request;
        let reply_to = Some(self.instance.clone());
        let record = CommandRecord { shard, request: Some(request.clone()), reply_to, actor, command };
        // Whoever submits a command of a higher level has asked the catalogue whether that stands.
        let value = record.encoded(record.command.level());
        let output = {
            let mut outstanding = lock(&self.outstanding);
            if self.stop.load(Ordering::SeqCst) {
                Output::Tell { waiter, result: Box::new(Err(SubmitError::Stopped)) }
            } else {
                // Another thread may have sent the same request since: then the state answers both alike.
                match outstanding.join(now, &request, waiter, timeout) {
                    Ok(()) => return,
                    Err(waiter) => outstanding.submit(now, request, (partition, key, value), waiter, timeout),
                }
            }
        };
        self.perform(vec![output]);
    }

    fn replied(self: &Arc<Self>, reply: Reply) {
        let outputs = lock(&self.outstanding).replied(reply);
        self.perform(outputs);
    }

    /// Does what the rules ask for. Called without the lock: a completion may run inside `append`.
    fn perform(self: &Arc<Self>, outputs: Vec<Output<Waiter>>) {
        for output in outputs {
            match output {
                Output::Tell { waiter, result } => waiter(*result),
                Output::Append { partition, key, value, request, number } => {
                    let shared = Arc::clone(self);
                    let done = move |result| {
                        let outputs = lock(&shared.outstanding).appended(&request, number, result);
                        shared.perform(outputs);
                    };
                    self.producer.append(Topic::Commands, partition, &key, value.to_vec(), Box::new(done));
                }
            }
        }
    }
}

struct Listener {
    shared: Arc<Shared>,
    partition: u32,
    reader: Option<Box<dyn Reader>>,
    /// The offset to go on from when the reader has to be rebuilt.
    next: Option<u64>,
}

impl Listener {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::SeqCst) {
            for record in self.poll() {
                self.next = Some(record.offset + 1);
                self.take(&record);
            }
            let outputs = lock(&self.shared.outstanding).tick(Instant::now());
            self.shared.perform(outputs);
        }
        let outputs = lock(&self.shared.outstanding).stop();
        self.shared.perform(outputs);
    }

    fn poll(&mut self) -> Vec<Record> {
        let due = lock(&self.shared.outstanding).due_at();
        let wait = due.map_or(IDLE, |due| due.saturating_duration_since(Instant::now()).min(IDLE));
        let Some(reader) = &mut self.reader else {
            std::thread::park_timeout(wait.max(Duration::from_millis(10)));
            self.reopen();
            return Vec::new();
        };
        match reader.poll(MAX_REPLIES, wait) {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot read replies; opening them again"
                );
                self.reader = None;
                Vec::new()
            }
        }
    }

    /// A reply that is missed this way comes again when its request is appended again.
    fn reopen(&mut self) {
        let log = &self.shared.log;
        let at = |from| log.reader(Topic::Replies, self.partition, from);
        let opened = match self.next {
            Some(next) => at(From::Offset(next)).or_else(|_| at(From::End)),
            None => at(From::End),
        };
        match opened {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot open the replies");
            }
        }
    }

    fn take(&self, record: &Record) {
        if record.key != self.shared.instance.as_str().as_bytes() {
            return;
        }
        match Reply::from_json(&record.value) {
            Ok(reply) => self.shared.replied(reply),
            Err(error) => tracing::warn!(offset = record.offset, %error, "a reply cannot be read; dropped"),
        }
    }
}

/// What the lock guards is never half done, so one that a panic left behind is taken over.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new request id, for a caller that names none.
pub fn request_id() -> RequestId {
    RequestId::new(id())
}

/// A new instance id; every process that waits for replies needs one of its own.
pub fn instance_id(role: &str) -> InstanceId {
    InstanceId::new(format!("{role}-{}", id()))
}

/// A UUID of version 7, so that ids of a time stand together in indexes and lists. They are no secrets.
fn id() -> String {
    Uuid::now_v7().simple().to_string()
}
