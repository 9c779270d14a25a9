use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{Role, ShardCommand, ShardId, Timestamp};

use super::writer::Writer;
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::id;
use crate::ports::{Operation, OperationStatus};
use crate::view::Written;

/// What goes on, or went on last.
pub(super) async fn status(State(app): State<Arc<App>>) -> Result<Json<Option<OperationStatus>>, Problem> {
    Ok(Json(app.deps.admin.status()))
}

/// Begins to rebuild the read tables.
pub(super) async fn rebuild(State(app): State<Arc<App>>) -> Result<Json<OperationStatus>, Problem> {
    begin(&app, Operation::Rebuild)
}

/// Begins to compare the read tables with the journal.
pub(super) async fn verify(State(app): State<Arc<App>>) -> Result<Json<OperationStatus>, Problem> {
    begin(&app, Operation::Verify)
}

fn begin(app: &App, operation: Operation) -> Result<Json<OperationStatus>, Problem> {
    app.deps.admin.begin(operation).map(Json).map_err(|running| {
        let OperationStatus { operation, records, total_records, .. } = *running;
        let name = operation.as_str();
        let detail = format!("a {name} goes on, at record {records} of {total_records}; one at a time");
        Problem::new(StatusCode::CONFLICT, "operation_running", detail)
    })
}

/// The time that a partition goes on with.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetTimeRequest {
    /// RFC 3339.
    at: Timestamp,
}

/// Sets a partition's clock: for one that ran ahead while the clock of its owner was wrong.
pub(super) async fn set_time(
    by: Writer,
    Path(partition): Path<String>,
    Body(body): Body,
) -> Result<Json<Written>, Problem> {
    let SetTimeRequest { at } = parse(body)?;
    let status = by.app.deps.cluster.status().await;
    let status = status.map_err(|reason| Problem::unavailable("status_unavailable", reason))?;
    let count = u32::try_from(status.partitions.len()).expect("partitions are numbered by u32");
    // Every partition has a shard of its own number.
    let shard = id("partition", &partition).ok().map(ShardId).filter(|shard| u32::from(shard.0) < count);
    let Some(shard) = shard else {
        let rule = format!("must be the number of a partition, 0 to {}", count.saturating_sub(1));
        return Err(Problem::field("partition", partition, rule));
    };
    let right = by.caller.for_site(Role::SuperAdministrator)?;
    by.written(right, shard, ShardCommand::SetTime { now: at }).await
}
