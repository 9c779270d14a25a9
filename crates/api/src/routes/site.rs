use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_model::{Permission, ShardCommand, ShardId, Timestamp};
use tidemill_store::{DeadLetterFilter, PageRequest, ReadAudit};

use super::requests::Writer;
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::id;
use crate::ports::{ClusterStatus, OperationStatus, RebuildRequest, Task};
use crate::view::{Answered, Written};

/// Dead letters are counted up to so many.
const MAX_COUNTED: usize = 1_000;
/// How long an answer whether it is ready holds.
const READY_FOR: Duration = Duration::from_millis(250);

pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// It can do its work; not while it stops, so that no new work is sent to it.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Answered<Value> {
    if *app.stopping.borrow() {
        return Err(Problem::unavailable("stopping", "this instance is stopping"));
    }
    let ready = ready(&app).await;
    ready.map_err(|reason| Problem::unavailable("not_ready", reason))?;
    Ok(Json(json!({"status": "ready"})))
}

/// Anybody may ask, so all who ask at once share one look.
async fn ready(app: &App) -> Result<(), String> {
    let mut last = app.ready.lock().await;
    match &*last {
        Some((at, ready)) if at.elapsed() < READY_FOR => ready.clone(),
        _ => {
            let ready = app.deps.cluster.ready().await;
            *last = Some((Instant::now(), ready.clone()));
            ready
        }
    }
}

/// The text of the document of all calls. Made once: anybody may ask for it.
pub(crate) type Document = &'static LazyLock<Bytes>;

/// The document of this interface, which whoever serves it gives.
pub(super) async fn openapi(Extension(document): Extension<Document>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], Bytes::clone(document))
}

/// The partitions and how far each is, and what was set aside.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StatusView {
    #[serde(flatten)]
    cluster: ClusterStatus,
    /// Dead letters that are open, counted up to 1,000; null: the tables cannot be read.
    open_dead_letters: Option<usize>,
}

pub(super) async fn status(State(app): State<Arc<App>>) -> Answered<StatusView> {
    let status = app.deps.cluster.status().await;
    let cluster = status.map_err(|reason| Problem::unavailable("status_unavailable", reason))?;
    let open = DeadLetterFilter { is_open: Some(true), ..DeadLetterFilter::default() };
    let count = move |tables: &dyn tidemill_store::Tables| {
        Ok(tables.dead_letters(&open, &PageRequest::first(MAX_COUNTED))?.items.len())
    };
    let open_dead_letters = app.read(count).await.ok();
    Ok(Json(StatusView { cluster, open_dead_letters }))
}

pub(super) async fn operation(State(app): State<Arc<App>>) -> Answered<Option<OperationStatus>> {
    Ok(Json(app.deps.admin.status()))
}

/// Begins to rebuild tables or hints, or to say what that would do.
pub(super) async fn rebuild(State(app): State<Arc<App>>, Body(body): Body) -> Answered<OperationStatus> {
    let request: RebuildRequest = parse(body)?;
    if let Some((field, value, rule)) = request.conflict() {
        return Err(Problem::field(field, value, rule));
    }
    begin(&app, Task::Rebuild(request))
}

/// Begins to compare the read tables with the journal.
pub(super) async fn verify(State(app): State<Arc<App>>) -> Answered<OperationStatus> {
    begin(&app, Task::Verify)
}

fn begin(app: &App, task: Task) -> Answered<OperationStatus> {
    app.deps.admin.begin(task).map(Json).map_err(|running| {
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
) -> Answered<Written> {
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
    let right = by.caller.for_site(Permission::Manage)?;
    by.written(right, shard, ShardCommand::SetTime { now: at }).await
}
