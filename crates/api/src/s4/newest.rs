//! The newest batch of a job, as its owner knows it now; where it cannot be asked, as the tables have it.

use tidemill_model::{BatchId, BatchResult, BatchState, JobId, LiveAnswer, LiveQuery, ShardId};
use tidemill_store::ReadTables;

use crate::Problem;
use crate::app::App;
use crate::rights::Caller;
use crate::routes::{JobPlace, job_place};
use crate::view::{batch_result, batch_state};

/// The newest batch of a job.
pub(super) struct Newest {
    /// Absent: there is none yet.
    pub(super) batch: Option<BatchId>,
    pub(super) state: BatchState,
    pub(super) result: Option<BatchResult>,
}

/// Who decides the job's batches. A job that this caller has just submitted here may not be in the tables yet:
/// then it is waited for.
pub(super) async fn place(app: &App, caller: &Caller, job: JobId) -> Result<JobPlace, Problem> {
    let is_missing =
        |found: &Result<JobPlace, Problem>| matches!(found, Err(problem) if problem.code == "unknown");
    let found = job_place(app, job).await;
    if !is_missing(&found) || job.shard() != ShardId::CATALOGUE {
        return found;
    }
    let Some(position) = app.remembered(caller.app()) else { return found };
    let timeout = app.config.at_least_timeout();
    if app.deps.freshness.wait(position.partition, position.offset, timeout).await {
        return job_place(app, job).await;
    }
    found
}

/// The newest batch of the job.
pub(super) async fn newest(app: &App, place: &JobPlace, job: JobId) -> Result<Newest, Problem> {
    match app.ask(place.shard, LiveQuery::NewestBatch { job }).await {
        Ok(LiveAnswer::NewestBatch { batch, state }) => {
            let state = state.unwrap_or(BatchState::Waiting);
            let result = match batch {
                Some(batch) if state == BatchState::Finished => result_of(app, place, batch).await?,
                _ => None,
            };
            Ok(Newest { batch, state, result })
        }
        // The owner has forgotten it, or not heard of it yet.
        Ok(_) => {
            let known = in_tables(app, job).await?;
            match (known, job.shard()) {
                (Some(newest), _) => Ok(newest),
                (None, ShardId::CATALOGUE) => {
                    Ok(Newest { batch: None, state: BatchState::Waiting, result: None })
                }
                (None, _) => Err(Problem::unknown("job", job)),
            }
        }
        Err(problem) => in_tables(app, job).await?.ok_or(problem),
    }
}

async fn result_of(app: &App, place: &JobPlace, batch: BatchId) -> Result<Option<BatchResult>, Problem> {
    if let Ok(LiveAnswer::Why(why)) = app.deps.live.query(place.shard, LiveQuery::Why { batch }).await {
        return Ok(why.result);
    }
    let row = app.read(move |tables| tables.batch(batch.0)).await?;
    Ok(row.as_ref().and_then(batch_result))
}

async fn in_tables(app: &App, job: JobId) -> Result<Option<Newest>, Problem> {
    let row = app.read(move |tables| tables.newest_batch(job.0)).await?;
    Ok(row.map(|row| Newest {
        batch: Some(BatchId(row.id)),
        state: batch_state(&row),
        result: batch_result(&row),
    }))
}
