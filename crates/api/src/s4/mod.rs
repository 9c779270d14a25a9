//! The job calls whose form is given from outside (API-1, API-2): their fields, types and methods are exactly
//! those, with `app_name` and `app_key` as fields or as the headers `X-App-Name` and `X-App-Key`.
//!
//! On a recurring job they mean its newest batch. A submission or kill that is refused for what it says is
//! answered 200 with the reason; what fails before that (key, form, bounds, log) is a problem that also holds
//! the call's own fields.

mod kill;
mod log;
mod newest;
mod status;
mod submit;
mod worker;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::Problem;
use crate::app::App;
use crate::auth::{Caller, Credentials, user_of};
use crate::openapi::{Call, Calls, Verb};
use crate::params::Params;

const APP: [(&str, &str); 2] = [
    ("app_name", "Name of the application key; or the header X-App-Name."),
    ("app_key", "Its secret; better in the header X-App-Key, which no access log holds."),
];
const JOB: (&str, &str) = ("job_id", "Required. The job.");
const STREAM: (&str, &str) = ("type", "Required. 1 (stdout) or 2 (stderr).");

/// The calls, with keys of their own form.
pub(crate) fn calls() -> Calls {
    Calls::new()
        .add(
            Call::new(
                Verb::Post,
                "/api/job/submit",
                "Submits a job; without cron and dependencies it runs at once",
            )
            .takes::<submit::SubmitRequest>()
            .gives::<submit::Submitted>(),
            submit::submit,
        )
        .add(
            Call::new(Verb::Get, "/api/log", "A part of the log of a job's newest batch")
                .query(&[
                    APP[0],
                    APP[1],
                    JOB,
                    STREAM,
                    ("offset", "From this byte on; default 0."),
                    ("lines", "Lines at most; default 100."),
                ])
                .gives::<log::JobLog>(),
            log::read,
        )
        .add(
            Call::new(Verb::Get, "/api/log/download", "The whole log of a job's newest batch")
                .query(&[APP[0], APP[1], JOB, STREAM])
                .gives_media("text/plain"),
            log::download,
        )
        .add(
            Call::new(Verb::Get, "/api/job/status", "The state of a job's newest batch")
                .query(&[APP[0], APP[1], JOB])
                .gives::<status::JobStatus>(),
            status::status,
        )
        .add(
            Call::new(Verb::Delete, "/api/job/kill", "Ends the newest unfinished batch of a job")
                .query(&[APP[0], APP[1], JOB])
                .gives::<kill::Killed>(),
            kill::kill,
        )
        .add(
            Call::new(Verb::Post, "/api/worker/status", "Takes a worker off duty, or on again")
                .takes::<worker::WorkerStatusRequest>()
                .gives::<worker::WorkerSwitched>(),
            worker::switch,
        )
}

/// Who calls, by query parameters or headers.
async fn caller_by_query(app: &App, params: &Params, headers: &HeaderMap) -> Result<Caller, Problem> {
    let fields = params.text("app_name").zip(params.text("app_key"));
    caller(app, fields, headers).await
}

/// Who calls, by fields of the body, which are taken out of it, or headers.
async fn caller_by_body(app: &App, body: &mut Value, headers: &HeaderMap) -> Result<Caller, Problem> {
    let fields = body.as_object_mut().and_then(|body| {
        let text = |field: Option<Value>| field.and_then(|value| value.as_str().map(str::to_owned));
        let (name, key) = (text(body.remove("app_name")), text(body.remove("app_key")));
        name.zip(key)
    });
    caller(app, fields, headers).await
}

async fn caller(app: &App, fields: Option<(String, String)>, headers: &HeaderMap) -> Result<Caller, Problem> {
    let shown = match fields {
        Some((app, secret)) => Some(Credentials { app, secret }),
        None => Credentials::from_headers(headers),
    };
    app.authenticate(shown, user_of(headers)).await
}

/// A refusal in the call's own form: 200 where the call was understood and refused for what it says, else the
/// problem's status.
fn refused(problem: Problem, members: Value, message: &str) -> Response {
    let mut members: Map<String, Value> = match members {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    members.insert(message.to_owned(), json!(problem.detail));
    let is_answer = matches!(
        problem.status(),
        StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::FORBIDDEN
    );
    if !is_answer {
        return problem.with_members(Value::Object(members));
    }
    members.insert("code".to_owned(), json!(problem.code));
    members.insert("errors".to_owned(), json!(problem.errors));
    Json(Value::Object(members)).into_response()
}
