//! What a caller is told when something is not done: problem+json (RFC 9457), always with a code for programs
//! and, where there is one, the field, its value and the rule.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_cluster::SubmitError;
use tidemill_model::{FieldError, RefusalReason, Rejection};

use crate::refusals::Refused;

/// The code where the database of the read tables does not answer.
pub(crate) const TABLES_UNAVAILABLE: &str = "tables_unavailable";

/// An answer of status 4xx or 5xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// `urn:tidemill:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// The status in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// For people: what happened, and what to do.
    pub detail: Box<str>,
    /// For programs; stable.
    pub code: &'static str,
    /// The fields that cannot be accepted, with the rule that each breaks.
    pub errors: Vec<FieldError>,
    /// When to try again, seconds; also in the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// What the audit list says of it, where its status does not.
    #[serde(skip)]
    pub(crate) refused: Option<RefusalReason>,
}

impl Problem {
    /// A problem without fields.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Box<str>>) -> Self {
        Self {
            kind: format!("urn:tidemill:problem:{code}").into(),
            title: status.canonical_reason().unwrap_or("error"),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            errors: Vec::new(),
            retry_after_s: None,
            refused: None,
        }
    }

    /// Fields that cannot be accepted.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail) }
    }

    /// One field that cannot be accepted.
    pub fn field(field: impl Into<String>, value: impl ToString, rule: impl Into<String>) -> Self {
        Self::fields(vec![FieldError::new(field, value, rule)])
    }

    /// There is no such thing.
    pub fn unknown(what: &str, id: impl ToString) -> Self {
        Self::from(Rejection::unknown(what, id))
    }

    /// The caller is known and may not.
    pub fn forbidden(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// There is such a thing, which the caller may not see: the answer is the same.
    pub(crate) fn foreign(self) -> Self {
        Self { refused: Some(RefusalReason::Forbidden), ..self }
    }

    /// Somebody is not even looked at.
    pub(crate) fn unseen(self) -> Self {
        Self { refused: Some(RefusalReason::Unauthenticated), ..self }
    }

    /// The caller is not known.
    pub fn unauthorized() -> Self {
        let detail =
            "the application key is missing or wrong; send it as `Authorization: Bearer <app>:<secret>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// Somebody could not be signed in.
    pub(crate) fn not_signed_in(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_signed_in", detail)
    }

    /// What a person signed in with is not good.
    pub(crate) fn signed_out() -> Self {
        let detail = "the session or token is over or was ended; sign in again, or take another token";
        Self::new(StatusCode::UNAUTHORIZED, "signed_out", detail)
    }

    /// Something that this answer needs does not work at the moment.
    pub fn unavailable(code: &'static str, detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(1)
    }

    /// A bound was reached.
    pub fn overloaded(detail: impl Into<Box<str>>, retry_after_s: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", detail).retry_after(retry_after_s)
    }

    /// A fault of this program; the cause is in its log, not in the answer.
    pub fn internal(what: &str) -> Self {
        let detail = format!("{what}; the cause is in the log of this instance");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// With the time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("made from a status")
    }

    /// The answer, with further members beside those of the problem.
    pub(crate) fn with_members(self, members: serde_json::Value) -> Response {
        let mut body = serde_json::to_value(&self).expect("a problem is JSON");
        if let (Some(body), serde_json::Value::Object(members)) = (body.as_object_mut(), members) {
            body.extend(members);
        }
        self.respond(Json(body))
    }

    fn respond(&self, body: impl IntoResponse) -> Response {
        let mut response = (self.status(), body).into_response();
        if let Some(reason) = self.refused {
            response.extensions_mut().insert(Refused(reason));
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.respond(Json(&self))
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let status = match &rejection {
            Rejection::Invalid { .. } | Rejection::Cycle { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Rejection::Unknown { .. } | Rejection::UserUnknown { .. } => StatusCode::NOT_FOUND,
            Rejection::BatchAlreadyFinished { .. }
            | Rejection::NotWaitedFor { .. }
            | Rejection::BatchUnfinished { .. }
            | Rejection::JobUnfinished { .. }
            | Rejection::JobInUse { .. }
            | Rejection::JobNotMoved { .. }
            | Rejection::JobMoving { .. }
            | Rejection::CalendarInUse { .. }
            | Rejection::PoolInUse { .. }
            | Rejection::UserElsewhere { .. }
            | Rejection::UserMoving { .. }
            | Rejection::GrantLive { .. }
            | Rejection::GrantOver { .. }
            | Rejection::AlreadyCompleted { .. }
            | Rejection::NotReturned { .. }
            | Rejection::TaskDeleted { .. }
            | Rejection::JobDisabled { .. }
            | Rejection::StaleToken { .. }
            | Rejection::OutOfOrder { .. }
            | Rejection::RequestKeyReused {}
            | Rejection::ApplyRunning { .. }
            | Rejection::RevisionChanged { .. }
            | Rejection::PlanOutdated { .. }
            | Rejection::RerunNotReady { .. }
            | Rejection::AlreadyThere { .. } => StatusCode::CONFLICT,
            Rejection::BadRegistration { .. } | Rejection::TooOld { .. } => StatusCode::FORBIDDEN,
            Rejection::LimitReached { .. } => StatusCode::TOO_MANY_REQUESTS,
            Rejection::WrongShard { .. } | Rejection::DeadLettered { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let mut problem = Self::new(status, rejection.code(), rejection.to_string());
        match rejection {
            Rejection::Invalid { fields } => problem.errors = fields,
            Rejection::Cycle { path } => {
                let rule =
                    "a job cannot wait for itself, directly or through others; remove one of these parents";
                problem.errors = vec![FieldError::new("parents", path.join(" → "), rule)];
            }
            Rejection::Unknown { what, id } => {
                let rule = format!("must name a {what} that exists");
                problem.errors = vec![FieldError::new(what, id, rule)];
            }
            Rejection::RequestKeyReused {} => {
                let rule = "was used for another request before; draw a new one for each request";
                problem.errors = vec![FieldError::new("Idempotency-Key", "", rule)];
            }
            Rejection::LimitReached { .. } => problem.retry_after_s = Some(5),
            Rejection::UserUnknown { user, .. } => {
                let rule =
                    "must be assigned to a group first: POST /api/pull/users, or `tidemill pull user assign`";
                problem.errors = vec![FieldError::new("user", user, rule)];
            }
            Rejection::UserMoving { .. } | Rejection::JobMoving { .. } => problem.retry_after_s = Some(1),
            Rejection::ApplyRunning { .. } | Rejection::RevisionChanged { .. } => {
                problem.retry_after_s = Some(1)
            }
            _ => {}
        }
        problem
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let detail = error.to_string();
        match error {
            SubmitError::Overloaded { retry_after_s, .. } => Self::overloaded(detail, retry_after_s),
            SubmitError::Unavailable { .. } => Self::unavailable("log_unavailable", detail),
            SubmitError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail),
            SubmitError::Unknown { .. } => Self::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", detail),
            SubmitError::Stopped => Self::unavailable("stopping", detail),
        }
    }
}

impl From<tidemill_store::Error> for Problem {
    fn from(error: tidemill_store::Error) -> Self {
        if let tidemill_store::Error::BadCursor { cursor } = &error {
            return Self::field(
                "cursor",
                cursor,
                "must be the `next` of an answer to the same list and filters",
            );
        }
        if let tidemill_store::Error::Building { .. } = &error {
            return Self::unavailable("tables_building", error.to_string());
        }
        tracing::warn!(error = &error as &dyn std::error::Error, "a read of the tables failed");
        Self::unavailable(
            TABLES_UNAVAILABLE,
            "the database of the read tables is away, or cannot be read at the moment, and this call needs it; try again \
             later. Pulls, kills, submissions and runs by a job's number go on without it",
        )
    }
}
