//! All logs that this store has in hand: those that grow, and those that somebody has read lately.
//!
//! What workers ship is in memory until it is in a segment, and has a bound there: whoever brings more waits, and with it the
//! worker, whose spool has what follows. A worker is told that a log is done once it can be read from durable segments alone, so
//! a store that dies loses nothing that is not shipped again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_model::{LogStream, ShipFrame, ShipFrom, Shipped, Token};
use tokio::sync::{Notify, Semaphore};

use crate::cover::Cover;
use crate::durable::{Closed, Unsynced};
use crate::finding::state_of;
use crate::log::{Key, Log, State, Taken};
use crate::places::Places;
use crate::recent::Recent;
use crate::segment::Close;
use crate::worker::WorkerPlace;
use crate::{Config, Error};

/// Logs that have ended and were read or written lately.
const CLOSED_MAX: usize = 1_000;
/// Attempts of late that have printed nothing.
const SILENT_MAX: usize = 50_000;

pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) places: Places,
    open: Mutex<HashMap<Key, Open>>,
    closed: Mutex<Recent<Arc<Log>>>,
    silent: Mutex<Recent<()>>,
    /// Logs whose segments are being removed.
    going: Mutex<HashSet<Key>>,
    /// A permit for each byte that may be in memory.
    pub(crate) memory: Semaphore,
    /// Something is to be flushed at once.
    pub(crate) due: Notify,
    /// By worker: what it need not ship any more.
    done: Mutex<HashMap<Arc<str>, Vec<Token>>>,
    pub(crate) unsynced: Unsynced,
    /// Counts how often what was agreed with workers has become void.
    agreements: AtomicU64,
}

#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) log: Arc<Log>,
    worker: Arc<str>,
    /// It ends where it is because its worker's host is given up; the worker itself has not said so, and may have the rest.
    is_given_up: bool,
}

/// What a worker is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    /// It is to go on there.
    From(ShipFrom),
    /// It need not ship it any more.
    Done(Token),
    /// It cannot be said at the moment what there is of it.
    Later(Token),
}

