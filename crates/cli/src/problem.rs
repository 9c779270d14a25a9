//! A server's problem+json, told to people.

use tidemill_client::Problem;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::server::Kind;

#[cfg(test)]
mod corpus;

/// The failure that an error answer stands for.
pub(crate) fn failure(problem: &Problem, kind: Kind) -> Failure {
    let Problem { status, code, errors, .. } = problem;
    // The detail of bad fields repeats what the lines below say one by one.
    let message = match (code.as_deref(), errors.len()) {
        (Some("invalid"), 1) => "1 field cannot be accepted".to_owned(),
        (Some("invalid"), count) if count > 1 => format!("{count} fields cannot be accepted"),
        _ if code.as_deref() == Some("unauthorized") => "the application key is not the right one".to_owned(),
        _ => problem.to_string(),
    };
    let mut failure = Failure::new(exit(*status, kind), message);
    for error in errors {
        failure = failure.detail(error.to_string());
    }
    match hint(*status, code.as_deref(), errors.first().map(|error| error.field.as_str()), kind) {
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

fn hint(status: u16, code: Option<&str>, field: Option<&str>, kind: Kind) -> Option<&'static str> {
    match (status, code) {
        (401, Some("signed_out")) => Some("`tidemill login --person NAME` signs in again"),
        (401, Some("not_signed_in")) => None,
        (401, _) => Some("the key is APP:SECRET; it comes from --key, TIDEMILL_KEY or <data>/admin.key"),
        (403, _) => Some("a key with more rights, or bound to this group, may do it: `tidemill key ls`"),
        (413, _) => Some("nothing was changed; split it into several"),
        (429, _) => Some("the server is at a declared bound; wait and repeat"),
        (_, Some("unknown")) => match field {
            Some("job") => Some("`tidemill job ls` lists the jobs"),
            Some("batch") => Some("`tidemill batch ls` lists the batches"),
            Some("worker" | "worker or host") => {
                Some("`tidemill worker ls` lists the workers and their hosts")
            }
            Some("group") => Some("`tidemill group ls` lists the groups"),
            Some("user") => Some("`tidemill pull user ls` lists the users"),
            Some("task") => Some("`tidemill pull task ls` lists the tasks"),
            Some("template") => Some("`tidemill pull template ls` lists the templates"),
            Some("key") => Some("`tidemill key ls` lists the keys"),
            _ => None,
        },
        (_, Some("batch_unfinished")) => Some("wait for it, or end it with `tidemill batch kill`"),
        (_, Some("batch_already_finished")) => Some("run it once more with `tidemill batch rerun`"),
        (_, Some("job_disabled")) => Some("switch it on with `tidemill job enable`"),
        (_, Some("job_in_use")) => Some(
            "change or delete what needs it first; of a job that others name as parent: `tidemill job delete --orphan-children`",
        ),
        (_, Some("user_unknown")) => Some("give it a group with `tidemill pull user assign GROUP USER`"),
        (_, Some("user_elsewhere")) => {
            Some("`tidemill pull user move USER GROUP` takes its history and tasks with it")
        }
        (_, Some("user_moving")) => Some("wait a second and repeat"),
        (_, Some("grant_live")) => {
            Some("let its client complete it, or give it back with `tidemill pull return`")
        }
        (_, Some("tables_building")) => Some(
            "repeat it later; an interface of the version before answers meanwhile, where one still runs",
        ),
        (_, Some("tables_unavailable")) => {
            Some("`tidemill rebuild` rebuilds the tables where they were lost; the journal has everything")
        }
        (_, Some("invalid" | "cycle")) => match kind {
            Kind::Write => Some("nothing was changed; correct it and repeat"),
            Kind::Read => Some("correct it and repeat"),
        },
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
        let failure = failure(&Problem::new(422, &problem), Kind::Write);
        expect_test::expect![[r#"
            error: 1 field cannot be accepted
              jobs[0].priority: "12": must be 0 (highest) to 9
            hint: nothing was changed; correct it and repeat"#]]
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
