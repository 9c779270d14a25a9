//! What happens around every handler: bounds, keys, and waiting for the tables.

use std::sync::{Arc, Mutex, PoisonError};

use axum::RequestExt;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;

use crate::Problem;
use crate::app::App;
use crate::auth::{Credentials, user_of};
use crate::needs::Needs;
use crate::parameter::Parameter;
use crate::params::{AT_LEAST, Params, is_text};
use crate::position::JournalPosition;
use crate::refusals::Shown;
use crate::rights::{Asks, Caller};
use crate::standing::Standing;
use crate::write::idempotency_key;

/// A place among the requests under way. Who only waits may give it back.
#[derive(Clone)]
pub(crate) struct Entered(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Entered {
    /// Gives the place back.
    pub(crate) fn leave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Takes one again.
    pub(crate) fn again(&self, app: &App) -> Result<(), Problem> {
        let permit = place(app)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        Ok(())
    }
}

fn place(app: &App) -> Result<OwnedSemaphorePermit, Problem> {
    let bound = app.config.max_requests;
    Arc::clone(&app.requests)
        .try_acquire_owned()
        .map_err(|_| Problem::overloaded(format!("{bound} requests are under way, the bound"), 1))
}

/// Refuses what is over the bound on requests under way (OPS-7).
pub(crate) async fn bounded(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let entered = Entered(Arc::new(Mutex::new(Some(place(&app)?))));
    request.extensions_mut().insert(entered.clone());
    let response = next.run(request).await;
    entered.leave();
    Ok(response)
}

/// Finds out who calls; handlers find it in the request's extensions.
pub(crate) async fn authenticated(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let caller = known(&app, &mut request).await?;
    enter(&app, &mut request, caller);
    Ok(next.run(request).await)
}

/// Who calls by what the request shows. Whoever waits for more of the request looks at that again.
async fn known(app: &Arc<App>, request: &mut Request) -> Result<Caller, Problem> {
    let shown = Credentials::from_request(request.headers(), request.method(), app.cookie())?;
    let caller = app.authenticate(shown.as_ref(), user_of(request.headers())).await?;
    request.extensions_mut().insert(Standing::new(app, shown.as_ref(), &caller));
    Ok(caller)
}

/// As [`authenticated`], and takes the operator's secret too: whoever has it may operate the cluster, also while the
/// tables, and with them every application key, are lost.
pub(crate) async fn operating(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let caller = match app.operator(request.headers()) {
        Some(operator) => operator,
        None => known(&app, &mut request).await?,
    };
    enter(&app, &mut request, caller);
    Ok(next.run(request).await)
}

/// Handlers find who calls, and what notes refusals whom the credential is of.
fn enter(app: &App, request: &mut Request, caller: Caller) {
    if let Some(held) = caller.own() {
        app.uses.note(held);
        if let (Some(shown), Some(person)) = (request.extensions().get::<Shown>(), caller.user()) {
            shown.set_person(&person);
        }
    }
    request.extensions_mut().insert(caller);
}

/// Keeps what is asked for under an `Idempotency-Key`, so that the key does not stand for another request later (API-4). Its
/// body belongs to it and is read later, for those who may make the call.
pub(crate) async fn asked(mut request: Request, next: Next) -> Result<Response, Problem> {
    if idempotency_key(request.headers())?.is_some()
        && let Some(caller) = request.extensions_mut().remove::<Caller>()
    {
        let uri = request.uri();
        // How fresh an answer is to be changes nothing of what is done.
        let query = uri.query().unwrap_or_default().split('&').filter(|it| !it.starts_with("at_least="));
        let query = query.collect::<Vec<_>>().join("&");
        let asks = Asks::new([request.method().as_str(), uri.path(), &query].map(str::as_bytes));
        request.extensions_mut().insert(caller.asking(asks));
    }
    Ok(next.run(request).await)
}

/// Lets those through who may make the call at all.
pub(crate) async fn permitted(needs: Needs, request: Request, next: Next) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>();
    let caller =
        caller.ok_or_else(|| Problem::internal("a call that needs a key was reached without one"))?;
    needs.check(caller)?;
    Ok(next.run(request).await)
}

/// Lets those through whose parameters are what the call declares.
pub(crate) async fn declared(
    parameters: Arc<[Parameter]>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let params = request.extract_parts::<Params>().await?.of(parameters)?;
    request.extensions_mut().insert(params);
    Ok(next.run(request).await)
}

/// Waits until the tables hold what `at_least` names (API-7).
pub(crate) async fn fresh(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(text) = request.extract_parts::<Params>().await?.get(AT_LEAST)? {
        let position: JournalPosition = text.parse().map_err(|error| Problem::fields(vec![error]))?;
        wait_for(&app, position).await?;
    }
    Ok(next.run(request).await)
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

/// Refuses paths that are no text, and names the methods that a path takes as the document does: `HEAD` is none of its
/// own.
pub(crate) async fn documented(request: Request, next: Next) -> Response {
    if !is_text(request.uri().path()) {
        let path: String = request.uri().path().chars().take(200).collect();
        return Problem::field("path", path, "must be UTF-8 where it is percent-encoded").into_response();
    }
    let mut response = next.run(request).await;
    if let Some(allow) = response.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok()) {
        let named: Vec<_> = allow.split(',').map(str::trim).filter(|method| *method != "HEAD").collect();
        let named = HeaderValue::try_from(named.join(", ")).expect("a part of a header fits into one");
        response.headers_mut().insert(header::ALLOW, named);
    }
    response
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
