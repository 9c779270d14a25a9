//! `tidemill batch …`.

use serde_json::{Value, json};
use tidemill_client::Method;

use super::{Session, external_dependencies, job, logs, rerun, wait, why, write};
use crate::args::{BatchCommand, BatchLsArgs, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render;
use crate::server::Query;

pub(super) fn run(session: &Session<'_>, command: BatchCommand) -> Done<Exit> {
    match command {
        BatchCommand::Ls(args) => list(session, args),
        BatchCommand::Show { batch } => {
            let answer = session.server.get(&format!("/api/batches/{batch}"), &[])?;
            Ok(session.show(&answer, one))
        }
        BatchCommand::Why { batch, as_of } => {
            let moment: Query = as_of.iter().map(|text| ("as_of", text.clone())).collect();
            let answer = session.server.get(&format!("/api/batches/{batch}/why"), &moment)?;
            if session.format.is_for_programs() {
                output::value(session.format, &answer);
                return Ok(Exit::Success);
            }
            let shown = session.server.get(&format!("/api/batches/{batch}"), &[])?;
            let advice = match &as_of {
                Some(_) => Vec::new(),
                None => why::advice(session, &answer, &shown)?,
            };
            output::line(why::told(&answer, &shown, &advice));
            Ok(Exit::Success)
        }
        BatchCommand::Usage { batch } => {
            let answer = session.server.get(&format!("/api/batches/{batch}/usage"), &[])?;
            Ok(session.show(&answer, |usage| render::fields(usage, &[])))
        }
        BatchCommand::Returns { batch } => {
            let answer = session.server.get(&format!("/api/batches/{batch}/assignment-returns"), &[])?;
            session.show_list(&answer, RETURNED, "No assignment came back.")
        }
        BatchCommand::Kill { batch, reason } => {
            let (path, body) = (format!("/api/batches/{batch}/kill"), json!({ "reason": reason }));
            write::post(session, &path, Some(&body), format!("Batch {batch}: its end is ordered."))
        }
        BatchCommand::Mark { batch, result, reason } => {
            let path = format!("/api/batches/{batch}/mark");
            let body = json!({ "result": word(&result), "reason": reason });
            write::post(session, &path, Some(&body), format!("Batch {batch} is marked {}.", word(&result)))
        }
        BatchCommand::Vouch { batch, attempt, reason } => {
            let told = format!("Batch {batch}: attempt {attempt} ends as lost.");
            decide(session, &format!("/api/batches/{batch}/vouch"), (attempt, &reason), told)
        }
        BatchCommand::Adopt { batch, attempt, reason } => {
            let told = format!("Batch {batch}: attempt {attempt} is its own now.");
            decide(session, &format!("/api/batches/{batch}/adopt"), (attempt, &reason), told)
        }
        BatchCommand::Override(args) => external_dependencies::waive(session, &args),
        BatchCommand::Quality { batch, word, reason } => {
            external_dependencies::quality(session, batch, word, &reason)
        }
        BatchCommand::Clear { batch, how } => rerun::clear(session, batch, &how),
        BatchCommand::Rerun { batch, wait, idempotency_key } => {
            let path = format!("/api/batches/{batch}/rerun");
            let answer = session.server.write(Method::Post, &path, None, idempotency_key.as_deref())?;
            wait::show_batch(session, &answer, wait)
        }
        BatchCommand::Logs(args) => logs::logs(session, &args),
    }
}

fn list(session: &Session<'_>, args: BatchLsArgs) -> Done<Exit> {
    let BatchLsArgs { job, group, state, result, blocked, triggered_by, mine, from, to, limit } = args;
    let mut query = Query::new();
    if let Some(job) = job {
        query.push(("job", job::id_of(session, &job)?.to_string()));
    }
    query.extend(state.map(|state| ("state", state)));
    query.extend(result.map(|result| ("result", result)));
    query.extend(blocked.then(|| ("blocked", true.to_string())));
    query.extend(triggered_by.map(|by| ("triggered_by", by)));
    query.extend(mine.then(|| ("mine", true.to_string())));
    query.extend(from.map(|from| ("from", from.to_string())));
    query.extend(to.map(|to| ("to", to.to_string())));
    let answer = session.list_of_group("/api/batches", group.as_deref(), query, limit)?;
    session.show_list(&answer, BATCHES, "No batches.")
}

/// What a person says of one attempt.
fn decide(session: &Session<'_>, path: &str, (attempt, reason): (i64, &str), told: String) -> Done<Exit> {
    write::post(session, path, Some(&json!({ "attempt": attempt, "reason": reason })), told)
}

pub(super) const BATCHES: &str = "id, group, JOB: job_name, logical_time, run, state, result, blocked_since, attempt, \
    STARTED: started_at, FINISHED: finished_at";
const DEPENDENCIES: &str = "PARENT: parent_name | parent, mapping, logical_time, SATISFIED: met";
const EXTERNAL_DEPENDENCIES: &str = "EXTERNAL_DEPENDENCY: path | code, mark, logical_time, satisfied, CAME: satisfied_at, \
    WENT: revoked_at, OVERRIDDEN: overridden_at";
const OUTPUTS: &str = "path, mark";
const OVERRIDES: &str = "by, at, reason";
const ATTEMPTS: &str = "attempt, TOKEN: id, worker, result, EXIT: exit_code, signal, STARTED: started_at, \
    FINISHED: finished_at, excess, EXTERNAL: external_work, message";
const RETURNED: &str = "attempt, worker, reason, RETURNED: returned_at, message";
/// Fields of the batch, then its dependencies and attempts.
fn one(batch: &Value) -> String {
    let lists = [
        ("dependencies", DEPENDENCIES),
        ("external_dependencies", EXTERNAL_DEPENDENCIES),
        ("outputs", OUTPUTS),
        ("dependency_overrides", OVERRIDES),
        ("attempts", ATTEMPTS),
        ("returned", RETURNED),
    ];
    let sections = lists.iter().map(|(field, columns)| render::section(field, &batch[field], columns));
    render::fields(batch, &lists.map(|(field, _)| field)) + &sections.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_is_shown_with_its_attempts() {
        let batch = json!({
            "id": 4097, "job_name": "load-1", "state": "finished", "result": "failed", "dependencies": [],
            "attempts": [{"attempt": 1, "id": 8193, "worker": "w1", "result": "failed", "exit_code": 3}],
        });
        expect_test::expect![[r#"
            id        4097
            job_name  load-1
            result    failed
            state     finished

            attempts
            ATTEMPT  TOKEN  WORKER  RESULT  EXIT  SIGNAL  STARTED  FINISHED  EXCESS  EXTERNAL  MESSAGE
            1        8193   w1      failed  3     -       -        -         -       -         -
        "#]]
        .assert_eq(&one(&batch));
    }
}
