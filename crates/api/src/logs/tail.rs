//! Follows the log of a batch, attempt after attempt (LOG-2).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use serde::Serialize;
use tidemill_model::{BatchId, BatchState, LogChunk, LogChunks, LogOffsets, LogStream, Token};
use tidemill_store::rows::AttemptRow;
use tokio::sync::watch::error::RecvError;

use super::attempt::{AtWorker, AttemptLog, read_batch, stores};
use super::event_id::EventId;
use crate::Problem;
use crate::app::App;
use crate::log_stores::Kept;
use crate::object::Object;
use crate::standing::Standing;
use crate::turns::Turn;
use crate::view::batch_state;

/// Between two looks at the tables for the next attempt, and two questions for what is not there yet.
const PAUSE: Duration = Duration::from_millis(500);
/// While a store waits for more, rights and the store's place are looked at again so often.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// An answer without anything that came sooner was not waited for.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Where the attempt has ended and nobody answers for its log, that is asked for again for so long.
const ASKS_FOR: Duration = Duration::from_secs(10);
/// After so many chunks of other streams, or so long where there are any, a reader is told how far they have come.
const PROGRESS_CHUNKS: u32 = 1_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Where to begin.
pub(crate) enum TailFrom {
    /// With the first attempt after that of this number.
    After(u64),
    /// At the present end of this one.
    EndOf(AttemptRow),
    /// Within an attempt of which a reader knows a part.
    Within(AttemptRow, LogOffsets),
}

/// The output of an attempt begins.
#[derive(Serialize)]
struct Begins {
    attempt: u64,
    token: Token,
}

/// The log of an attempt is not complete (`cut`), or nothing is kept of it (`gone`).
#[derive(Serialize)]
struct Incomplete {
    attempt: u64,
}

#[derive(Serialize)]
struct Chunk<'c> {
    attempt: u64,
    #[serde(flatten)]
    chunk: &'c LogChunk,
}

#[derive(Serialize)]
struct End {
    result: Option<String>,
}

/// What comes next will begin there.
#[derive(Serialize)]
struct Progress {}

/// An attempt that is followed.
struct Followed {
    attempt: u64,
    log: Arc<AttemptLog>,
    offsets: LogOffsets,
}

enum At {
    /// Behind the attempt of this number, of which that was told last.
    After(u64, Option<EventId>),
    In(Followed),
    Over,
}

impl At {
    fn behind(id: EventId) -> Self {
        Self::After(id.attempt, Some(id))
    }
}

/// What stores know of the log of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// They keep some of it.
    Some,
    /// They keep nothing of it.
    Nothing,
    /// One that may keep it does not answer, or cannot read it.
    Nobody,
}

/// What came of a question.
enum Heard {
    Answer(Kept<LogChunks>),
    /// Another store has to be asked, or nobody any more.
    Nothing,
}

/// One reader's tail of a batch.
pub(crate) struct Tail {
    app: Arc<App>,
    standing: Standing,
    batch: BatchId,
    object: Object,
    /// Only this stream.
    stream: Option<LogStream>,
    at: At,
    /// Not sent yet.
    ready: VecDeque<Event>,
    /// When the reader was told last how far it has come.
    told_at: Instant,
    /// Chunks that came since then, and were not for it.
    left_out: u32,
    /// Since when nobody answers for the log.
    unanswered: Option<Instant>,
    _open: Turn,
}

impl Tail {
    /// Of a batch. `open` is its place among answers that go on.
    ///
    /// # Errors
    /// There is no store that could be asked.
    pub(crate) async fn begin(
        app: Arc<App>,
        standing: Standing,
        (batch, object): (BatchId, Object),
        (from, stream): (TailFrom, Option<LogStream>),
        open: Turn,
    ) -> Result<Self, Problem> {
        stores(&app)?;
        let mut tail = Self {
            app,
            standing,
            batch,
            object,
            stream,
            at: At::Over,
            ready: VecDeque::new(),
            told_at: Instant::now(),
            left_out: 0,
            unanswered: None,
            _open: open,
        };
        tail.at = match from {
            TailFrom::After(attempt) => At::After(attempt, None),
            TailFrom::EndOf(row) => {
                let log = AttemptLog::of(&tail.app, &row).await?;
                let offsets = match stores(&tail.app)?.summary(&log.name).await? {
                    Some(kept) => LogOffsets {
                        stdout: kept.stdout.bytes,
                        stderr: kept.stderr.bytes,
                        worker: kept.worker.bytes,
                    },
                    None => LogOffsets::default(),
                };
                tail.follow(&row, log, offsets)
            }
            TailFrom::Within(row, offsets) => {
                let log = Arc::new(AttemptLog::of(&tail.app, &row).await?);
                At::In(Followed { attempt: row.attempt.cast_unsigned(), log, offsets })
            }
        };
        Ok(tail)
    }

