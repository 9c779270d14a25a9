use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::{Problem, openapi};

/// The process lives.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// It can do its work; not while it stops, so that no new work is sent to it.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    if *app.stopping.borrow() {
        return Err(Problem::unavailable("stopping", "this instance is stopping"));
    }
    app.deps.cluster.ready().await.map_err(|reason| Problem::unavailable("not_ready", reason))?;
    Ok(Json(json!({"status": "ready"})))
}

/// The document of this interface.
pub(super) async fn openapi() -> Json<Value> {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);
    Json(DOCUMENT.clone())
}
