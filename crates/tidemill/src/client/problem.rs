//! A server's problem+json, told to people.

use serde_json::Value;

use super::Kind;
use crate::exit::Exit;
use crate::failure::Failure;

/// The failure that an error answer stands for.
pub(crate) fn failure(status: u16, problem: &Value, kind: Kind) -> Failure {
    let text = |name: &str| problem.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = text("detail").or_else(|| text("title")).unwrap_or("the server refused it");
    let mut failure = Failure::new(exit(status, kind), message);
    for error in problem.get("errors").and_then(Value::as_array).into_iter().flatten() {
        failure = failure.detail(field_line(error));
    }
    match hint(status, text("code")) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn exit(status: u16, kind: Kind) -> Exit {
    match (status, kind) {
        (400 | 405 | 411 | 413 | 414 | 415 | 422 | 431, _) => Exit::BadInput,
        (404 | 410, _) => Exit::NotFound,
        (401 | 403 | 409 | 412 | 423 | 429, _) => Exit::Refused,
        (502 | 503, _) => Exit::Unreachable,
        (500 | 504, Kind::Write) => Exit::OutcomeUnknown,
        _ => Exit::Failure,
    }
}

/// `field: "value": rule`, the way every message names what is wrong.
fn field_line(error: &Value) -> String {
    let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("");
    match (part("field"), part("value"), part("rule")) {
        (field, "", rule) => format!("{field}: {rule}"),
        (field, value, rule) => format!("{field}: {value:?}: {rule}"),
    }
}

fn hint(status: u16, code: Option<&str>) -> Option<&'static str> {
    match (status, code) {
        (401, _) => Some("the key is APP:SECRET; it comes from --key, TIDEMILL_KEY or <data>/admin.key"),
        (403, _) => Some("a key with more rights, or bound to this group, may do it: `tidemill key ls`"),
        (429, _) => Some("the server is at a declared bound; wait and repeat"),
        (_, Some("batch_unfinished")) => Some("wait for it, or end it with `tidemill batch kill`"),
        (_, Some("job_disabled")) => Some("switch it on with `tidemill job enable`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A6: a bad field is told with its name, value and rule.
    #[test]
    fn problem_names_field_value_and_rule() {
        let problem = json!({
            "title": "Invalid", "status": 422, "code": "invalid", "detail": "1 field cannot be accepted",
            "errors": [{"field": "jobs[0].priority", "value": "12", "rule": "must be 0 (highest) to 9"}],
        });
        let failure = failure(422, &problem, Kind::Write);
        expect_test::expect![[r#"
            error: 1 field cannot be accepted
              jobs[0].priority: "12": must be 0 (highest) to 9"#]]
        .assert_eq(&failure.to_string());
        assert_eq!(failure.exit, Exit::BadInput);
    }

    #[test]
    fn status_decides_the_exit_code() {
        let table = [
            (400, Kind::Write, Exit::BadInput),
            (401, Kind::Read, Exit::Refused),
            (403, Kind::Write, Exit::Refused),
            (404, Kind::Read, Exit::NotFound),
            (409, Kind::Write, Exit::Refused),
            (413, Kind::Write, Exit::BadInput),
            (422, Kind::Write, Exit::BadInput),
            (429, Kind::Write, Exit::Refused),
            (503, Kind::Write, Exit::Unreachable),
            (504, Kind::Write, Exit::OutcomeUnknown),
            (504, Kind::Read, Exit::Failure),
        ];
        for (status, kind, expected) in table {
            assert_eq!(exit(status, kind), expected, "{status} {kind:?}");
        }
    }
}
