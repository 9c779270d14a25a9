//! Worker groups: their workers, their bounds, their freezes.

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidemill_model::{
    Answer, CatalogueCommand, Concerned, GroupName, GroupSettings, Level, LiveAnswer, LiveQuery, Permission,
    ShardId, Timestamp, Token, WorkerCommand, WorkerId, WorkerPresent, bounds,
};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{ReadTables, WorkerFilter};

use super::level;
use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::{App, shard_in};
use crate::body::{Body, parse};
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::Params;
use crate::propagation::{self, Late};
use crate::view::{Answered, FreezeView, GroupView, List, Settled, View, WorkerView, Written};

pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
/// As the tables name them.
pub(super) const STATE: Asked<String> = Asked::word(
    "state",
    "`live`, `leaving`, `left`, `lost` or `gone`.",
    &["live", "leaving", "left", "lost", "gone"],
);

pub(super) async fn workers(by: Reader, params: Params) -> Answered<List<WorkerView>> {
    let filter =
        WorkerFilter { group: params.get(GROUP)?, state: params.get(STATE)?, reach: by.caller.seen() };
    List::part(&by.app, &params, move |tables, request| tables.workers(&filter, request)).await
}

/// A worker, and how it stands with it now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkerDetail {
    #[serde(flatten)]
    row: View<WorkerRow>,
    /// As the owner of its group's shard knows; null: it does not answer.
    present: Option<WorkerPresent>,
}

pub(super) async fn worker(by: Reader, Path(worker): Path<String>) -> Answered<WorkerDetail> {
    let row = worker_row(&by.app, worker).await?;
    by.caller.may(Permission::View, &object(&row))?;
    let query = LiveQuery::Worker { worker: WorkerId::new(&*row.id) };
    let present = match by.app.ask(shard_in(row.shard), query).await {
        Ok(LiveAnswer::Worker(present)) => Some(*present),
        Ok(_) | Err(_) => None,
    };
    Ok(Json(WorkerDetail { row: View(row), present }))
}

/// The newest registration of a worker.
pub(super) async fn worker_row(app: &App, worker: String) -> Result<WorkerRow, Problem> {
    app.find("worker", worker, |tables, id| Ok(tables.worker(id)?.into_iter().next())).await
}

/// A worker, in its group.
pub(super) fn object(row: &WorkerRow) -> Object {
    Object::new("worker", &row.id, Arc::clone(&row.group_name))
}

pub(super) use super::hosts::{drain, drained, resume};

/// How somebody knows that nothing of a worker runs any more.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VouchRequest {
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// A person says that nothing of a lost worker runs any more (EXE-8, OPS-5).
pub(super) async fn vouch(by: Writer, Path(worker): Path<String>, Body(body): Body) -> Answered<Written> {
    let VouchRequest { reason } = parse(body)?;
    let row = worker_row(&by.app, worker).await?;
    let right = by.caller.may(Permission::DeclareDead, &object(&row))?;
    level::allows(&by.app, Level::new(2)).await?;
    let worker = WorkerId::new(&*row.id);
    by.written(right, shard_in(row.shard), WorkerCommand::VouchEnded { worker, reason }).await
}

/// Which stray of a worker is to end, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndStrayRequest {
    /// The stray's id, of the worker's `present.strays`.
    attempt: i64,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// A person has an attempt of a lost life of the log ended (EXE-10).
pub(super) async fn end_stray(by: Writer, Path(worker): Path<String>, Body(body): Body) -> Answered<Written> {
    let EndStrayRequest { attempt, reason } = parse(body)?;
    let row = worker_row(&by.app, worker).await?;
    let right = by.caller.may(Permission::DeclareDead, &object(&row))?;
    level::allows(&by.app, Level::new(3)).await?;
    let (worker, token) = (WorkerId::new(&*row.id), Token(attempt));
    by.written(right, shard_in(row.shard), WorkerCommand::EndStray { worker, token, reason }).await
}

