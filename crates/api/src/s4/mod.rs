//! The job calls whose form is given from outside (API-1, API-2): their fields, types and methods are exactly
//! those, with `app_name` and `app_key` as fields or as the headers `X-App-Name` and `X-App-Key`.
//!
//! On a recurring job they mean its newest batch. A submission or kill that is refused for what it says is
//! answered 200 with the reason; what fails before that (key, form, bounds, log) is a problem that also holds
//! the call's own fields.

mod host_names;
mod log;
mod newest;
mod submit;
mod worker;
mod worker_address;

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use tidemill_model::{JobId, LogStream, Permission, RefusalReason};

use crate::Problem;
use crate::app::App;
use crate::auth::{Credentials, user_of};
use crate::body::{Body, bad_body};
use crate::call::{Call, Calls};
use crate::log_stores::OUTPUTS;
use crate::parameter::{Asked, Parameter};
use crate::params::Params;
use crate::refusals::{Refused, Shown};
use crate::rights::{Asks, Caller};
use crate::routes::MAX_LINES;
use crate::standing::Standing;

const APP_NAME: Asked<String> =
    Asked::text("app_name", "Name of the application key; or the header X-App-Name.");
const APP_KEY: Asked<String> =
    Asked::text("app_key", "Its secret; better in the header X-App-Key, which no access log holds.");
const JOB: Asked<JobId> = Asked::id("job_id", "The job.").required();
const TYPE: Asked<LogStream> = Asked::new("type", "1 (stdout) or 2 (stderr).", OUTPUTS).required();
const OFFSET: Asked<u64> = Asked::number(
    "offset",
    "The `offset` of the answer before; default 0, where the batch's first attempt begins. It is of the batch as a whole, so \
     that whoever passes back what was given reads one attempt after the other and skips nothing: attempt N begins at \
     (N - 1) * 2^40, and a byte of it stands so many further on.",
    0,
    i64::MAX as u64,
);

const LINES: Asked<u64> =
    Asked::number("lines", "Lines at most, 1 to 10000, and 1 MiB; default 100.", 1, MAX_LINES);

/// The parameters of a call about a job.
const OF_JOB: [Parameter; 3] = [APP_NAME.parameter, APP_KEY.parameter, JOB.parameter];
/// Of one about its log.
const OF_LOG: [Parameter; 4] = [APP_NAME.parameter, APP_KEY.parameter, JOB.parameter, TYPE.parameter];
/// Of one about a part of that.
const OF_PART: [Parameter; 6] =
    [APP_NAME.parameter, APP_KEY.parameter, JOB.parameter, TYPE.parameter, OFFSET.parameter, LINES.parameter];

/// The calls, with keys of their own form.
pub(crate) fn calls() -> Calls {
    Calls::default()
        .add(
            Call::act("/api/job/submit", "Submits a job; without cron and dependencies it runs at once")
                .needing(Permission::Edit)
                .key_in_fields()
                .takes::<submit::SubmitRequest>()
                .gives::<submit::Submitted>(),
            submit::submit,
        )
        .add(
            Call::get("/api/log", "A part of the log of a job's newest batch, over all its attempts")
                .named("getJobLog")
                .of_group(Permission::ReadLogs)
                .key_in_fields()
                .query(&OF_PART)
                .gives::<log::JobLog>(),
            log::read,
        )
        .add(
            Call::get("/api/log/download", "The whole log of the newest attempt of a job's newest batch")
                .named("downloadJobLog")
                .of_group(Permission::ReadLogs)
                .key_in_fields()
                .query(&OF_LOG)
                .gives_media("text/plain"),
            log::download,
        )
        .add(
            Call::get("/api/job/status", "The state of a job's newest batch")
                .of_group(Permission::View)
                .key_in_fields()
                .query(&OF_JOB)
                .gives::<newest::JobStatus>(),
            newest::status,
        )
        .add(
            Call::remove("/api/job/kill", "Ends the newest unfinished batch of a job")
                .named("killJob")
                .key_in_fields()
                .query(&OF_JOB)
                .gives::<newest::Killed>(),
            newest::kill,
        )
        .add(
            Call::act("/api/worker/status", "Takes a worker off duty, or on again")
                .named("setWorkerStatus")
                .key_in_fields()
                .takes::<worker::WorkerStatusRequest>()
                .gives::<worker::WorkerSwitched>(),
            worker::switch,
        )
}

