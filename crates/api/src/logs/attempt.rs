//! The log of one attempt.

use axum::http::{HeaderValue, StatusCode};
use tidemill_journal::now;
use tidemill_model::{
    BatchId, GroupName, KeptLog, LogChunks, LogMatches, LogOffsets, LogPlace, LogStream, Token,
};
use tidemill_store::rows::{AttemptRow, BatchRow, WorkerRow};
use tidemill_store::{AttemptFilter, PageRequest, ReadTables};

use crate::Problem;
use crate::app::App;
use crate::log_stores::{GONE, Kept, LogName, LogPart, Search, Stores};

/// Attempts of one batch that are looked at.
const MAX_ATTEMPTS: usize = 1_000;
/// How long more of the log of an attempt may come after its end is on record.
const MORE_WITHIN_MS: i64 = 300_000;
/// And where its worker is lost.
const MORE_OF_LOST_WITHIN_MS: i64 = 10_000;

/// The log of an attempt, and who may have it.
pub(crate) struct AttemptLog {
    pub(super) name: LogName,
    /// Its number in its batch.
    attempt: u64,
    /// Where the worker that ran it serves logs.
    address: String,
    /// Whether that worker is gone or does not answer its owner.
    is_worker_lost: bool,
    /// When its end was decided, milliseconds since 1970.
    finished_at: Option<i64>,
}

/// What a worker says of a log of which no store has anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtWorker {
    /// The attempt has ended, and has printed nothing.
    Silent,
    /// It has nothing of it any more, or never had.
    Nothing,
    /// It has some, or does not answer.
    MayCome,
}

/// A batch with its attempts, the oldest first. Where the batch has finished, none of them is missing.
pub(crate) async fn read_batch(app: &App, batch: BatchId) -> Result<(BatchRow, Vec<AttemptRow>), Problem> {
    let read = app.read(move |tables| {
        // Attempts that come between the two are of a batch that had not finished.
        let Some(row) = tables.batch(batch.0)? else { return Ok(None) };
        let filter = AttemptFilter { batch: Some(batch.0), ..AttemptFilter::default() };
        let mut attempts = tables.attempts(&filter, &PageRequest::first(MAX_ATTEMPTS))?.items;
        attempts.sort_by_key(|attempt| (attempt.attempt, attempt.id));
        Ok(Some((row, attempts)))
    });
    read.await?.ok_or_else(|| Problem::unknown("batch", batch))
}

impl AttemptLog {
    pub(crate) async fn of(app: &App, attempt: &AttemptRow) -> Result<Self, Problem> {
        let worker = attempt.worker_id.to_string();
        let workers: Vec<WorkerRow> = app
            .find("worker", worker, |tables, id| Ok(Some(tables.worker(id)?).filter(|rows| !rows.is_empty())))
            .await?;
        let token = Token(attempt.id);
        // The newest registration has the address that is listened on now; the attempt is of the group of its shard.
        let newest = workers.first().ok_or_else(|| Problem::unknown("worker", &attempt.worker_id))?;
        let then = workers.iter().find(|row| row.shard == i64::from(token.shard().0)).unwrap_or(newest);
        let group = GroupName::try_from(&*then.group_name)
            .map_err(|_| Problem::internal("the row of a worker names a group by what is no name"))?;
        Ok(Self {
            name: LogName { token, group },
            attempt: attempt.attempt.cast_unsigned(),
            address: newest.address.to_string(),
            is_worker_lost: !matches!(&*newest.state, "live" | "leaving"),
            finished_at: attempt.finished_at,
        })
    }

    /// Whether no more of it is to be expected from its worker, though no store has seen its end: that is on record, and has been
    /// for a while.
    pub(crate) fn is_given_up(&self) -> bool {
        let patience = if self.is_worker_lost { MORE_OF_LOST_WITHIN_MS } else { MORE_WITHIN_MS };
        self.finished_at.is_some_and(|at| at.saturating_add(patience) < now().as_millisecond())
    }

