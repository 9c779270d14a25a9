//! Notes refused calls, and reports them to the catalogue once a minute, with credentials that were used: a flood of them makes
//! one command (API-9).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use tidemill_cluster::{SubmitError, SubmitRequest, request_id};
use tidemill_journal::now;
use tidemill_model::{
    AccessCommand, Actor, CredentialCommand, Level, LiveAnswer, LiveQuery, Outcome, Refusal, RefusalReason,
    ShardId,
};
use tidemill_serving::Peer;

use crate::app::App;
use crate::auth::{Credentials, user_of};
use crate::refusals::{Refused, RefusedCall, Shown};

/// From one report to the next.
const EVERY: Duration = Duration::from_secs(60);
/// For the last one, when the program stops.
const LAST: Duration = Duration::from_secs(2);
/// As the record names a process of the program.
const PROCESS: &str = "process";

/// Notes the call where it is refused. What comes after it is told where the request came from, instead of by whom it was passed on.
pub(crate) async fn noted(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let shown = Shown::default();
    request.extensions_mut().insert(shown.clone());
    let headers = request.headers();
    let named = app_of(headers).or_else(|| app_in_query(request.uri()));
    let person = user_of(headers).filter(|person| !person.is_empty()).map(|person| person.to_string());
    let call = format!("{} {}", request.method(), request.uri().path());
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.map(|Peer(peer)| Peer(app.proxies.origin(peer, request.headers())));
    let address = peer.map(|Peer(address)| address.to_string());
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    let response = next.run(request).await;
    if let Some(reason) = reason_of(&response) {
        let named = named.or_else(|| shown.app().map(str::to_owned));
        let person = shown.person().map(str::to_owned).or(person);
        let (app_name, address) = (named.unwrap_or_default(), address.unwrap_or_default());
        app.refusals.note(RefusedCall { app: app_name, person, call, address, reason }, now());
    }
    response
}

fn reason_of(response: &Response) -> Option<RefusalReason> {
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(RefusalReason::Unauthenticated),
        StatusCode::FORBIDDEN => Some(RefusalReason::Forbidden),
        _ => response.extensions().get::<Refused>().map(|Refused(reason)| *reason),
    }
}

/// The application that headers name, with a secret or without.
fn app_of(headers: &HeaderMap) -> Option<String> {
    let named = || headers.get("x-app-name")?.to_str().ok().map(str::to_owned);
    Credentials::from_headers(headers).map(|shown| shown.app()).or_else(named)
}

fn app_in_query(uri: &Uri) -> Option<String> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    pairs.into_iter().find(|(name, _)| name == "app_name").map(|(_, app)| app)
}

/// Reports what was refused, once a minute, until the program stops; [`report_last`] is for what is left then.
pub(crate) async fn run(app: Arc<App>) {
    let mut stopping = app.stopping.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        report(&app).await;
        report_uses(&app).await;
    }
}

/// Reports what was refused since the last time, when the program stops.
pub(crate) async fn report_last(app: &App) {
    if tokio::time::timeout(LAST, report(app)).await.is_err() {
        tracing::warn!(
            "the calls that were refused last are not in the audit list: it took too long to report them"
        );
    }
}

/// What certainly did not arrive is reported with the next minute's.
async fn report(app: &App) {
    let refusals = app.refusals.take();
    if refusals.is_empty() {
        return;
    }
    let reason = match app.ask(ShardId::CATALOGUE, LiveQuery::Level).await {
        Ok(LiveAnswer::Level(state)) if state.level.allows(Level::DIRECTORY) => {
            return send(app, refusals).await;
        }
        Ok(LiveAnswer::Level(state)) => {
            format!("level {} stands, and they are on record since level {}", state.level, Level::DIRECTORY)
        }
        Ok(_) => "the owner of the catalogue does not say which level stands".to_owned(),
        Err(problem) => problem.detail.into(),
    };
    wait(app, refusals, &reason);
}

async fn send(app: &App, refusals: Vec<Refusal>) {
    let request = SubmitRequest {
        shard: ShardId::CATALOGUE,
        request: request_id(),
        actor: Actor { app: PROCESS.into(), user: None },
        command: AccessCommand::ReportRefusals { refusals: refusals.clone() }.into(),
    };
    let reason = match app.deps.submitter.submit(request, Some(app.config.write_timeout())).await {
        Ok(reply) => match reply.outcome {
            Outcome::Refused(rejection) => rejection.to_string(),
            Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred => return,
        },
        Err(error @ (SubmitError::Overloaded { .. } | SubmitError::Unavailable { .. })) => {
            return wait(app, refusals, &error.to_string());
        }
        // It may be in the log; once more, it might count twice.
        Err(error) => error.to_string(),
    };
    let calls = calls(&refusals);
    tracing::warn!(calls, "{calls} refused calls may not be in the audit list: {reason}");
}

fn wait(app: &App, refusals: Vec<Refusal>, reason: &str) {
    let calls = calls(&refusals);
    tracing::warn!(calls, "{calls} refused calls wait to be in the audit list: {reason}");
    app.refusals.give_back(refusals);
}

fn calls(refusals: &[Refusal]) -> u64 {
    refusals.iter().map(|refusal| u64::from(refusal.count)).sum()
}

/// Reports what was shown since the last time. What does not arrive is reported when it is shown again.
async fn report_uses(app: &App) {
    loop {
        let uses = app.uses.take();
        if uses.is_empty() {
            return;
        }
        let count = uses.len();
        let request = SubmitRequest {
            shard: ShardId::CATALOGUE,
            request: request_id(),
            actor: Actor { app: PROCESS.into(), user: None },
            command: CredentialCommand::ReportUses { uses }.into(),
        };
        let reason = match app.deps.submitter.submit(request, Some(app.config.write_timeout())).await {
            Ok(reply) => match reply.outcome {
                Outcome::Refused(rejection) => rejection.to_string(),
                Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred => continue,
            },
            Err(error) => error.to_string(),
        };
        tracing::warn!(count, "that {count} credentials were used is not on record: {reason}");
        return;
    }
}