impl Store {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let memory = usize::try_from(config.memory_bytes()).unwrap_or(usize::MAX);
        Ok(Self {
            places: Places::open(&config)?,
            open: Mutex::default(),
            closed: Mutex::new(Recent::new(CLOSED_MAX)),
            silent: Mutex::new(Recent::new(SILENT_MAX)),
            going: Mutex::default(),
            memory: Semaphore::new(memory.min(Semaphore::MAX_PERMITS)),
            due: Notify::new(),
            done: Mutex::default(),
            unsynced: Unsynced::default(),
            agreements: AtomicU64::new(0),
            config,
        })
    }

    /// Takes a frame of a worker. Waits while there is no room in memory.
    pub(crate) async fn take(&self, from: &WorkerPlace, frame: ShipFrame) -> Answer {
        let ShipFrame { token, shipped } = frame;
        let Some((_, group)) = from.groups.iter().find(|(shard, _)| *shard == token.shard()) else {
            tracing::warn!(worker = %from.worker, %token, "a worker ships the log of another shard's attempt; refused");
            return Answer::Nothing;
        };
        let key = Key { group: group.clone(), token };
        let known = match self.open_log(&key, &from.worker) {
            // Its worker comes again: once it is closed, it is opened again.
            Some(open) if open.is_given_up => return Answer::Later(token),
            open => open.map(|open| open.log),
        };
        match (shipped, known) {
            (Shipped::Begun, None) => {
                self.insert(Log::new(key, State::default()), &from.worker);
                Answer::Nothing
            }
            (Shipped::Begun | Shipped::Known, Some(log)) => from_ends(&log),
            (Shipped::Piece { stream, offset, times, bytes }, Some(log)) => {
                self.take_piece(&log, (stream, offset), &bytes, &times).await
            }
            (Shipped::Ended { bytes }, Some(log)) => self.end(&log, bytes),
            (Shipped::Gone, Some(log)) => {
                tracing::warn!(%token, group = %log.key.group, "a worker has lost the rest of a log");
                self.cut(&log);
                Answer::Nothing
            }
            (Shipped::Ended { bytes: [0, 0, 0] }, None) => {
                self.silent().keep(key, ());
                Answer::Done(token)
            }
            (Shipped::Gone, None) => Answer::Nothing,
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

    fn end(&self, log: &Arc<Log>, bytes: [u64; 3]) -> Answer {
        let mut state = log.state();
        if !state.end(bytes) {
            drop(state);
            return from_ends(log);
        }
        let is_silent = state.is_empty();
        drop(state);
        if is_silent {
            self.remove(log);
            self.silent().keep(log.key.clone(), ());
            log.notify();
            return Answer::Done(log.key.token);
        }
        self.due.notify_one();
        log.notify();
        Answer::Nothing
    }

    /// Nothing more of it comes.
    fn cut(&self, log: &Arc<Log>) {
        let mut state = log.state();
        state.cut();
        let is_empty = state.is_empty();
        drop(state);
        if is_empty {
            self.remove(log);
        }
        self.due.notify_one();
        log.notify();
    }

    /// The hosts of these workers are given up: what came of their logs is kept, and that the rest is lost.
    pub(crate) fn cut_all(&self, is_gone: impl Fn(&str) -> bool) {
        let is_cut = |open: &&mut Open| is_gone(&open.worker) && open.log.state().close == Close::Open;
        let give_up = |open: &mut Open| {
            open.is_given_up = true;
            open.clone()
        };
        let logs: Vec<_> = self.opened().values_mut().filter(is_cut).map(give_up).collect();
        for Open { log, worker, .. } in logs {
            tracing::warn!(%worker, token = %log.key.token, "the rest of a log is lost with its worker's host");
            self.cut(&log);
        }
    }

    /// One that another life of this store, or another store, may have begun.
    pub(crate) async fn reopen(&self, key: Key, worker: &Arc<str>) -> Answer {
        let token = key.token;
        if self.going().contains(&key) {
            return Answer::Later(token);
        }
        let state = match self.state_in_place(&key).await {
            Ok(state) => state,
            Err(error) => {
                tracing::info!(%token, error = &error as &dyn std::error::Error, "what is kept of a log cannot be said; tried again");
                return Answer::Later(token);
            }
        };
        if state.close != Close::Ended {
            return self.insert(Log::new(key, state.again()), worker);
        }
        if self.places.current.sync_every().is_some() {
            // Another life has written it, and may not have made it durable.
            self.unsynced.wrote(&key);
            self.unsynced.closed((Arc::clone(worker), token));
            return Answer::Nothing;
        }
        Answer::Done(token)
    }

    /// What the place that is written to has of a log; all there is, where that is whole.
    async fn state_in_place(&self, key: &Key) -> Result<State, Error> {
        let found = self.places.find(key).await?;
        let all = Cover::of_good(found.all).await?;
        if all.close() == Close::Ended {
            return state_of(all).await;
        }
        // What an earlier place has is not gone on with: its worker has all of it.
        state_of(Cover::of_good(found.current).await?).await
    }

    /// Keeps one that is there already. Gives where to go on.
    fn insert(&self, log: Arc<Log>, worker: &Arc<str>) -> Answer {
        let mut opened = self.opened();
        let open = opened.entry(log.key.clone()).or_insert_with(|| Open {
            log,
            worker: Arc::clone(worker),
            is_given_up: false,
        });
        from_ends(&open.log)
    }

    pub(crate) fn opened(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_log(&self, key: &Key, worker: &Arc<str>) -> Option<Open> {
        let mut open = self.opened();
        let open = open.get_mut(key)?;
        // After a reboot another worker has what the one before left.
        if open.worker != *worker {
            open.worker = Arc::clone(worker);
        }
        Some(open.clone())
    }

    /// That very log, and no later one of its name.
    fn remove(&self, log: &Arc<Log>) -> Option<Open> {
        let mut opened = self.opened();
        let is_it = opened.get(&log.key).is_some_and(|open| Arc::ptr_eq(&open.log, log));
        if is_it { opened.remove(&log.key) } else { None }
    }

    /// Those that grow.
    pub(crate) fn open_logs(&self) -> Vec<Arc<Log>> {
        self.opened().values().map(|open| Arc::clone(&open.log)).collect()
    }

    /// A log has a new segment.
    pub(crate) fn wrote(&self, key: &Key) {
        if self.places.current.sync_every().is_some() {
            self.unsynced.wrote(key);
        }
    }

    /// A log that is in segments as a whole.
    pub(crate) fn close(&self, log: &Arc<Log>) {
        let Some(Open { worker, is_given_up, .. }) = self.remove(log) else { return };
        self.closed().keep(log.key.clone(), Arc::clone(log));
        if is_given_up {
            // A worker that comes again keeps what it has until all of it is here.
            return;
        }
        let done = (worker, log.key.token);
        if self.places.current.sync_every().is_some() {
            self.unsynced.closed(done);
        } else {
            self.tell_done(vec![done]);
        }
    }

    pub(crate) fn tell_done(&self, closed: Vec<Closed>) {
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
        self.opened().retain(|_, open| {
            let goes = is_of(&open.worker);
            if goes {
                self.memory.add_permits(open.log.state().forget());
            }
            !goes
        });
        self.done.lock().unwrap_or_else(PoisonError::into_inner).retain(|worker, _| !is_of(worker));
    }

    /// What was written of these logs may not be there: it is removed, and workers are asked for all of it again.
    pub(crate) async fn distrust(&self, keys: HashSet<Key>) -> Result<(), Error> {
        for key in keys {
            if let Some(open) = self.opened().remove(&key) {
                self.memory.add_permits(open.log.state().forget());
            }
            self.closed().forget(&key);
            for segment in self.places.find(&key).await?.current {
                segment.remove().await?;
            }
        }
        self.agreements.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// With another number than before, what was agreed with a worker counts no more.
    pub(crate) fn agreement(&self) -> u64 {
        self.agreements.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> MutexGuard<'_, Recent<Arc<Log>>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn silent(&self) -> MutexGuard<'_, Recent<()>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn going(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its segments are to be removed; not, while it grows here. Nobody goes on with it until [`Self::removed`].
    pub(crate) fn begin_removal(&self, key: &Key) -> bool {
        let opened = self.opened();
        !opened.contains_key(key) && self.going().insert(key.clone())
    }

    pub(crate) fn removed(&self, key: &Key) {
        self.closed().forget(key);
        self.going().remove(key);
    }
}

fn from_ends(log: &Log) -> Answer {
    Answer::From(ShipFrom { token: log.key.token, offsets: log.state().ends() })
}
