use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::Problem;
use crate::app::App;
use crate::params::Params;
use crate::ports::ClusterStatus;

/// The partitions and how far each is.
pub(super) async fn status(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<ClusterStatus>, Problem> {
    params.only(&[])?;
    let status = app.deps.cluster.status().await;
    status.map(Json).map_err(|reason| Problem::unavailable("status_unavailable", reason))
}
