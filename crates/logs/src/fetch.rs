//! Asks workers for what their spools have, each by a task of its own, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tidemill_cluster::{Parts, trouble};
use tidemill_model::{
    InstanceId, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrame, ShipFrames, ShipFrom, ShipRequest, Shipped,
    Token,
};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::error::Source;
use crate::store::{Answer, Store};
use crate::worker::{WorkerPlace, WorkerState};

/// The workers that there are; may block for some seconds. An error says why they are not known at the moment.
pub type Workers = Arc<dyn Fn() -> Result<Vec<WorkerPlace>, String> + Send + Sync>;

/// How often it is looked for new workers.
const LOOK: Duration = Duration::from_secs(1);
/// How long a worker that has nothing new waits with its answer.
const WAIT_MS: u64 = 5_000;
/// A worker is not asked more often, unless it had much.
const PACE: Duration = Duration::from_millis(100);
/// After an error.
const PAUSE: Duration = Duration::from_secs(1);
/// A worker of an older version ships nothing; perhaps it is upgraded.
const LOOK_FOR_NEWER: Duration = Duration::from_secs(60);
/// The longest answer: the most output, a frame more, and heads of frames.
const ANSWER_MAX: usize = 4 * MAX_SHIPPED_AT_ONCE;

/// How workers are asked.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) client: reqwest::Client,
    pub(crate) scheme: &'static str,
    pub(crate) logs_key: Arc<str>,
    pub(crate) instance: InstanceId,
    pub(crate) store: Arc<Store>,
}

/// Ends a task with it.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks the workers of the partitions that are this store's, until it is dropped.
pub(crate) async fn fetch(fetcher: Fetcher, workers: Workers, mut parts: watch::Receiver<Parts>) {
    let mut asked: BTreeMap<Arc<str>, (WorkerPlace, Ends)> = BTreeMap::new();
    let mut looking: Option<JoinHandle<Result<Vec<WorkerPlace>, String>>> = None;
    loop {
        let Parts { mine, count } = parts.borrow_and_update().clone();
        let is_mine = |worker: &WorkerPlace| mine.contains(&worker.shard.partition(count));
        asked.retain(|_, (worker, _)| is_mine(worker));
        let looks = looking.get_or_insert_with(|| {
            let find = Arc::clone(&workers);
            tokio::task::spawn_blocking(move || find())
        });
        tokio::select! {
            found = looks => {
                looking = None;
                match found {
                    Ok(Ok(found)) => {
                        let found = found.into_iter().filter(is_mine);
                        fetcher.ask_all(&mut asked, found.map(|worker| (Arc::clone(&worker.worker), worker)).collect());
                    }
                    Ok(Err(reason)) => tracing::warn!(reason, "which workers there are is not known"),
                    Err(error) => tracing::error!(%error, "looking for workers ended unexpectedly"),
                }
            }
            // Tables that do not answer keep no store from what it has to leave.
            changed = parts.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            changed = parts.changed() => if changed.is_err() { return },
        }
    }
}

/// What is agreed with a worker.
#[derive(Default)]
struct Session {
    turn: u64,
    from: BTreeMap<Token, ShipFrom>,
    done: Vec<Token>,
    /// What the place has of these could not be said.
    later: BTreeSet<Token>,
    /// As the store counted when it began.
    agreement: u64,
}

impl Session {
    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Nothing => {}
            Answer::From(from) => {
                self.from.insert(from.token, from);
            }
            Answer::Done(token) => self.done.push(token),
            Answer::Later(token) => {
                self.later.insert(token);
            }
        }
    }
}

/// How a request ended.
enum Heard {
    /// So many bytes of frames.
    Frames(usize),
    /// It knows no such request.
    OlderVersion,
}

