use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use schemars::JsonSchema;
use tidemill_model::{
    BatchId, BatchState, Condition, JobId, LiveAnswer, LiveQuery, Permission, ShardId, Timestamp, Why,
};
use tidemill_store::rows::BatchRow;
use tidemill_store::{AttemptFilter, BatchFilter, PageRequest, ReadTables, Tables};

use super::requests::Reader;
use crate::app::App;
use crate::object::Object;
use crate::parameter::{Asked, Rule};
use crate::params::{Params, id};
use crate::ports::{Moment, PastError};
use crate::rights::{Caller, Right};
use crate::view::{
    Answered, AttemptView, BatchDetail, BatchView, DependencyView, ExternalDependencyView, List, OutputView,
    OverrideView, QualityView, ReturnView, UserCodeView, batch_result, batch_state, name_of,
};
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
pub(super) const TRIGGERED_BY: Asked<String> = Asked::text(
    "triggered_by",
    "Only those that exactly this application or person asked for: `app`, or `app/person`.",
);
pub(super) const MINE: Asked<bool> = Asked::flag(
    "mine",
    "`true`: only those that were asked for with this key, by this person where one is named.",
);
pub(super) const FROM: Asked<Timestamp> = Asked::time("from", "Logical time at or after.");
pub(super) const TO: Asked<Timestamp> = Asked::time("to", "Logical time before.");
pub(super) const AS_OF: Asked<String> = Asked::new(
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

pub(super) async fn list(by: Reader, params: Params) -> Answered<List<BatchView>> {
    let filter = BatchFilter {
        job: params.get(JOB)?.map(|JobId(job)| job),
        group: params.get(GROUP)?,
        reach: by.caller.seen(),
        state: params.get(STATE)?.and_then(|text| state_number(&text)),
        result: params.get(RESULT)?,
        blocked: params.flag(BLOCKED)?,
        triggered_by: triggered_by(&params, &by.caller)?,
        from: params.get(FROM)?.map(Timestamp::as_millisecond),
        to: params.get(TO)?.map(Timestamp::as_millisecond),
    };
    let part = List::part(&by.app, &params, move |tables, request| tables.batches(&filter, request));
    let Json(mut list): Json<List<BatchView>> = part.await?;
    by.app.hide_blockers(&by.caller, list.items.iter_mut().map(|batch| &mut batch.0)).await?;
    Ok(Json(list))
}

/// Who asked for the batches that are wanted.
fn triggered_by(params: &Params, caller: &Caller) -> Result<Option<String>, Problem> {
    match (params.get(TRIGGERED_BY)?, params.flag(MINE)?) {
        (Some(by), true) => {
            Err(Problem::field("triggered_by", by, "cannot stand together with mine; give one of them"))
        }
        (None, true) => Ok(Some(caller.name())),
        (by, false) => Ok(by),
    }
}

fn state_number(text: &str) -> Option<i64> {
    let fits = |state: &BatchState| state.as_str() == text || state.number().to_string() == text;
    BatchState::ALL.into_iter().find(fits).map(|state| i64::from(state.number()))
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<BatchDetail> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let mut detail = by.app.read(move |tables| detail(tables, row)).await?;
    by.app.hide_blockers(&by.caller, [&mut detail.batch.0]).await?;
    detail.hidden_dependencies = by.app.without_hidden(&by.caller, &mut detail.dependencies).await?;
    by.app.without_hidden_overrides(&by.caller, &mut detail.dependency_overrides).await?;
    Ok(Json(detail))
}

/// The assignments of a batch that ended without an attempt, the oldest first (DSP-5).
pub(super) async fn assignment_returns(by: Reader, Path(text): Path<String>) -> Answered<List<ReturnView>> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let returned = by.app.read(move |tables| tables.assignment_returns(row.id)).await?;
    Ok(Json(List::all(returned)))
}

/// The row of a batch with which the caller may do this.
pub(super) async fn allowed(
    app: &App,
    caller: &Caller,
    text: &str,
    needed: Permission,
) -> Result<BatchRow, Problem> {
    let row = batch_row(app, id("batch", text)?).await?;
    caller.may(needed, &app.object_of_batch(caller, &row).await?)?;
    Ok(row)
}

/// The row of a batch that the caller may see.
pub(super) async fn readable(app: &App, caller: &Caller, text: &str) -> Result<BatchRow, Problem> {
    allowed(app, caller, text, Permission::View).await
}

pub(super) async fn batch_row(app: &App, batch: BatchId) -> Result<BatchRow, Problem> {
    app.find("batch", batch, |tables, batch| tables.batch(batch.0)).await
}

