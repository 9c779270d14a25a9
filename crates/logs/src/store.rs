//! All logs that this store has in hand: those that grow, and those that somebody has read lately.
//!
//! What workers ship is in memory until it is in a segment, and has a bound there: whoever brings more waits, and with it the
//! worker, whose spool has what follows. A worker is told that a log is done once it can be read from durable segments alone, so
//! a store that dies loses nothing that is not shipped again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_model::{GroupName, LogStream, ShardId, ShipFrame, ShipFrom, Shipped, Token};
use tokio::sync::{Notify, Semaphore};

use crate::cover::Cover;
use crate::log::{Key, Log, State, Taken};
use crate::places::Places;
use crate::segment::Close;
use crate::{Config, Error};

/// Logs that have ended and were read or written lately.
const CLOSED_MAX: usize = 1_000;
/// Attempts of late that have printed nothing.
const SILENT_MAX: usize = 50_000;

/// A worker as the read tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Its id.
    pub worker: Arc<str>,
    /// The shard that it works for: its attempts are that shard's.
    pub shard: ShardId,
    /// Its group, whose logs it brings.
    pub group: GroupName,
    /// Where it listens.
    pub address: Arc<str>,
}

pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) places: Places,
    open: Mutex<HashMap<Key, Open>>,
    closed: Mutex<Recent<Arc<Log>>>,
    silent: Mutex<Recent<()>>,
    /// A permit for each byte that may be in memory.
    pub(crate) memory: Semaphore,
    /// Something is to be flushed at once.
    pub(crate) due: Notify,
    /// By worker: what it need not ship any more.
    done: Mutex<HashMap<Arc<str>, Vec<Token>>>,
    /// In segments that are not durable yet.
    pub(crate) unsynced: Mutex<Vec<(Arc<str>, Token)>>,
}

#[derive(Clone)]
struct Open {
    log: Arc<Log>,
    worker: Arc<str>,
}

/// What is known of some logs, at most so many; the newest last.
struct Recent<T> {
    most: usize,
    known: HashMap<Key, T>,
    order: VecDeque<Key>,
}

/// What a worker is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    /// It is to go on there.
    From(ShipFrom),
    /// It need not ship it any more.
    Done(Token),
}

