use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{
    BatchCommand, BatchId, BatchResult, BatchState, Command, JobId, LiveAnswer, LiveQuery, OverriddenResult,
    RecordedBatch, ShardId, Timestamp, Why, bounds,
};
use tidemill_store::rows::BatchRow;
use tidemill_store::{AttemptFilter, BatchFilter, PageRequest, ReadTables, Tables};

use super::run::{Generated, JobPlace, check_parameters, job_place, written};
use crate::app::{App, shard_of};
use crate::body::{Body, parse};
use crate::parameter::{Asked, Rule};
use crate::params::{Params, id};
use crate::ports::{Moment, PastError};
use crate::rights::Caller;
use crate::view::{
    AttemptView, BatchDetail, BatchView, DependencyView, ExternalDependencyView, List, OutputView,
    OverrideView, QualityView, ReturnView, UserCodeView, Written,
};
use crate::write::Write;
use crate::{JournalPosition, Problem};

/// Attempts of one batch that are listed with it.
const MAX_ATTEMPTS: usize = 1_000;

pub(super) const JOB: Asked<JobId> = Asked::id("job", "Of this job, by id.");
pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
pub(super) const STATE: Asked<String> = Asked::word(
    "state",
    "`waiting`, `assigned`, `running` or `finished`, or its number.",
    &["waiting", "assigned", "running", "finished", "0", "1", "2", "3"],
);
pub(super) const RESULT: Asked<String> = Asked::word(
    "result",
    "`success`, `failed`, `killed` or `skipped`.",
    &["success", "failed", "killed", "skipped"],
);
pub(super) const BLOCKED: Asked<bool> =
    Asked::flag("blocked", "`true`: only those that a failed parent blocks.");
pub(super) const FROM: Asked<Timestamp> = Asked::time("from", "Logical time at or after.");
pub(super) const TO: Asked<Timestamp> = Asked::time("to", "Logical time before.");
pub(super) const AS_OF: Asked<String> = Asked::written(
    "as_of",
    "A moment of the past: a time as RFC 3339 has it, or a `position` of the batch's partition; absent: now. The journal is \
     read up to there, one such question at a time, for at most 30 seconds.",
    Rule::of::<AsOf>(),
);

/// A moment of the past, as a parameter names it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is wanted; `moment` reads it")]
pub(crate) enum AsOf {
    Time(Timestamp),
    Position(JournalPosition),
}

/// Batches, the newest first.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<BatchView>>, Problem> {
    let filter = BatchFilter {
        job: params.get(JOB)?.map(|JobId(job)| job),
        group: caller.listed_group(params.get(GROUP)?)?,
        state: params.get(STATE)?.and_then(|text| state_number(&text)),
        result: params.get(RESULT)?,
        blocked: params.flag(BLOCKED)?,
        from: params.get(FROM)?.map(Timestamp::as_millisecond),
        to: params.get(TO)?.map(Timestamp::as_millisecond),
    };
    let request = params.page()?;
    let page = app.read(move |tables| tables.batches(&filter, &request)).await?;
    Ok(Json(List::of(page, BatchView::from)))
}

fn state_number(text: &str) -> Option<i64> {
    let states = [BatchState::Waiting, BatchState::Assigned, BatchState::Running, BatchState::Finished];
    let fits = |state: &BatchState| state.as_str() == text || state.number().to_string() == text;
    states.into_iter().find(fits).map(|state| i64::from(state.number()))
}

/// A batch, what it waits for, and its attempts.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
) -> Result<Json<BatchDetail>, Problem> {
    let row = batch_row(&app, id("batch", &text)?).await?;
    caller.may_read(&row.group_name)?;
    app.read(move |tables| detail(tables, row)).await.map(Json)
}

/// The assignments of a batch that ended without an attempt, the oldest first (DSP-5).
pub(super) async fn assignment_returns(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
) -> Result<Json<List<ReturnView>>, Problem> {
    let row = batch_row(&app, id("batch", &text)?).await?;
    caller.may_read(&row.group_name)?;
    let returned = app.read(move |tables| tables.assignment_returns(row.id)).await?;
    Ok(Json(List { items: returned.into_iter().map(ReturnView::from).collect(), next: None }))
}

/// The row of a batch.
pub(super) async fn batch_row(app: &App, batch: BatchId) -> Result<BatchRow, Problem> {
    let row = app.read(move |tables| tables.batch(batch.0)).await?;
    row.ok_or_else(|| Problem::unknown("batch", batch))
}

