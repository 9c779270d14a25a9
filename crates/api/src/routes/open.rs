use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde_json::{Value, json};

use crate::Problem;
use crate::app::App;

/// How long an answer whether it is ready holds.
const READY_FOR: Duration = Duration::from_millis(250);

/// The process lives.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// It can do its work; not while it stops, so that no new work is sent to it.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
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
