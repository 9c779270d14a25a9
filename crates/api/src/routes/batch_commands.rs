//! What people let happen to a batch.

use axum::extract::Path;
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{
    BatchCommand, BatchId, JobId, Level, OverriddenResult, Permission, RecordedBatch, ShardId, Timestamp,
    Token, bounds,
};

use super::batches::batch_row;
use super::level;
use super::requests::Writer;
use super::run::{Generated, JobPlace, check_parameters, job_place};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::view::{Answered, Written};

/// Why a batch is ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KillRequest {
    /// For people.
    #[serde(default)]
    #[schemars(length(max = bounds::KILL_REASON_CHARS))]
    reason: Option<String>,
}

/// Ends a batch (EXE-5).
pub(super) async fn kill(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let KillRequest { reason } = parse(body)?;
    let reason = reason.unwrap_or_default();
    if reason.chars().count() > bounds::KILL_REASON_CHARS {
        let rule = format!("must have at most {} characters", bounds::KILL_REASON_CHARS);
        return Err(Problem::field("reason", reason, rule));
    }
    let (batch, shard, right) = by.batch(&text, Permission::Operate).await?;
    let command = BatchCommand::Kill { batch, reason };
    by.written(right, shard, command).await
}

/// How somebody knows that nothing of an attempt runs any more.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VouchRequest {
    /// The attempt's id, of the batch's `attempts`.
    attempt: i64,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// A person says that nothing of an attempt runs any more: its worker is lost, or was asked to end it (EXE-12).
pub(super) async fn vouch(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let (batch, shard, right) = by.batch(&text, Permission::DeclareDead).await?;
    let VouchRequest { attempt, reason } = parse(body)?;
    level::allows(&by.app, Level::new(3)).await?;
    by.written(right, shard, BatchCommand::VouchEnded { batch, token: Token(attempt), reason }).await
}

/// Which stray counts for a batch, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdoptRequest {
    /// The stray's id, as `GET /api/workers/{id}` lists it.
    attempt: i64,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// A person lets an attempt of a lost life of the log be that of a batch of its logical time (EXE-10).
pub(super) async fn adopt(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let (batch, shard, right) = by.batch(&text, Permission::DeclareDead).await?;
    let AdoptRequest { attempt, reason } = parse(body)?;
    level::allows(&by.app, Level::new(3)).await?;
    by.written(right, shard, BatchCommand::Adopt { batch, token: Token(attempt), reason }).await
}

/// How a person says that a batch ended, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideResultRequest {
    /// `success`, `failed` or `skipped`.
    #[schemars(with = "OverriddenResult")]
    result: String,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Says how a batch ended (BYD-16); what runs of it is ended first.
pub(super) async fn mark(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let (batch, shard, right) = by.batch(&text, Permission::Operate).await?;
    let OverrideResultRequest { result, reason } = parse(body)?;
    let known = serde_json::from_value(serde_json::Value::from(result.as_str()));
    let result = known.map_err(|_| Problem::field("result", result, "must be success, failed or skipped"))?;
    let (job, logical_time, recorded) = identity(&by.app, batch).await?;
    if let Some(place) = moved_to(&by.app, job, shard).await? {
        let rule = format!(
            "stays with the group that ran it, and its job runs in group {} now, which decides what counts; run it \
             again instead",
            place.group
        );
        return Err(Problem::field("batch", batch, rule));
    }
    let run = Some(recorded.run);
    let command = BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run };
    by.written(right, shard, command).await
}

/// Where a job runs that is not in this shard any more (JOB-9).
async fn moved_to(app: &App, job: JobId, shard: ShardId) -> Result<Option<JobPlace>, Problem> {
    match job_place(app, job).await {
        Ok(place) => Ok(Some(place).filter(|place| place.shard != shard)),
        // The tables may not show the job yet; its shard knows it.
        Err(problem) if problem.code == "unknown" => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// A batch's job and logical time, and what else its shard may not hold any more (GEN-10).
async fn identity(app: &App, batch: BatchId) -> Result<(JobId, Timestamp, RecordedBatch), Problem> {
    let row = batch_row(app, batch).await?;
    let unreadable = |what: &str| Problem::internal(&format!("the batch's {what} cannot be read"));
    let logical_time =
        Timestamp::from_millisecond(row.logical_time).map_err(|_| unreadable("logical time"))?;
    let run = u32::try_from(row.run).map_err(|_| unreadable("run number"))?;
    let parameters = serde_json::from_str(&row.parameters).map_err(|_| unreadable("parameters"))?;
    Ok((JobId(row.job_id), logical_time, RecordedBatch { run, parameters }))
}

pub(super) async fn rerun(by: Writer, Path(text): Path<String>) -> Answered<Generated> {
    let (batch, shard, right) = by.batch(&text, Permission::Operate).await?;
    let (job, logical_time, recorded) = identity(&by.app, batch).await?;
    let moved = moved_to(&by.app, job, shard).await?;
    let right = match &moved {
        Some(place) => by.caller.may(Permission::Operate, &place.object(&by.app, &by.caller, job).await?)?,
        None => right,
    };
    check_parameters(&by.app, &by.caller, job, &recorded.parameters).await?;
    let shard = moved.map_or(shard, |place| place.shard);
    let recorded = Some(Box::new(recorded));
    let command = BatchCommand::Rerun { batch, job, logical_time, recorded };
    Generated::of(by.send(right, shard, command).await?)
}
