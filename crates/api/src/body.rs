//! Bodies: JSON of bounded size. The server ends one that takes too long.

use std::sync::Arc;

use axum::body::Body as Incoming;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidemill_model::{FieldError, closest};
use tidemill_serving::BodyLate;

use crate::Problem;
use crate::app::App;
use crate::layers::Entered;
use crate::rights::Caller;
use crate::standing::Standing;
use crate::unique::Unique;

/// Of a body that is too large, so much is read and thrown away, for a client that is still sending would not
/// hear the answer.
const MAX_DRAINED_BYTES: usize = 32 << 20;

/// Bytes of a body that may hold a whole directory of jobs, whatever other bodies may hold.
pub(crate) const MAX_LARGE_BODY_BYTES: usize = tidemill_cluster::MAX_PLANNED_BYTES;

/// A JSON body. An absent one is an empty object.
pub(crate) struct Body(pub(crate) Value);

/// A JSON body that may be large, not read yet: who reads it does so element by element. An absent one is an empty object.
pub(crate) struct LargeBody(pub(crate) Vec<u8>);

impl FromRequest<Arc<App>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes = json_of(request, app, app.config.max_body_bytes).await?;
        value_of(&bytes).map(Self)
    }
}

impl FromRequest<Arc<App>> for LargeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        json_of(request, app, app.config.max_body_bytes.max(MAX_LARGE_BODY_BYTES)).await.map(Self)
    }
}

/// The value of a body in which no name stands twice.
pub(crate) fn value_of(bytes: &[u8]) -> Result<Value, Problem> {
    let read = serde_json::from_slice(bytes).map(|Unique(value)| value);
    read.map_err(|error| bad_json(&error))
}

async fn json_of(request: Request, app: &App, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    if axum::body::HttpBody::is_end_stream(request.body()) {
        return Ok(b"{}".to_vec());
    }
    if !is_json(request.headers()) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body must be JSON, with the header `Content-Type: application/json`",
        ));
    }
    let asks = request.extensions().get::<Caller>().and_then(Caller::asks).cloned();
    let standing = request.extensions().get::<Standing>().cloned();
    let bytes = arrive(request, app, max_bytes).await?;
    if let Some(standing) = standing {
        standing.still_may().await?;
    }
    if let Some(asks) = asks {
        asks.with_body(&bytes);
    }
    Ok(bytes)
}

/// What is no JSON, or JSON that no call takes.
pub(crate) fn bad_json(error: &serde_json::Error) -> Problem {
    bad_body(StatusCode::BAD_REQUEST, "bad_json", format!("must be JSON: {error}"))
}

/// Whoever waits for a body is not at work: it gives its place among the requests under way back meanwhile.
async fn arrive(mut request: Request, app: &App, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let entered = request.extensions_mut().remove::<Entered>();
    let key = request.extensions().get::<Caller>().map(|caller| Arc::clone(caller.holder()));
    if let Some(entered) = &entered {
        entered.leave();
    }
    let arrival = app.arrivals.begin(key);
    let bytes = tokio::select! {
        biased;
        bytes = read(request.into_body(), max_bytes) => bytes?,
        () = arrival.gives_up() => {
            let detail = "too many bodies are on their way, and this one is the oldest; send it again, in one piece and \
                with the key in a header";
            return Err(Problem::overloaded(detail, 1));
        }
    };
    if let Some(entered) = &entered {
        entered.again(app)?;
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let media = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.strip_prefix("application/").is_some_and(|it| it.ends_with("+json"))
}

async fn read(body: Incoming, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let (mut chunks, mut kept, mut seen) = (body.into_data_stream(), Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| match BodyLate::of(&error) {
            Some(late) => Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", late.to_string()),
            None => bad_body(StatusCode::BAD_REQUEST, "bad_body", format!("broke off: {error}")),
        })?;
        seen += chunk.len();
        if seen > MAX_DRAINED_BYTES {
            break;
        }
        if seen <= max_bytes {
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
        }
    }
    if seen > max_bytes {
        let rule = format!("must have at most {max_bytes} bytes (max_body_bytes)");
        return Err(bad_body(StatusCode::PAYLOAD_TOO_LARGE, "too_large", rule));
    }
    Ok(kept)
}

pub(crate) fn bad_body(status: StatusCode, code: &'static str, rule: String) -> Problem {
    let mut problem = Problem::new(status, code, format!("the body {rule}"));
    problem.errors = vec![FieldError::new("body", "", rule)];
    problem
}

/// Reads a body of known form. The error names the field.
pub(crate) fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    // A list of the fields' values in their order would be read as well.
    if !value.is_object() {
        return Err(Problem::field("body", shown(&value), "must be a JSON object"));
    }
    T::deserialize(&value).map_err(|error: serde_json::Error| {
        let rule = error.to_string();
        let field = rule.split('`').nth(1).filter(|field| rule.contains("field") && !field.is_empty());
        let field = field.map(str::to_owned).or_else(|| field_of::<T>(&value, &rule));
        let field = field.unwrap_or_else(|| "body".to_owned());
        let value = value.get(&field).map(shown).unwrap_or_default();
        let known = rule.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", expected "));
        let meant = known.and_then(|(_, known)| closest(&field, known.split('`').skip(1).step_by(2)));
        let rule = match meant {
            Some(meant) => format!("did you mean `{meant}`? {rule}"),
            None => rule,
        };
        Problem::field(field, value, rule)
    })
}

/// So much of a value that its sender knows it again.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// The field that breaks a rule: alone it breaks the same one.
fn field_of<T: DeserializeOwned>(body: &Value, rule: &str) -> Option<String> {
    let breaks = |(name, value): &(&String, &Value)| {
        let alone = Value::from_iter([((*name).clone(), (*value).clone())]);
        T::deserialize(alone).is_err_and(|error| error.to_string() == rule)
    };
    body.as_object()?.iter().find(breaks).map(|(name, _)| name.clone())
}