fn detail(tables: &dyn Tables, row: BatchRow) -> Result<BatchDetail, tidemill_store::Error> {
    let mut dependencies = Vec::new();
    let mut names = std::collections::BTreeMap::new();
    for dependency in tables.dependencies(row.id)? {
        let parent = dependency.parent_id;
        if let std::collections::btree_map::Entry::Vacant(place) = names.entry(parent) {
            place.insert(tables.job(parent)?.map(|row| format!("{}/{}", row.group_name, row.name)));
        }
        dependencies.push(DependencyView { row: dependency.into(), parent_name: names[&parent].clone() });
    }
    let mut external_dependencies = Vec::new();
    for of_batch in tables.batch_external_dependencies(row.id)? {
        let external_dependency = tables.external_dependency(of_batch.external_dependency_id)?;
        external_dependencies.extend(
            external_dependency
                .map(|external_dependency| ExternalDependencyView::new(&of_batch, external_dependency)),
        );
    }
    let filter = AttemptFilter { batch: Some(row.id), ..AttemptFilter::default() };
    let attempts = tables.attempts(&filter, &PageRequest::first(MAX_ATTEMPTS))?;
    let returned = tables.assignment_returns(row.id)?.into_iter().map(ReturnView::from).collect();
    Ok(BatchDetail {
        batch: BatchView::from(row.clone()),
        dependencies,
        external_dependencies,
        outputs: tables.batch_outputs(row.id)?.into_iter().map(OutputView::from).collect(),
        quality: tables.batch_quality(row.id)?.map(QualityView::from),
        dependency_overrides: tables
            .dependency_overrides(row.id)?
            .into_iter()
            .map(OverrideView::from)
            .collect(),
        attempts: attempts.items.into_iter().rev().map(AttemptView::from).collect(),
        returned,
        user_codes: tables.user_codes(row.id)?.into_iter().map(UserCodeView::from).collect(),
    })
}