fn detail(tables: &dyn Tables, row: BatchRow) -> Result<BatchDetail, tidemill_store::Error> {
    let mut dependencies = Vec::new();
    let mut names = std::collections::BTreeMap::new();
    for dependency in tables.dependencies(row.id)? {
        let parent = dependency.parent_id;
        if let std::collections::btree_map::Entry::Vacant(place) = names.entry(parent) {
            place.insert(name_of(tables, parent)?);
        }
        dependencies.push(DependencyView { row: dependency.into(), parent_name: names[&parent].clone() });
    }
    let mut external_dependencies = Vec::new();
    for of_batch in tables.batch_external_dependencies(row.id)? {
        let row = tables.external_dependency(of_batch.external_dependency_id)?;
        external_dependencies.extend(row.map(|row| ExternalDependencyView::new(&of_batch, row)));
    }
    let filter = AttemptFilter { batch: Some(row.id), ..AttemptFilter::default() };
    let attempts = tables.attempts(&filter, &PageRequest::first(MAX_ATTEMPTS))?;
    let returned = tables.assignment_returns(row.id)?.into_iter().map(ReturnView::from).collect();
    Ok(BatchDetail {
        batch: BatchView::from(row.clone()),
        dependencies,
        hidden_dependencies: 0,
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

/// Says of what blocks a batch no more than by which parent, which the job's definition names: what blocks that in turn may be of
/// others.
async fn only_parent(app: &App, blocked: &mut Condition) -> Result<(), Problem> {
    let (Some(parent), Some(time)) = (blocked.job, blocked.logical_time) else { return Ok(()) };
    let name = app.in_tables(move |tables| name_of(tables, parent.0)).await?;
    let name = name.unwrap_or_else(|| format!("job {parent}"));
    blocked.message = format!("blocked by a failed parent: {name} of {time}");
    Ok(())
}

/// Every condition that keeps a batch from running, as its owner knows them now (DEP-8), or as it would have said at
/// a moment of the past (DSP-1).
pub(super) async fn why(by: Reader, Path(text): Path<String>, params: Params) -> Answered<Why> {
    let batch: BatchId = id("batch", &text)?;
    let (shard, _) = shard_of_batch(&by.app, &by.caller, batch, Permission::View).await?;
    let mut why = match params.get(AS_OF)? {
        Some(as_of) => why_then(&by.app, by.caller.holder(), batch, shard, &as_of).await?,
        None => why_now(&by, batch, shard).await?,
    };
    if let Some(blocked) = why.blocked.as_mut().filter(|_| !by.caller.is_of_site()) {
        only_parent(&by.app, blocked).await?;
    }
    by.app.tell_parents(&by.caller, &mut why).await?;
    Ok(Json(why))
}

async fn why_now(by: &Reader, batch: BatchId, shard: ShardId) -> Result<Why, Problem> {
    match by.app.ask(shard, LiveQuery::Why { batch }).await {
        Ok(LiveAnswer::Why(mut why)) => {
            super::pools::tell_holders(&by.app, &by.caller, &mut why.conditions).await;
            Ok(why)
        }
        // The owner keeps finished batches for a while only; the tables keep all.
        Ok(_) => finished(batch_row(&by.app, batch).await?),
        Err(problem) => finished(batch_row(&by.app, batch).await?).map_err(|_| problem),
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

/// What the tables say of a batch that has ended.
fn finished(row: BatchRow) -> Result<Why, Problem> {
    let result = batch_result(&row);
    if batch_state(&row) != BatchState::Finished {
        let detail = format!("batch {} is not with its owner yet or any more; try again", row.id);
        return Err(Problem::unavailable("owner_behind", detail));
    }
    let (conditions, left_out, blocked) = (Vec::new(), Vec::new(), None);
    Ok(Why { batch: BatchId(row.id), state: BatchState::Finished, result, conditions, left_out, blocked })
}

/// The shard that decides a batch, and what the check of its group gives.
pub(super) async fn shard_of_batch(
    app: &App,
    caller: &Caller,
    batch: BatchId,
    needed: Permission,
) -> Result<(ShardId, Right), Problem> {
    let unknown = || Problem::unknown("batch", batch);
    let group = app.group_of_shard(batch.shard()).await?.filter(|_| batch.0 > 0).ok_or_else(unknown)?;
    let object = Object::new("batch", batch, group.name.as_str());
    let object = match caller.is_bound_to_groups_alone() {
        true => object,
        // Whose it is, its job says.
        false => app.object_of_batch(caller, &batch_row(app, batch).await?).await?,
    };
    Ok((group.shard, caller.may(needed, &object)?))
}