/// The groups that the key reaches, by number.
pub(super) async fn list(by: Reader) -> Answered<List<GroupView>> {
    let groups = by.app.read(|tables| tables.groups()).await?;
    let reached = groups.into_iter().filter(|group| by.caller.reaches(&group.name));
    Ok(Json(List::all(reached)))
}

/// A group to be created or changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRequest {
    /// Its name.
    name: GroupName,
    /// Ed25519 public key of its workers, 64 hexadecimal digits.
    #[schemars(regex(pattern = bounds::KEY_PATTERN))]
    worker_key: String,
    /// Its bounds; those that are absent have their defaults.
    #[serde(default)]
    settings: GroupSettings,
}

/// A group exists.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GroupDefined {
    /// Its number.
    id: i32,
    /// The shard that does its work.
    shard: u16,
    /// Give this as `at_least` to reads that must show it.
    position: String,
    /// How far it is.
    #[serde(flatten)]
    late: Late,
}

/// Creates a group, or changes its key and bounds. When it answers 200, its workers can register.
pub(super) async fn define(by: Writer, Body(body): Body) -> Settled<GroupDefined> {
    let right = by.caller.for_site(Permission::Manage)?;
    let GroupRequest { name, worker_key, settings } = parse(body)?;
    if settings.limits.is_some() {
        level::allows(&by.app, Level::LIMITS).await?;
    }
    let command = CatalogueCommand::DefineGroup { name: name.clone(), worker_key, settings };
    let done = by.send(right, ShardId::CATALOGUE, command).await?;
    let Answer::Group { group, shard } = done.answer else { return Err(done.unexpected()) };
    let late = propagation::wait(&by.app, Concerned::Group(name), done.position).await;
    let position = done.position.to_string();
    Ok((late.status(), Json(GroupDefined { id: group.0, shard: shard.0, position, late })))
}

pub(super) const REASON: Asked<String> =
    Asked::text("reason", "Why, for the record; at most 500 characters.");

/// What is frozen, of what the key reaches.
pub(super) async fn freezes(by: Reader) -> Answered<List<FreezeView>> {
    let freezes = by.app.read(|tables| tables.freezes()).await?;
    let reached = freezes.into_iter().filter(|row| &*row.scope == "*" || by.caller.reaches(&row.scope));
    Ok(Json(List::all(reached)))
}

/// What is to be frozen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreezeRequest {
    /// The latest logical time that may be assigned; absent: now.
    #[serde(default)]
    latest: Option<Timestamp>,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Lets no batch beyond a logical time be assigned (BYD-17). When it answers 200, none is from then on.
pub(super) async fn freeze(by: Writer, Path(scope): Path<String>, Body(body): Body) -> Settled<Written> {
    let (FreezeRequest { latest, reason }, group) = (parse(body)?, frozen_group(&scope)?);
    let command = CatalogueCommand::Freeze { group: group.clone(), latest, reason };
    freezes_settled(&by, group, command).await
}

/// Ends a freeze; that of every group and that of one are two.
pub(super) async fn lift(by: Writer, Path(scope): Path<String>, params: Params) -> Settled<Written> {
    let (group, reason) = (frozen_group(&scope)?, params.get(REASON)?.unwrap_or_default());
    let command = CatalogueCommand::LiftFreeze { group: group.clone(), reason };
    freezes_settled(&by, group, command).await
}

async fn freezes_settled(
    by: &Writer,
    group: Option<GroupName>,
    command: CatalogueCommand,
) -> Settled<Written> {
    let name = group.as_ref().map(GroupName::as_str);
    let right = by.caller.for_group_or_site(name, Permission::Operate, Permission::Manage)?;
    by.settled(right, command, group.map_or(Concerned::Everyone, Concerned::Group)).await
}

/// The group that a scope names; `None`: it stands for all groups.
fn frozen_group(scope: &str) -> Result<Option<GroupName>, Problem> {
    if scope == "*" {
        return Ok(None);
    }
    let group = GroupName::try_from(scope);
    group.map(Some).map_err(|error| Problem::field("scope", scope, format!("{error}; or * for all groups")))
}
