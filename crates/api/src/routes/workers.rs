use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use tidemill_model::{Command, ShardId, WorkerCommand, WorkerId};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{ReadTables, WorkerFilter};

use super::run::written;
use crate::Problem;
use crate::app::App;
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::Caller;
use crate::view::{List, WorkerView, Written};
use crate::write::Write;

pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
/// As the tables name them.
pub(super) const STATE: Asked<String> =
    Asked::word("state", "`live`, `lost` or `gone`.", &["live", "lost", "gone"]);

/// Workers, by id.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<WorkerView>>, Problem> {
    let group = caller.listed_group(params.get(GROUP)?)?;
    let filter = WorkerFilter { group, state: params.get(STATE)? };
    let request = params.page()?;
    let page = app.read(move |tables| tables.workers(&filter, &request)).await?;
    Ok(Json(List::of(page, WorkerView::from)))
}

/// A worker.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(worker): Path<String>,
) -> Result<Json<WorkerView>, Problem> {
    let row = worker_row(&app, worker).await?;
    caller.may_read(&row.group_name)?;
    Ok(Json(WorkerView::from(row)))
}

/// The newest registration of a worker.
pub(super) async fn worker_row(app: &App, worker: String) -> Result<WorkerRow, Problem> {
    let id = worker.clone();
    let rows = app.read(move |tables| tables.worker(&id)).await?;
    rows.into_iter().next().ok_or_else(|| Problem::unknown("worker", worker))
}

/// The worker takes no new work.
pub(super) async fn drain(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    path: Path<String>,
    headers: HeaderMap,
) -> Result<Json<Written>, Problem> {
    switch(app, caller, path, headers, |worker| Command::Worker(WorkerCommand::Drain { worker })).await
}

/// The worker takes work again.
pub(super) async fn resume(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    path: Path<String>,
    headers: HeaderMap,
) -> Result<Json<Written>, Problem> {
    switch(app, caller, path, headers, |worker| Command::Worker(WorkerCommand::Resume { worker })).await
}

async fn switch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(worker): Path<String>,
    headers: HeaderMap,
    command: impl FnOnce(WorkerId) -> Command,
) -> Result<Json<Written>, Problem> {
    let row = worker_row(&app, worker).await?;
    let right = caller.for_group(&row.group_name)?;
    let shard = ShardId(u16::try_from(row.shard).expect("the tables hold the shard that an event named"));
    let command = command(WorkerId::new(&*row.id));
    written(Write::new(&app, right, &headers)?.send(shard, command).await?)
}
