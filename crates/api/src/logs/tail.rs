//! Follows the log of a batch, attempt after attempt (LOG-2).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use serde::Serialize;
use tidemill_model::{BatchId, BatchState, LogChunk, LogChunks, LogOffsets, LogStream, Token};
use tidemill_store::rows::AttemptRow;
use tokio::sync::watch::error::RecvError;

use super::attempt::{AtWorker, AttemptLog, read_batch, stores};
use super::stores::Kept;
use crate::Problem;
use crate::app::App;
use crate::parameter::read;
use crate::standing::Standing;
use crate::turns::Turn;
use crate::view::batch_state;

/// Between two looks at the tables for the next attempt, and two questions for what is not there yet.
const PAUSE: Duration = Duration::from_millis(500);
/// While a store waits for more, rights and the store's place are looked at again so often.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// An answer without anything that came sooner was not waited for.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The id of an event: all that came up to there has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) attempt: u64,
    pub(crate) offsets: LogOffsets,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogOffsets { stdout, stderr, worker } = self.offsets;
        write!(f, "{}.{stdout}.{stderr}.{worker}", self.attempt)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Option<Vec<u64>> = text.split('.').map(read).collect();
        // No file is longer than the largest offset of a file system.
        match numbers.as_deref() {
            Some(&[attempt, stdout, stderr, worker])
                if attempt > 0
                    && [stdout, stderr, worker].iter().all(|offset| i64::try_from(*offset).is_ok()) =>
            {
                Ok(Self { attempt, offsets: LogOffsets { stdout, stderr, worker } })
            }
            _ => Err(()),
        }
    }
}

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
    group: String,
    /// Only this stream.
    stream: Option<LogStream>,
    at: At,
    /// Not sent yet.
    ready: VecDeque<Event>,
    _open: Turn,
}

impl Tail {
    /// Of a batch of this group. `open` is its place among answers that go on.
    ///
    /// # Errors
    /// There is no store that could be asked.
    pub(crate) async fn begin(
        app: Arc<App>,
        standing: Standing,
        (batch, group): (BatchId, String),
        (from, stream): (TailFrom, Option<LogStream>),
        open: Turn,
    ) -> Result<Self, Problem> {
        stores(&app)?;
        let (at, ready) = (At::Over, VecDeque::new());
        let mut tail = Self { app, standing, batch, group, stream, at, ready, _open: open };
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
        let looked = self.standing.look().await;
        let may = looked.and_then(|_| self.standing.caller().may_read(&self.group));
        may.inspect_err(|problem| {
            let app = self.standing.caller().app();
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
        self.group = batch.group_name.to_string();
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
            Some(id) => Event::default().id(id.to_string()),
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
        let (is_kept, is_empty) = match self.ask(&log, offsets).await? {
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
                (true, is_empty && !is_end)
            }
            Heard::Answer(Ok(None)) => (false, true),
            Heard::Answer(Err(problem)) => {
                self.later(&problem).await;
                return Some(());
            }
            Heard::Nothing => return Some(()),
        };
        if is_empty
            && !self.goes_on(EventId { attempt, offsets }, is_kept).await
            && asked_at.elapsed() < AT_ONCE
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
            }
        }
        answer.offsets
    }

    /// There is nothing more at the moment. Where nothing more is to be expected, says so and goes on to the next attempt.
    async fn goes_on(&mut self, id: EventId, is_kept: bool) -> bool {
        let Ok((_, attempts)) = read_batch(&self.app, self.batch).await else { return false };
        let row = attempts.iter().find(|row| row.attempt.cast_unsigned() == id.attempt);
        let Some(row) = row.filter(|row| row.finished_at.is_some()) else { return false };
        let Ok(log) = AttemptLog::of(&self.app, row).await else { return false };
        let at_worker = if is_kept { AtWorker::MayCome } else { log.at_worker(&self.app).await };
        let incomplete = Incomplete { attempt: id.attempt };
        match at_worker {
            AtWorker::Silent => {}
            AtWorker::Nothing => self.tell("gone", Some(id), &incomplete),
            AtWorker::MayCome if log.is_given_up() => self.tell("cut", Some(id), &incomplete),
            AtWorker::MayCome => return false,
        }
        self.at = At::behind(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: an id is read back as it was written, and nothing else is one.
    #[test]
    fn ids_of_events_are_four_numbers() {
        let offsets = LogOffsets { stdout: 7, stderr: 0, worker: 1 << 40 };
        let id = EventId { attempt: 3, offsets };
        assert_eq!(id.to_string(), "3.7.0.1099511627776");
        assert_eq!(id.to_string().parse(), Ok(id));
        let bad = [
            "",
            "1",
            "1.2.3",
            "1.2.3.4.5",
            "0.1.2.3",
            "1.-2.3.4",
            "1.+2.3.4",
            "1.2.3.x",
            "1.2.3.9223372036854775808",
        ];
        for text in bad {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }
}