/// Every condition that keeps a batch from running, as its owner knows them now (DEP-8), or as it would have said at
/// a moment of the past (DSP-1).
pub(super) async fn why(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Json<Why>, Problem> {
    let batch: BatchId = id("batch", &text)?;
    let (shard, ()) = shard_of_batch(&app, batch, |group| caller.may_read(group)).await?;
    if let Some(as_of) = params.get(AS_OF)? {
        return why_then(&app, caller.app(), batch, shard, &as_of).await.map(Json);
    }
    let answer = app.deps.live.query(shard, LiveQuery::Why { batch }).await;
    match answer {
        Ok(LiveAnswer::Why(mut why)) => {
            super::pools::tell_holders(&app, &mut why.conditions).await;
            Ok(Json(why))
        }
        // The owner keeps finished batches for a while only; the tables keep all.
        Ok(
            LiveAnswer::NotFound
            | LiveAnswer::NewestBatch { .. }
            | LiveAnswer::Planned(_)
            | LiveAnswer::Wanted { .. }
            | LiveAnswer::WantedQuality { .. }
            | LiveAnswer::Pool { .. }
            | LiveAnswer::TaskLedger(_)
            | LiveAnswer::User(_)
            | LiveAnswer::Notified { .. }
            | LiveAnswer::Mailboxes { .. }
            | LiveAnswer::Refused(_),
        ) => finished(batch_row(&app, batch).await?).map(Json),
        Err(error) => {
            let row = batch_row(&app, batch).await?;
            finished(row).map(Json).map_err(|_| live_problem(&error))
        }
    }
}

/// What its owner would have said at a moment of the past, by the journal.
async fn why_then(
    app: &Arc<App>,
    key: &Arc<str>,
    batch: BatchId,
    shard: ShardId,
    as_of: &str,
) -> Result<Why, Problem> {
    let moment = moment(as_of)?;
    let row = batch_row(app, batch).await?;
    let past = Arc::clone(&app.deps.past);
    let turn = app.past_reads.take(key).await?;
    let asked = tokio::task::spawn_blocking(move || {
        // A caller who goes away does not end what was begun for him: the turn lasts as long as that.
        let _turn = turn;
        past.query(shard, &LiveQuery::Why { batch }, moment)
    });
    let answer = asked.await.map_err(|error| {
        tracing::error!(%error, "a question about the past has failed");
        Problem::internal("the question about the past has failed")
    })?;
    match answer.map_err(|error| past_problem(&error, as_of))? {
        LiveAnswer::Why(why) => Ok(why),
        // Owners forget finished batches; the tables say what was then.
        _ => match (row.finished_at, moment) {
            (Some(finished_at), Moment::Time(time)) if finished_at <= time.as_millisecond() => finished(row),
            _ => {
                let generated = crate::view::time(row.generated_at);
                let rule = format!(
                    "batch {batch} was generated at {generated}, and was not there yet, or is forgotten"
                );
                Err(Problem::field("as_of", as_of, rule))
            }
        },
    }
}

fn moment(text: &str) -> Result<Moment, Problem> {
    let time = text.parse::<Timestamp>().ok().map(Moment::Time);
    let moment = time.or_else(|| text.parse::<JournalPosition>().ok().map(Moment::Position));
    let rule = "must be a time as RFC 3339 has it, with its offset, or a `position`: <partition>:<offset>";
    moment.ok_or_else(|| Problem::field("as_of", text, rule))
}

fn past_problem(error: &PastError, as_of: &str) -> Problem {
    match error {
        PastError::OtherPartition { .. } | PastError::Ahead { .. } => {
            Problem::field("as_of", as_of, error.to_string())
        }
        PastError::Gone { .. } => Problem::new(StatusCode::GONE, "journal_gone", error.to_string()),
        PastError::Busy => Problem::overloaded(format!("{error}; try again later"), 5),
        PastError::TooLong { .. } => {
            Problem::unavailable("takes_too_long", format!("{error}; ask for an earlier moment"))
        }
        PastError::Read { .. } => {
            tracing::warn!(error = error as &dyn std::error::Error, "the past could not be looked at");
            Problem::unavailable("journal_unavailable", format!("{error}; try again later"))
        }
    }
}

/// An owner that cannot be asked.
pub(crate) fn live_problem(error: &tidemill_cluster::LiveError) -> Problem {
    tracing::warn!(error = error as &dyn std::error::Error, "an owner could not be asked");
    Problem::unavailable("owner_unavailable", format!("{error}; try again later"))
}

/// What the tables say of a batch that has ended.
fn finished(row: BatchRow) -> Result<Why, Problem> {
    let result = BatchResult::ALL.into_iter().find(|result| row.result.as_deref() == Some(result.as_str()));
    if row.state != i64::from(BatchState::Finished.number()) {
        let detail = format!("batch {} is not with its owner yet or any more; try again", row.id);
        return Err(Problem::unavailable("owner_behind", detail));
    }
    let (conditions, left_out, blocked) = (Vec::new(), Vec::new(), None);
    Ok(Why { batch: BatchId(row.id), state: BatchState::Finished, result, conditions, left_out, blocked })
}

/// The shard that decides a batch, and what the check of its group gives.
pub(super) async fn shard_of_batch<T>(
    app: &App,
    batch: BatchId,
    check: impl FnOnce(&str) -> Result<T, Problem>,
) -> Result<(ShardId, T), Problem> {
    let unknown = || Problem::unknown("batch", batch);
    let group = app.group_of_shard(batch.shard()).await?.filter(|_| batch.0 > 0).ok_or_else(unknown)?;
    let checked = check(&group.name)?;
    Ok((shard_of(&group), checked))
}

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
pub(super) async fn kill(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<Written>, Problem> {
    let KillRequest { reason } = parse(body)?;
    let reason = reason.unwrap_or_default();
    if reason.chars().count() > bounds::KILL_REASON_CHARS {
        let rule = format!("must have at most {} characters", bounds::KILL_REASON_CHARS);
        return Err(Problem::field("reason", reason, rule));
    }
    let batch: BatchId = id("batch", &text)?;
    let (shard, right) = shard_of_batch(&app, batch, |group| caller.for_group(group)).await?;
    let command = Command::Batch(BatchCommand::Kill { batch, reason });
    written(Write::new(&app, right, &headers)?.send(shard, command).await?)
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
pub(super) async fn mark(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<Written>, Problem> {
    let batch: BatchId = id("batch", &text)?;
    let (shard, right) = shard_of_batch(&app, batch, |group| caller.for_group(group)).await?;
    let OverrideResultRequest { result, reason } = parse(body)?;
    let known = serde_json::from_value(serde_json::Value::from(result.as_str()));
    let result = known.map_err(|_| Problem::field("result", result, "must be success, failed or skipped"))?;
    let (job, logical_time, recorded) = identity(&app, batch).await?;
    if let Some(place) = moved_to(&app, job, shard).await? {
        let rule = format!(
            "stays with the group that ran it, and its job runs in group {} now, which decides what counts; run it \
             again instead",
            place.group
        );
        return Err(Problem::field("batch", batch, rule));
    }
    let run = Some(recorded.run);
    let command =
        Command::Batch(BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run });
    written(Write::new(&app, right, &headers)?.send(shard, command).await?)
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

/// The same logical time again, run + 1.
pub(super) async fn rerun(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Generated>, Problem> {
    let batch: BatchId = id("batch", &text)?;
    let (shard, right) = shard_of_batch(&app, batch, |group| caller.for_group(group)).await?;
    let (job, logical_time, recorded) = identity(&app, batch).await?;
    let moved = moved_to(&app, job, shard).await?;
    let right = match &moved {
        Some(place) => caller.for_groups([&*place.group])?,
        None => right,
    };
    check_parameters(&app, &caller, job, &recorded.parameters).await?;
    let shard = moved.map_or(shard, |place| place.shard);
    let command =
        Command::Batch(BatchCommand::Rerun { batch, job, logical_time, recorded: Some(Box::new(recorded)) });
    Generated::of(Write::new(&app, right, &headers)?.send(shard, command).await?)
}
