use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use tidemill_model::{BatchId, JobId, LiveUsage, Token};
use tidemill_store::rows::AttemptRow;
use tidemill_store::{AttemptFilter, PageRequest, ReadTables};

use super::batches::readable;
use super::groups::worker_row;
use super::requests::Reader;
use crate::Problem;
use crate::app::App;
use crate::parameter::Asked;
use crate::params::Params;
use crate::view::{Answered, AttemptView, List};
use crate::workers::NOT_RUNNING;

pub(super) const BATCH: Asked<BatchId> = Asked::id("batch", "Of this batch.");
pub(super) const JOB: Asked<JobId> = Asked::id("job", "Of this job, by id.");
pub(super) const WORKER: Asked<String> = Asked::text("worker", "On this worker.");

pub(super) async fn list(by: Reader, params: Params) -> Answered<List<AttemptView>> {
    let (batch, job, worker) = (params.get(BATCH)?, params.get(JOB)?, params.get(WORKER)?);
    let mut reach = by.caller.seen();
    if let Some(batch) = batch.filter(|_| reach.is_some()) {
        // Of a batch its own group counts, which need not be that of its job any more. One that is not to be seen has none.
        match readable(&by.app, &by.caller, &batch.to_string()).await {
            Ok(_) => reach = None,
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    let (batch, job) = (batch.map(|batch| batch.0), job.map(|job| job.0));
    let filter = AttemptFilter { batch, job, worker, reach };
    List::part(&by.app, &params, move |tables, request| tables.attempts(&filter, request)).await
}

/// What a running attempt uses now (EXE-7).
pub(super) async fn used(by: Reader, Path(text): Path<String>) -> Answered<LiveUsage> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let attempt = newest_attempt(&by.app, BatchId(row.id)).await?;
    let runs = |attempt: &AttemptRow| attempt.finished_at.is_none();
    let Some(attempt) = attempt.filter(runs) else {
        let detail = format!("batch {} has no attempt that runs; `why` tells what it waits for", row.id);
        return Err(Problem::new(StatusCode::NOT_FOUND, NOT_RUNNING, detail));
    };
    let address = address_of(&by.app, &attempt).await?;
    by.app.workers.used(&address, Token(attempt.id)).await.map(Json)
}

/// The newest attempt of a batch, if it has one.
async fn newest_attempt(app: &App, batch: BatchId) -> Result<Option<AttemptRow>, Problem> {
    let filter = AttemptFilter { batch: Some(batch.0), ..AttemptFilter::default() };
    let page = app.read(move |tables| tables.attempts(&filter, &PageRequest::first(1))).await?;
    Ok(page.items.into_iter().next())
}

/// Where the worker that ran the attempt serves its logs.
async fn address_of(app: &App, attempt: &AttemptRow) -> Result<String, Problem> {
    // The newest registration has the address that is listened on now.
    Ok(worker_row(app, attempt.worker_id.to_string()).await?.address.to_string())
}
