use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::{DeadLetterFilter, PageRequest, ReadTables};

use crate::Problem;
use crate::app::App;
use crate::ports::ClusterStatus;

/// Dead letters are counted up to so many.
const MAX_COUNTED: usize = 1_000;

/// The partitions and how far each is, and what was set aside.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StatusView {
    #[serde(flatten)]
    cluster: ClusterStatus,
    /// Dead letters that are open, counted up to 1,000; null: the tables cannot be read.
    open_dead_letters: Option<usize>,
}

/// The partitions and how far each is.
pub(super) async fn status(State(app): State<Arc<App>>) -> Result<Json<StatusView>, Problem> {
    let status = app.deps.cluster.status().await;
    let cluster = status.map_err(|reason| Problem::unavailable("status_unavailable", reason))?;
    let open = DeadLetterFilter { is_open: Some(true), ..DeadLetterFilter::default() };
    let count = move |tables: &dyn tidemill_store::Tables| {
        Ok(tables.dead_letters(&open, &PageRequest::first(MAX_COUNTED))?.items.len())
    };
    let open_dead_letters = app.read(count).await.ok();
    Ok(Json(StatusView { cluster, open_dead_letters }))
}