/// Who calls, by query parameters or headers.
async fn caller_by_query(app: &App, params: &Params, headers: &HeaderMap) -> Result<Caller, Problem> {
    app.authenticate(shown_by_query(params, headers)?.as_ref(), user_of(headers)).await
}

/// As [`caller_by_query`], for an answer that goes on.
async fn standing_by_query(
    app: &Arc<App>,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Standing, Problem> {
    let caller = caller_by_query(app, params, headers).await?;
    Ok(Standing::new(app, shown_by_query(params, headers)?.as_ref(), &caller))
}

fn shown_by_query(params: &Params, headers: &HeaderMap) -> Result<Option<Credentials>, Problem> {
    shown(params.get(APP_NAME)?, params.get(APP_KEY)?, headers)
}

/// The key in fields of the call, else that of headers. A part of one is no key, and is not passed over either.
fn shown(
    name: Option<String>,
    secret: Option<String>,
    headers: &HeaderMap,
) -> Result<Option<Credentials>, Problem> {
    let by_headers = Credentials::from_headers(headers);
    let rule =
        |other: &str| format!("must stand beside {other}; else leave both out and show the key in headers");
    match (name, secret) {
        (Some(app), Some(secret)) => Ok(Some(Credentials::Key { app, secret })),
        (None, None) => Ok(by_headers),
        _ if by_headers.is_none() => Ok(None),
        // The headers show the key of this name.
        (Some(app), None) if by_headers.as_ref().is_some_and(|shown| shown.app() == app) => Ok(by_headers),
        (Some(app), None) => Err(Problem::field("app_name", app, rule("app_key"))),
        (None, Some(_)) => Err(Problem::field("app_key", "(secret)", rule("app_name"))),
    }
}

/// The body of a call, with the caller's key in it or not. Where headers show a key, it is looked at before a byte of
/// the body is read.
async fn body_of(app: &Arc<App>, mut request: Request) -> Result<Value, Problem> {
    let shown = request.extensions().get::<Shown>().cloned();
    let headers = request.headers();
    if let Some(shown) = Credentials::from_headers(headers) {
        let caller = app.authenticate(Some(&shown), user_of(headers)).await?;
        request.extensions_mut().insert(caller);
    }
    let Body(body) = Body::from_request(request, app).await?;
    if let (Some(shown), Some(app)) = (shown, body["app_name"].as_str()) {
        shown.set(app);
    }
    if !body.is_object() {
        return Err(bad_body(StatusCode::BAD_REQUEST, "not_an_object", "must be a JSON object".to_owned()));
    }
    Ok(body)
}

/// Who calls, by fields of the body, which are taken out of it, or headers.
async fn caller_by_body(app: &App, body: &mut Value, headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut text = |field: &'static str| match body.as_object_mut().and_then(|body| body.remove(field)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::field(field, "(not shown)", "must be text")),
    };
    let (name, secret) = (text("app_name")?, text("app_key")?);
    let caller = app.authenticate(shown(name, secret, headers)?.as_ref(), user_of(headers)).await?;
    Ok(caller.asking(Asks::new([body.to_string().as_bytes()])))
}

/// A refusal in the call's own form: 200 where the call was understood and refused for what it says, else the
/// problem's status.
fn refused(problem: Problem, mut members: Value) -> Response {
    members["message"] = json!(problem.detail);
    let is_answer = matches!(
        problem.status(),
        StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::FORBIDDEN
    );
    if !is_answer {
        return problem.with_members(members);
    }
    members["code"] = json!(problem.code);
    members["errors"] = json!(problem.errors);
    let mut response = Json(members).into_response();
    if problem.status() == StatusCode::FORBIDDEN || problem.refused == Some(RefusalReason::Forbidden) {
        response.extensions_mut().insert(Refused(RefusalReason::Forbidden));
    }
    response
}