impl Store {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let memory = usize::try_from(config.memory_bytes()).unwrap_or(usize::MAX);
        Ok(Self {
            places: Places::open(&config)?,
            open: Mutex::default(),
            closed: Mutex::new(Recent::new(CLOSED_MAX)),
            silent: Mutex::new(Recent::new(SILENT_MAX)),
            memory: Semaphore::new(memory.min(Semaphore::MAX_PERMITS)),
            due: Notify::new(),
            done: Mutex::default(),
            unsynced: Mutex::default(),
            config,
        })
    }

    /// Takes a frame of a worker. Waits while there is no room in memory.
    ///
    /// # Errors
    /// The place cannot say what it has. The frame is to come again.
    pub(crate) async fn take(&self, from: &WorkerPlace, frame: ShipFrame) -> Result<Answer, Error> {
        let ShipFrame { token, shipped } = frame;
        if token.shard() != from.shard {
            let (worker, shard) = (&from.worker, from.shard);
            tracing::warn!(%worker, %shard, %token, "a worker ships the log of another shard's attempt; refused");
            return Ok(Answer::Nothing);
        }
        let key = Key { group: from.group.clone(), token };
        let known = self.open_log(&key, &from.worker);
        match (shipped, known) {
            (Shipped::Begun, None) => {
                self.insert(Log::new(key, State::default()), &from.worker);
                Ok(Answer::Nothing)
            }
            (Shipped::Begun | Shipped::Known, Some(log)) => Ok(from_ends(&log)),
            (Shipped::Piece { stream, offset, times, bytes }, Some(log)) => {
                Ok(self.take_piece(&log, (stream, offset), &bytes, &times).await)
            }
            (Shipped::Ended { bytes }, Some(log)) => Ok(self.end(&log, bytes)),
            (Shipped::Gone, Some(log)) => {
                self.cut(&log);
                Ok(Answer::Nothing)
            }
            (Shipped::Ended { bytes: [0, 0, 0] }, None) => {
                self.silent().keep(key, ());
                Ok(Answer::Done(token))
            }
            (Shipped::Gone, None) => Ok(Answer::Nothing),
            (Shipped::Known | Shipped::Piece { .. } | Shipped::Ended { .. }, None) => {
                self.reopen(key, &from.worker).await
            }
        }
    }

    async fn take_piece(
        &self,
        log: &Log,
        (stream, offset): (LogStream, u64),
        bytes: &[u8],
        times: &[(u64, i64)],
    ) -> Answer {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if self.memory.available_permits() < bytes.len() {
            self.due.notify_one();
        }
        // A store that ends closes nothing: whoever waits is dropped.
        let Ok(permits) = self.memory.acquire_many(length).await else { return Answer::Nothing };
        permits.forget();
        let taken = log.state().take(stream, offset, bytes, times);
        let new = if let Taken::New(new) = taken { new } else { 0 };
        self.memory.add_permits(bytes.len() - new);
        if new > 0 {
            log.notify();
        }
        if taken == Taken::Gap { from_ends(log) } else { Answer::Nothing }
    }

    fn end(&self, log: &Log, bytes: [u64; 3]) -> Answer {
        let mut state = log.state();
        if !state.end(bytes) {
            drop(state);
            return from_ends(log);
        }
        if state.is_empty() {
            drop(state);
            self.remove(&log.key);
            self.silent().keep(log.key.clone(), ());
            log.notify();
            return Answer::Done(log.key.token);
        }
        drop(state);
        self.due.notify_one();
        log.notify();
        Answer::Nothing
    }

    fn cut(&self, log: &Log) {
        let mut state = log.state();
        state.cut();
        let is_empty = state.is_empty();
        drop(state);
        tracing::warn!(token = %log.key.token, group = %log.key.group, "a worker has lost the rest of a log");
        if is_empty {
            self.remove(&log.key);
        }
        self.due.notify_one();
        log.notify();
    }

    /// One that another life of this store, or another store, may have begun.
    async fn reopen(&self, key: Key, worker: &Arc<str>) -> Result<Answer, Error> {
        let token = key.token;
        let found = self.places.find(&key).await?;
        let state = state_of(Cover::new(found.segments)).await?;
        if state.close != Close::Open {
            return Ok(Answer::Done(token));
        }
        // What an earlier place has is not gone on with: its worker has all of it.
        let log = Log::new(key, if found.is_current { state } else { State::default() });
        let answer = from_ends(&log);
        self.insert(log, worker);
        Ok(answer)
    }

    fn insert(&self, log: Arc<Log>, worker: &Arc<str>) {
        self.opened().insert(log.key.clone(), Open { log, worker: Arc::clone(worker) });
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_log(&self, key: &Key, worker: &Arc<str>) -> Option<Arc<Log>> {
        let mut open = self.opened();
        let open = open.get_mut(key)?;
        // After a reboot another worker has what the one before left.
        if open.worker != *worker {
            open.worker = Arc::clone(worker);
        }
        Some(Arc::clone(&open.log))
    }

    fn remove(&self, key: &Key) -> Option<Open> {
        self.opened().remove(key)
    }

    /// Those that grow.
    pub(crate) fn open_logs(&self) -> Vec<Arc<Log>> {
        self.opened().values().map(|open| Arc::clone(&open.log)).collect()
    }

    /// A log that is in segments as a whole.
    pub(crate) fn close(&self, log: &Arc<Log>) {
        let Some(Open { worker, .. }) = self.remove(&log.key) else { return };
        self.closed().keep(log.key.clone(), Arc::clone(log));
        let done = (worker, log.key.token);
        if self.places.current.sync_every().is_some() {
            self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        } else {
            self.tell_done(vec![done]);
        }
    }

    pub(crate) fn tell_done(&self, closed: Vec<(Arc<str>, Token)>) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        for (worker, token) in closed {
            done.entry(worker).or_default().push(token);
        }
    }

    /// What a worker is to be told once. If the word is lost, the worker asks again.
    pub(crate) fn take_done(&self, worker: &Arc<str>) -> Vec<Token> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.remove(worker).unwrap_or_default()
    }

    /// Nothing comes of these workers any more: their attempts are another store's.
    pub(crate) fn forget(&self, is_of: impl Fn(&str) -> bool) {
        let mut open = self.opened();
        open.retain(|_, open| {
            let goes = is_of(&open.worker);
            if goes {
                self.memory.add_permits(open.log.state().forget());
            }
            !goes
        });
    }

    /// The log of an attempt; nothing, where this store has nothing of it.
    ///
    /// # Errors
    /// The place cannot say what it has.
    pub(crate) async fn find(&self, key: &Key) -> Result<Option<Arc<Log>>, Error> {
        if let Some(open) = self.opened().get(key) {
            return Ok(Some(Arc::clone(&open.log)));
        }
        if let Some(log) = self.closed().known.get(key) {
            return Ok(Some(Arc::clone(log)));
        }
        if self.silent().known.contains_key(key) {
            return Ok(Some(Log::new(key.clone(), State::silent())));
        }
        let found = self.places.find(key).await?;
        if found.segments.is_empty() {
            return Ok(None);
        }
        let log = Log::new(key.clone(), state_of(Cover::new(found.segments)).await?);
        if log.state().close != Close::Open {
            self.closed().keep(key.clone(), Arc::clone(&log));
        }
        Ok(Some(log))
    }

    /// Looks again which segments a log has, after one was gone.
    ///
    /// # Errors
    /// The place cannot say what it has.
    pub(crate) async fn look_again(&self, log: &Log) -> Result<(), Error> {
        let cover = Cover::new(self.places.find(&log.key).await?.segments);
        let mut state = log.state();
        let is_enough = cover.ends().iter().zip(&state.tails).all(|(end, tail)| *end >= tail.begin);
        if is_enough {
            state.cover = cover;
        } else {
            drop(state);
            self.closed().forget(&log.key);
        }
        Ok(())
    }

    fn closed(&self) -> MutexGuard<'_, Recent<Arc<Log>>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, Recent<()>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its segments are removed.
    pub(crate) fn removed(&self, key: &Key) {
        self.closed().forget(key);
    }

    /// Whether it grows here.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.opened().contains_key(key)
    }
}

impl<T> Recent<T> {
    fn new(most: usize) -> Self {
        Self { most, known: HashMap::new(), order: VecDeque::new() }
    }

    fn keep(&mut self, key: Key, what: T) {
        if self.known.insert(key.clone(), what).is_some() {
            self.order.retain(|other| *other != key);
        }
        self.order.push_back(key);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn forget(&mut self, key: &Key) {
        if self.known.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

fn from_ends(log: &Log) -> Answer {
    Answer::From(ShipFrom { token: log.key.token, offsets: log.state().ends() })
}

/// A log of which there are these segments.
async fn state_of(cover: Cover) -> Result<State, Error> {
    let mut lines = [0; 3];
    for stream in LogStream::ALL {
        if let Some(last) = cover.extents(stream).last() {
            let footer = last.segment.footer().await?.of(stream);
            lines[stream.index()] = footer.lines_before + footer.lines;
        }
    }
    Ok(State::new(cover, lines))
}
