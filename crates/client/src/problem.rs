//! What a server answers in place of what was asked for: problem+json (RFC 9457).

use std::fmt;

use serde_json::Value;

/// Why a server refuses a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// For people: what happened, and what to do. May be empty.
    pub detail: String,
    /// For programs; stable. None where something between client and server has answered.
    pub code: Option<String>,
    /// The fields that cannot be accepted.
    pub errors: Vec<BadField>,
    /// When to try again, seconds.
    pub retry_after_s: Option<u64>,
}

/// A field that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BadField {
    /// Its path, as `jobs[0].priority`.
    pub field: String,
    /// What it was; may be empty.
    pub value: String,
    /// What it has to be.
    pub rule: String,
}

impl Problem {
    /// The problem that an answer holds. A body of another form is one without details.
    pub fn new(status: u16, body: &Value) -> Self {
        let errors = body.get("errors").and_then(Value::as_array).into_iter().flatten();
        Self {
            status,
            title: text(body, "title"),
            detail: text(body, "detail"),
            code: Some(text(body, "code")).filter(|code| !code.is_empty()),
            errors: errors.map(BadField::new).collect(),
            retry_after_s: body.get("retry_after_s").and_then(Value::as_u64),
        }
    }

    /// The number and name of the status, as `503 Service Unavailable`.
    pub fn status_line(&self) -> String {
        match reqwest::StatusCode::from_u16(self.status) {
            Ok(status) => status.to_string(),
            Err(_) => self.status.to_string(),
        }
    }
}

impl BadField {
    fn new(error: &Value) -> Self {
        Self { field: text(error, "field"), value: text(error, "value"), rule: text(error, "rule") }
    }
}

fn text(body: &Value, field: &str) -> String {
    body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.detail.as_str(), self.title.as_str()) {
            ("", "") => f.write_str("the server refused it"),
            ("", said) | (said, _) => f.write_str(said),
        }
    }
}

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, rule } = self;
        match value.as_str() {
            "" => write!(f, "{field}: {rule}"),
            value => write!(f, "{field}: {value:?}: {rule}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problem_is_read_from_any_body() {
        let problem = Problem::new(
            422,
            &json!({"title": "Invalid", "detail": "1 field", "code": "invalid", "retry_after_s": 3,
                "errors": [{"field": "jobs[0].priority", "value": "12", "rule": "must be 0 to 9"}, {"field": "a", "rule": "r"}, 7]}),
        );
        assert_eq!((problem.code.as_deref(), problem.retry_after_s), (Some("invalid"), Some(3)));
        let told: Vec<_> = problem.errors.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["jobs[0].priority: \"12\": must be 0 to 9", "a: r", ": "]);
        assert_eq!(problem.to_string(), "1 field");
        let other = Problem::new(503, &Value::Null);
        assert_eq!((other.to_string().as_str(), other.code.as_deref()), ("the server refused it", None));
        assert_eq!(other.status_line(), "503 Service Unavailable");
    }
}
