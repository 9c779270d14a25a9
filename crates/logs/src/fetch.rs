//! Asks workers for what their spools have, each by a task of its own, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tidemill_cluster::{Parts, trouble};
use tidemill_model::{
    InstanceId, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrames, ShipFrom, ShipRequest, Token,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::Source;
use crate::store::{Answer, Store, WorkerPlace};

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
/// While there is no room.
const NO_ROOM: Duration = Duration::from_millis(20);

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
    loop {
        let Parts { mine, count } = parts.borrow_and_update().clone();
        let find = Arc::clone(&workers);
        match tokio::task::spawn_blocking(move || find()).await {
            Ok(Ok(found)) => {
                let is_mine = |worker: &WorkerPlace| mine.contains(&worker.shard.partition(count));
                let found: BTreeMap<_, _> = found
                    .into_iter()
                    .filter(is_mine)
                    .map(|worker| (Arc::clone(&worker.worker), worker))
                    .collect();
                asked.retain(|id, (worker, _)| found.get(id) == Some(worker));
                fetcher.store.forget(|worker| !found.contains_key(worker));
                for (id, worker) in found {
                    asked.entry(id).or_insert_with(|| {
                        let (fetcher, place) = (fetcher.clone(), worker.clone());
                        let task = tokio::spawn(async move { fetcher.ask(&place).await });
                        (worker, Ends(task.abort_handle()))
                    });
                }
            }
            Ok(Err(reason)) => tracing::warn!(reason, "which workers there are is not known"),
            Err(error) => tracing::error!(%error, "looking for workers ended unexpectedly"),
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
    from: Vec<ShipFrom>,
    done: Vec<Token>,
}

/// How a request ended.
enum Heard {
    /// So many bytes of frames.
    Frames(usize),
    /// It knows no such request.
    OlderVersion,
}

impl Fetcher {
    async fn ask(&self, worker: &WorkerPlace) {
        let mut session = Session::default();
        let mut told: Option<String> = None;
        loop {
            let begun_at = Instant::now();
            let room = self.room().await;
            session.done.extend(self.store.take_done(&worker.worker));
            let pause = match self.exchange(worker, &mut session, room).await {
                Ok(Heard::Frames(bytes)) => {
                    told = None;
                    let has_more = bytes * 4 >= MAX_SHIPPED_AT_ONCE.min(room);
                    if has_more { Duration::ZERO } else { PACE.saturating_sub(begun_at.elapsed()) }
                }
                Ok(Heard::OlderVersion) => LOOK_FOR_NEWER,
                Err(error) => {
                    session = Session::default();
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

    /// Waits until there is room for a frame.
    async fn room(&self) -> usize {
        loop {
            let room = self.store.memory.available_permits();
            if room >= MAX_FRAME_BYTES {
                return room;
            }
            self.store.due.notify_one();
            tokio::time::sleep(NO_ROOM).await;
        }
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
            from: std::mem::take(&mut session.from),
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
            frames.extend(&chunk);
            while let Some(frame) = frames.next_frame()? {
                match self.store.take(worker, frame).await? {
                    Answer::Nothing => {}
                    Answer::From(from) => {
                        session.from.retain(|other| other.token != from.token);
                        session.from.push(from);
                    }
                    Answer::Done(token) => session.done.push(token),
                }
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