    /// The next event; `None`: the stream ends, with its batch, its key, or the program.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        while !self.is_stopping() {
            self.look().await?;
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &self.at {
                At::After(attempt, last) => self.find_next(*attempt, *last).await,
                At::In(_) => self.read_more().await?,
                At::Over => return None,
            }
        }
        None
    }

    fn is_stopping(&self) -> bool {
        *self.app.stopping.borrow()
    }

    /// Looks at the rights again now and then.
    async fn look(&mut self) -> Option<()> {
        let may = self.standing.still_reads_logs(&mut self.object).await;
        may.inspect_err(|problem| {
            let app = self.standing.caller().holder();
            tracing::info!(%app, "a tail of key {app} ends: {}", problem.detail);
        })
        .ok()
    }

    /// Ends when the program stops.
    ///
    /// # Errors
    /// Nobody can stop it.
    fn stops(&self) -> impl Future<Output = Result<(), RecvError>> + Send + use<> {
        let mut stopping = self.app.stopping.clone();
        async move { stopping.wait_for(|stopping| *stopping).await.map(drop) }
    }

    async fn nap(&self) {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            Ok(()) = self.stops() => {}
        }
    }

    /// Looks for the attempt after this one; where there is none and will be none, the batch has ended.
    async fn find_next(&mut self, number: u64, last: Option<EventId>) {
        let found = read_batch(&self.app, self.batch).await;
        let (batch, attempts) = match found {
            Ok(found) => found,
            Err(problem) => return self.later(&problem).await,
        };
        let is_later = |row: &AttemptRow| row.attempt.cast_unsigned() > number;
        match attempts.into_iter().find(is_later) {
            Some(row) => match AttemptLog::of(&self.app, &row).await {
                Ok(log) => self.at = self.follow(&row, log, LogOffsets::default()),
                Err(problem) => self.later(&problem).await,
            },
            None if batch_state(&batch) == BatchState::Finished => {
                let result = batch.result.as_deref().map(str::to_owned);
                self.tell("end", last, &End { result });
                self.at = At::Over;
            }
            None => self.nap().await,
        }
    }

    async fn later(&self, problem: &Problem) {
        tracing::debug!(batch = %self.batch, "a tail waits: {}", problem.detail);
        self.nap().await;
    }

    /// Says that an attempt begins.
    fn follow(&mut self, row: &AttemptRow, log: AttemptLog, offsets: LogOffsets) -> At {
        let attempt = row.attempt.cast_unsigned();
        self.tell("attempt", Some(EventId { attempt, offsets }), &Begins { attempt, token: Token(row.id) });
        At::In(Followed { attempt, log: Arc::new(log), offsets })
    }

    fn tell(&mut self, kind: &str, id: Option<EventId>, said: &impl Serialize) {
        let event = match id {
            Some(id) => {
                (self.told_at, self.left_out) = (Instant::now(), 0);
                Event::default().id(id.to_string())
            }
            None => Event::default(),
        };
        let json = serde_json::to_string(said).expect("plain data");
        self.ready.push_back(event.event(kind).data(json));
    }

    /// Asks for more of the attempt, and goes on where there is none.
    async fn read_more(&mut self) -> Option<()> {
        let At::In(Followed { attempt, log, offsets }) = &self.at else { return Some(()) };
        let (attempt, log, offsets) = (*attempt, Arc::clone(log), *offsets);
        let asked_at = Instant::now();
        let (known, is_empty) = match self.ask(&log, offsets).await? {
            Heard::Answer(Ok(Some(chunks))) => {
                let (is_end, is_empty) = (chunks.is_end, chunks.chunks.is_empty());
                let is_cut = is_end && chunks.is_cut;
                let offsets = self.tell_chunks(EventId { attempt, offsets }, chunks);
                if is_cut {
                    self.tell("cut", Some(EventId { attempt, offsets }), &Incomplete { attempt });
                }
                self.at = match is_end {
                    true => At::behind(EventId { attempt, offsets }),
                    false => At::In(Followed { attempt, log, offsets }),
                };
                (Known::Some, is_empty && !is_end)
            }
            Heard::Answer(Ok(None)) => (Known::Nothing, true),
            Heard::Answer(Err(problem)) => {
                tracing::debug!(batch = %self.batch, "a tail waits: {}", problem.detail);
                (Known::Nobody, true)
            }
            Heard::Nothing => return Some(()),
        };
        self.unanswered = (known == Known::Nobody).then(|| self.unanswered.unwrap_or(asked_at));
        if is_empty
            && !self.goes_on(EventId { attempt, offsets }, known).await
            && (known == Known::Nobody || asked_at.elapsed() < AT_ONCE)
        {
            self.nap().await;
        }
        Some(())
    }

    /// What a store answers; `None`: the reader may not read it any more.
    async fn ask(&mut self, log: &Arc<AttemptLog>, offsets: LogOffsets) -> Option<Heard> {
        let owner = stores(&self.app).ok()?.owner(&log.name).await;
        let (app, asked) = (Arc::clone(&self.app), Arc::clone(log));
        let mut answer = Box::pin(async move { asked.chunks(&app, offsets).await });
        loop {
            tokio::select! {
                answer = &mut answer => return Some(Heard::Answer(answer)),
                Ok(()) = self.stops() => return Some(Heard::Nothing),
                () = tokio::time::sleep(LOOKS_EVERY) => {
                    self.look().await?;
                    let present = stores(&self.app).ok()?.owner(&log.name).await;
                    // One that has it no more would wait for what another one gets.
                    if present.is_some() && present != owner {
                        return Some(Heard::Nothing);
                    }
                }
            }
        }
    }

    /// Tells the chunks, and where they end.
    fn tell_chunks(&mut self, mut id: EventId, mut answer: LogChunks) -> LogOffsets {
        let mut ends = answer.offsets;
        let mut told = Vec::with_capacity(answer.chunks.len());
        // A chunk ends where the next one of its stream begins; what is shown of it may be longer or shorter than its bytes.
        while let Some(chunk) = answer.chunks.pop() {
            let end = std::mem::replace(ends.of(chunk.stream), chunk.offset);
            told.push((chunk, end));
        }
        while let Some((chunk, end)) = told.pop() {
            *id.offsets.of(chunk.stream) = end;
            if self.stream.is_none_or(|stream| stream == chunk.stream) {
                self.tell("chunk", Some(id), &Chunk { attempt: id.attempt, chunk: &chunk });
                continue;
            }
            self.left_out += 1;
            if self.left_out >= PROGRESS_CHUNKS {
                self.tell("progress", Some(id), &Progress {});
            }
        }
        if self.left_out > 0 && self.told_at.elapsed() >= PROGRESS_EVERY {
            self.tell("progress", Some(id), &Progress {});
        }
        // A store that has less than the reader was told sends nobody back.
        for stream in LogStream::ALL {
            let (told, end) = (*id.offsets.of(stream), answer.offsets.of(stream));
            *end = told.max(*end);
        }
        answer.offsets
    }

    /// There is nothing more at the moment. Where nothing more is to be expected, says so and goes on to the next attempt.
    async fn goes_on(&mut self, id: EventId, known: Known) -> bool {
        let Ok((_, attempts)) = read_batch(&self.app, self.batch).await else { return false };
        let row = attempts.iter().find(|row| row.attempt.cast_unsigned() == id.attempt);
        let Some(row) = row.filter(|row| row.finished_at.is_some()) else { return false };
        let Ok(log) = AttemptLog::of(&self.app, row).await else { return false };
        // Of what was told already, the worker does not say that it was nothing.
        let is_kept = known == Known::Some || id.offsets != LogOffsets::default();
        let at_worker = if is_kept { AtWorker::MayCome } else { log.at_worker(&self.app).await };
        let may_answer = self.unanswered.is_some_and(|since| since.elapsed() < ASKS_FOR);
        let incomplete = Incomplete { attempt: id.attempt };
        match at_worker {
            AtWorker::Silent => {}
            AtWorker::Nothing if known == Known::Nothing => self.tell("gone", Some(id), &incomplete),
            AtWorker::Nothing | AtWorker::MayCome if log.is_given_up() && !may_answer => {
                self.tell("cut", Some(id), &incomplete);
            }
            AtWorker::Nothing | AtWorker::MayCome => return false,
        }
        self.unanswered = None;
        self.at = At::behind(id);
        true
    }
}