    /// What its worker says of it, where no store has anything.
    pub(super) async fn at_worker(&self, app: &App) -> AtWorker {
        let mut is_silent = true;
        for stream in LogStream::ALL {
            match app.workers.read(&self.address, self.name.token, (stream, 0, 1)).await {
                Ok(part) => is_silent &= part.is_end && part.offset == 0,
                // One of an earlier version keeps no notes.
                Err(problem) if problem.code == GONE && stream == LogStream::Worker => {}
                Err(problem) if problem.code == GONE => return AtWorker::Nothing,
                Err(_) => return AtWorker::MayCome,
            }
        }
        if is_silent { AtWorker::Silent } else { AtWorker::MayCome }
    }

    /// Lines from a store, or else from the worker, which knows bytes only. Whoever asks for what follows an offset is never sent
    /// back before it, however much whoever answers has.
    pub(crate) async fn lines(
        &self,
        app: &App,
        stream: LogStream,
        place: LogPlace,
        lines: u32,
    ) -> Result<LogPart, Problem> {
        let part = self.read_lines(app, stream, place, lines).await?;
        let part = if let LogPlace::Offset(offset) = place { part.not_before(offset) } else { part };
        Ok(LogPart { attempt: Some(self.attempt), ..part })
    }

    async fn read_lines(
        &self,
        app: &App,
        stream: LogStream,
        place: LogPlace,
        lines: u32,
    ) -> Result<LogPart, Problem> {
        let kept = match &app.stores {
            Some(stores) => stores.lines(&self.name, stream, place, lines).await,
            None => Ok(None),
        };
        let problem = match found(kept) {
            Ok(lines) => return Ok(lines.into()),
            Err(problem) => problem,
        };
        let LogPlace::Offset(offset) = place else {
            return Err(problem.unwrap_or_else(|| match &app.stores {
                Some(_) => self.kept_nowhere(),
                None => no_store("lines are counted by those"),
            }));
        };
        let part = app.workers.read(&self.address, self.name.token, (stream, offset, lines)).await;
        // A store that may have it explains more than a worker that has not.
        part.map_err(|from_worker| problem.unwrap_or(from_worker))
    }

    /// The bytes of a stream, or of a range of it, from a store, or else from the worker. The status is 200, 206 or 416.
    pub(crate) async fn bytes(
        &self,
        app: &App,
        stream: LogStream,
        range: Option<HeaderValue>,
    ) -> Result<reqwest::Response, Problem> {
        let kept = match &app.stores {
            Some(stores) => stores.bytes(&self.name, stream, range.clone()).await,
            None => Ok(None),
        };
        let problem = match found(kept) {
            Ok(response) => return Ok(response),
            Err(problem) => problem,
        };
        let bytes = app.workers.download(&self.address, self.name.token, stream, range).await;
        bytes.map_err(|from_worker| problem.unwrap_or(from_worker))
    }

    /// What is kept of it.
    pub(crate) async fn summary(&self, app: &App) -> Result<KeptLog, Problem> {
        self.found(stores(app)?.summary(&self.name).await)
    }

    pub(crate) async fn search(&self, app: &App, search: &Search<'_>) -> Result<LogMatches, Problem> {
        self.found(stores(app)?.search(&self.name, search).await)
    }

    /// What follows these offsets; see [`Stores`] for what the answer says.
    pub(super) async fn chunks(&self, app: &App, from: LogOffsets) -> Kept<LogChunks> {
        stores(app)?.chunks(&self.name, from).await
    }

    fn found<T>(&self, kept: Kept<T>) -> Result<T, Problem> {
        kept?.ok_or_else(|| self.kept_nowhere())
    }

    fn kept_nowhere(&self) -> Problem {
        let detail = format!(
            "no store keeps anything of the log of attempt {}: it has printed nothing, its log has not come yet, or its time is over",
            self.name.token
        );
        Problem::new(StatusCode::NOT_FOUND, GONE, detail)
    }
}

/// What stores have; else why one that may have it was not asked, if there is such a one.
fn found<T>(kept: Kept<T>) -> Result<T, Option<Problem>> {
    kept.map_err(Some)?.ok_or(None)
}

/// The stores, for what nobody else can answer.
pub(super) fn stores(app: &App) -> Result<&Stores, Problem> {
    app.stores.as_ref().ok_or_else(|| no_store("only those can do this"))
}

fn no_store(why: &str) -> Problem {
    let detail = format!(
        "no store of logs is configured, and {why}: run the role `logs`, and name it in `api.log_stores` of this interface"
    );
    Problem::unavailable("no_log_store", detail)
}
