use axum::Json;
use axum::extract::Path;
use tidemill_model::{WorkerCommand, WorkerId};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{ReadTables, WorkerFilter};

use super::reader::Reader;
use super::writer::Writer;
use crate::Problem;
use crate::app::{App, shard_in};
use crate::parameter::Asked;
use crate::params::Params;
use crate::view::{List, WorkerView, Written};

pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
/// As the tables name them.
pub(super) const STATE: Asked<String> =
    Asked::word("state", "`live`, `lost` or `gone`.", &["live", "lost", "gone"]);

/// Workers, by id.
pub(super) async fn list(by: Reader, params: Params) -> Result<Json<List<WorkerView>>, Problem> {
    let group = by.caller.listed_group(params.get(GROUP)?)?;
    let filter = WorkerFilter { group, state: params.get(STATE)? };
    List::part(&by.app, &params, move |tables, request| tables.workers(&filter, request)).await
}

/// A worker.
pub(super) async fn get(by: Reader, Path(worker): Path<String>) -> Result<Json<WorkerView>, Problem> {
    let row = worker_row(&by.app, worker).await?;
    by.caller.may_read(&row.group_name)?;
    Ok(Json(WorkerView::from(row)))
}

/// The newest registration of a worker.
pub(super) async fn worker_row(app: &App, worker: String) -> Result<WorkerRow, Problem> {
    let id = worker.clone();
    let rows = app.read(move |tables| tables.worker(&id)).await?;
    rows.into_iter().next().ok_or_else(|| Problem::unknown("worker", worker))
}

/// The worker takes no new work.
pub(super) async fn drain(by: Writer, path: Path<String>) -> Result<Json<Written>, Problem> {
    switch(by, path, |worker| WorkerCommand::Drain { worker }).await
}

/// The worker takes work again.
pub(super) async fn resume(by: Writer, path: Path<String>) -> Result<Json<Written>, Problem> {
    switch(by, path, |worker| WorkerCommand::Resume { worker }).await
}

async fn switch(
    by: Writer,
    Path(worker): Path<String>,
    command: impl FnOnce(WorkerId) -> WorkerCommand,
) -> Result<Json<Written>, Problem> {
    let row = worker_row(&by.app, worker).await?;
    let right = by.caller.for_group(&row.group_name)?;
    by.written(right, shard_in(row.shard), command(WorkerId::new(&*row.id))).await
}