impl Fetcher {
    /// Asks those that may be there, each at an address of its own; what the others brought is kept as far as it came.
    fn ask_all(
        &self,
        asked: &mut BTreeMap<Arc<str>, (WorkerPlace, Ends)>,
        found: BTreeMap<Arc<str>, WorkerPlace>,
    ) {
        let is_asked = |worker: &&WorkerPlace| worker.state == WorkerState::There;
        asked.retain(|id, (worker, _)| found.get(id).filter(is_asked) == Some(worker));
        self.store.forget(|worker| !found.contains_key(worker));
        self.store.cut_all(|worker| found.get(worker).is_some_and(|found| found.state == WorkerState::Gone));
        for (id, worker) in found.into_iter().filter(|(_, worker)| is_asked(&worker)) {
            asked.entry(id).or_insert_with(|| {
                let (fetcher, place) = (self.clone(), worker.clone());
                let task = tokio::spawn(async move { fetcher.ask(&place).await });
                (worker, Ends(task.abort_handle()))
            });
        }
    }

    async fn ask(&self, worker: &WorkerPlace) {
        let mut session = self.session();
        let mut told: Option<String> = None;
        loop {
            let begun_at = Instant::now();
            let room = self.room().await;
            if session.agreement != self.store.agreement() {
                session = self.session();
            }
            self.look_again(worker, &mut session).await;
            session.done.extend(self.store.take_done(&worker.worker));
            let pause = match self.exchange(worker, &mut session, room).await {
                Ok(Heard::Frames(bytes)) => {
                    told = None;
                    let has_more = bytes >= MAX_FRAME_BYTES;
                    if has_more { Duration::ZERO } else { PACE.saturating_sub(begun_at.elapsed()) }
                }
                Ok(Heard::OlderVersion) => LOOK_FOR_NEWER,
                Err(error) => {
                    session = self.session();
                    let why = error.to_string();
                    if told.as_ref() != Some(&why) {
                        let (id, address) = (&worker.worker, &worker.address);
                        tracing::info!(worker = %id, address = %address, "a worker's logs cannot be had, which is tried again: {why}");
                        told = Some(why);
                    }
                    PAUSE
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn session(&self) -> Session {
        Session { agreement: self.store.agreement(), ..Session::default() }
    }

    /// Asks the place again for what it could not say.
    async fn look_again(&self, worker: &WorkerPlace, session: &mut Session) {
        for token in std::mem::take(&mut session.later) {
            let answer = self.store.take(worker, ShipFrame::new(token, Shipped::Known)).await;
            session.hear(answer);
        }
    }

    /// Waits until there is room for a frame.
    async fn room(&self) -> usize {
        if self.store.memory.available_permits() < MAX_FRAME_BYTES {
            self.store.due.notify_one();
        }
        let frame = u32::try_from(MAX_FRAME_BYTES).expect("frames are short");
        // It is given back at once: each frame has its own.
        drop(self.store.memory.acquire_many(frame).await);
        self.store.memory.available_permits().max(MAX_FRAME_BYTES)
    }

    /// One request, and what its answer brings.
    async fn exchange(
        &self,
        worker: &WorkerPlace,
        session: &mut Session,
        room: usize,
    ) -> Result<Heard, Source> {
        let request = ShipRequest {
            store: self.instance.clone(),
            turn: session.turn,
            from: std::mem::take(&mut session.from).into_values().collect(),
            done: std::mem::take(&mut session.done),
            wait_ms: WAIT_MS,
            room_bytes: room as u64,
        };
        let url = format!("{}://{}/output", self.scheme, worker.address);
        let request = self.client.post(url).bearer_auth(&self.logs_key).json(&request);
        let mut answer = request.send().await.map_err(plain)?;
        match answer.status() {
            status if status.is_success() => {}
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Ok(Heard::OlderVersion),
            status => return Err(format!("it answers {status}").into()),
        }
        let (mut frames, mut bytes) = (ShipFrames::default(), 0);
        while let Some(chunk) = answer.chunk().await.map_err(plain)? {
            bytes += chunk.len();
            if bytes > ANSWER_MAX {
                return Err("its answer is longer than it was asked for".into());
            }
            frames.extend(&chunk);
            while let Some(frame) = frames.next_frame()? {
                let answer = self.store.take(worker, frame).await;
                session.hear(answer);
            }
        }
        frames.end()?;
        session.turn += 1;
        Ok(Heard::Frames(bytes))
    }
}

fn plain(error: reqwest::Error) -> Source {
    let error = error.without_url();
    match trouble(&error) {
        Some(why) => why.into(),
        None => error.into(),
    }
}
