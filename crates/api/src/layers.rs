//! What happens around every handler: bounds, keys, and waiting for the tables.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tidemill_model::Role;
use tokio::sync::OwnedSemaphorePermit;

use crate::Problem;
use crate::app::App;
use crate::auth::{Credentials, user_of};
use crate::params::Params;
use crate::position::JournalPosition;

/// A place among the requests under way. Who only waits may give it back.
#[derive(Clone)]
pub(crate) struct Entered(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Entered {
    /// Gives the place back.
    pub(crate) fn leave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Refuses what is over the bound on requests under way (OPS-7).
pub(crate) async fn bounded(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let Ok(permit) = Arc::clone(&app.requests).try_acquire_owned() else {
        let bound = app.config.max_requests;
        return Problem::overloaded(format!("{bound} requests are under way, the bound"), 1).into_response();
    };
    let entered = Entered(Arc::new(Mutex::new(Some(permit))));
    request.extensions_mut().insert(entered.clone());
    let response = next.run(request).await;
    entered.leave();
    response
}

/// Finds out who calls; handlers find it in the request's extensions.
pub(crate) async fn authenticated(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let caller = app.authenticate(Credentials::from_headers(headers), user_of(headers)).await?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// As [`authenticated`], and takes the cluster's own secret too: whoever has it may operate the cluster, also
/// while the tables, and with them every application key, are lost.
pub(crate) async fn operating(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let caller = match app.operator(headers) {
        Some(operator) => operator,
        None => app.authenticate(Credentials::from_headers(headers), user_of(headers)).await?,
    };
    caller.has_role(Role::SuperAdministrator)?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Waits until the tables hold what `at_least` names (API-7).
pub(crate) async fn fresh(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let params = <Params as axum::extract::FromRequestParts<()>>::from_request_parts(&mut parts, &()).await?;
    if let Some(text) = params.text("at_least") {
        let position: JournalPosition = text.parse().map_err(|error| Problem::fields(vec![error]))?;
        wait_for(&app, position).await?;
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn wait_for(app: &App, position: JournalPosition) -> Result<(), Problem> {
    let timeout = app.config.at_least_timeout();
    if app.deps.freshness.wait(position.partition, position.offset, timeout).await {
        return Ok(());
    }
    let ms = timeout.as_millis();
    let detail =
        format!("the tables did not reach position {position} within {ms} ms; try again, or read without it");
    Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "not_yet_visible", detail).retry_after(1))
}

/// There is no such call.
pub(crate) async fn not_found(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    let detail = format!("there is no {path} here; /api/openapi.json lists every call");
    Problem::new(StatusCode::NOT_FOUND, "no_such_call", detail)
}

/// There is such a path, for other methods.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    let detail = format!("{path} does not take {method}; /api/openapi.json lists every call");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
}
