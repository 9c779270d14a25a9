//! Bodies: JSON of bounded size that arrives in bounded time.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Problem;
use crate::app::App;

/// A JSON body. An absent one is an empty object.
pub(crate) struct Body(pub(crate) Value);

impl FromRequest<Arc<App>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        if axum::body::HttpBody::is_end_stream(request.body()) {
            return Ok(Self(Value::Object(serde_json::Map::new())));
        }
        let timeout = app.config.read_timeout();
        match tokio::time::timeout(timeout, Json::<Value>::from_request(request, app)).await {
            Ok(Ok(Json(value))) => Ok(Self(value)),
            Ok(Err(rejection)) => Err(problem(&rejection, app.config.max_body_bytes)),
            Err(_) => {
                let detail = format!("the body did not arrive within {} ms", timeout.as_millis());
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail))
            }
        }
    }
}

fn problem(rejection: &JsonRejection, max_body_bytes: usize) -> Problem {
    match rejection {
        JsonRejection::MissingJsonContentType(_) => Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body must be JSON, with the header `Content-Type: application/json`",
        ),
        JsonRejection::JsonDataError(error) => Problem::field("body", "", error.body_text()),
        JsonRejection::JsonSyntaxError(error) => {
            let detail = error.body_text();
            let mut problem = Problem::new(StatusCode::BAD_REQUEST, "bad_json", detail.as_str());
            problem.errors = vec![tidemill_model::FieldError::new("body", "", detail)];
            problem
        }
        JsonRejection::BytesRejection(error) => bytes_problem(error, max_body_bytes),
        error => Problem::new(error.status(), "bad_body", error.body_text()),
    }
}

fn bytes_problem(error: &BytesRejection, max_body_bytes: usize) -> Problem {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let rule = format!("must have at most {max_body_bytes} bytes (max_body_bytes)");
        let mut problem =
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the body {rule}"));
        problem.errors = vec![tidemill_model::FieldError::new("body", "", rule)];
        return problem;
    }
    Problem::new(error.status(), "bad_body", error.body_text())
}

/// Reads a body of known form. The error names the field.
pub(crate) fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    let given = value.clone();
    serde_json::from_value(value).map_err(|error| {
        let rule = error.to_string();
        let field = rule.split('`').nth(1).filter(|field| rule.contains("field") && !field.is_empty());
        let field = field.unwrap_or("body").to_owned();
        let value = given.get(&field).map(ToString::to_string).unwrap_or_default();
        Problem::field(field, value, rule)
    })
}
