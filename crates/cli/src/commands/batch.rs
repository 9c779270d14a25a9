//! `tidemill batch …`.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidemill_client::Method;

use super::{Session, external_dependencies, job, rerun, wait, why};
use crate::args::{BatchCommand, OutputFormat, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render::{self, Column};
use crate::server::Query;

/// Between two looks at a log that grows.
const FOLLOW_PAUSE: Duration = Duration::from_millis(300);
/// Lines of one look.
const LOG_LINES: u32 = 1000;

pub(super) fn run(session: &Session<'_>, command: BatchCommand) -> Done<Exit> {
    match command {
        BatchCommand::Ls { job, group, state, result, blocked, from, to, limit } => {
            let mut query = Query::new();
            if let Some(job) = job {
                query.push(("job", job::id_of(session, &job)?.to_string()));
            }
            query.extend(state.map(|state| ("state", word(&state))));
            query.extend(result.map(|result| ("result", word(&result))));
            query.extend(blocked.then(|| ("blocked", true.to_string())));
            query.extend(from.map(|from| ("from", from.to_string())));
            query.extend(to.map(|to| ("to", to.to_string())));
            let answer = session.list_of_group("/api/batches", group.as_deref(), query, limit)?;
            Ok(session.show(&answer, |answer| render::list(answer, BATCHES, "No batches.")))
        }
        BatchCommand::Show { batch } => {
            let answer = session.server.get(&format!("/api/batches/{batch}"), &[])?;
            Ok(session.show(&answer, one))
        }
        BatchCommand::Why { batch, as_of } => {
            let moment: Vec<(&str, String)> = as_of.iter().map(|text| ("as_of", text.clone())).collect();
            let answer = session.server.get(&format!("/api/batches/{batch}/why"), &moment)?;
            if session.format == OutputFormat::Json {
                output::json(&answer);
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
        BatchCommand::Returns { batch } => {
            let answer = session.server.get(&format!("/api/batches/{batch}/assignment-returns"), &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, RETURNED, "No assignment came back.")))
        }
        BatchCommand::Kill { batch, reason } => {
            let body = serde_json::json!({ "reason": reason });
            let answer = session.server.post(&format!("/api/batches/{batch}/kill"), Some(&body))?;
            Ok(session.show(&answer, |_| format!("Batch {batch}: its end is ordered.")))
        }
        BatchCommand::Mark { batch, result, reason } => {
            let body = serde_json::json!({ "result": word(&result), "reason": reason });
            let answer = session.server.post(&format!("/api/batches/{batch}/mark"), Some(&body))?;
            Ok(session.show(&answer, |_| format!("Batch {batch} is marked {}.", word(&result))))
        }
        BatchCommand::Override { batch, what, logical_time, reason } => {
            let request =
                external_dependencies::Override { batch, what: &what, logical_time, reason: &reason };
            external_dependencies::waive(session, &request)
        }
        BatchCommand::Quality { batch, word, reason } => {
            external_dependencies::quality(session, batch, word, &reason)
        }
        BatchCommand::Clear { batch, how } => rerun::clear(session, batch, &how),
        BatchCommand::Rerun { batch, wait, idempotency_key } => {
            let path = format!("/api/batches/{batch}/rerun");
            let answer = session.server.write(Method::Post, &path, None, idempotency_key.as_deref())?;
            wait::show_batch(session, &answer, wait)
        }
        BatchCommand::Logs { batch, follow, stderr, attempt } => {
            logs(session, &Log { batch, follow, stderr, attempt })
        }
    }
}

pub(super) const BATCHES: &[Column] = &[
    Column("ID", &["/id"]),
    Column("GROUP", &["/group"]),
    Column("JOB", &["/job_name"]),
    Column("LOGICAL TIME", &["/logical_time"]),
    Column("RUN", &["/run"]),
    Column("STATE", &["/state"]),
    Column("RESULT", &["/result"]),
    Column("BLOCKED SINCE", &["/blocked_since"]),
    Column("ATTEMPT", &["/attempt"]),
    Column("STARTED", &["/started_at"]),
    Column("FINISHED", &["/finished_at"]),
];
const DEPENDENCIES: &[Column] = &[
    Column("PARENT", &["/parent_name", "/parent"]),
    Column("MAPPING", &["/mapping"]),
    Column("LOGICAL TIME", &["/logical_time"]),
    Column("SATISFIED", &["/met"]),
];
const EXTERNAL_DEPENDENCIES: &[Column] = &[
    Column("EXTERNAL_DEPENDENCY", &["/path", "/code"]),
    Column("MARK", &["/mark"]),
    Column("LOGICAL TIME", &["/logical_time"]),
    Column("SATISFIED", &["/satisfied"]),
    Column("CAME", &["/satisfied_at"]),
    Column("WENT", &["/revoked_at"]),
    Column("OVERRIDDEN", &["/overridden_at"]),
];
const OUTPUTS: &[Column] = &[Column("PATH", &["/path"]), Column("MARK", &["/mark"])];
const OVERRIDES: &[Column] =
    &[Column("BY", &["/by"]), Column("AT", &["/at"]), Column("REASON", &["/reason"])];
const ATTEMPTS: &[Column] = &[
    Column("ATTEMPT", &["/attempt"]),
    Column("TOKEN", &["/id"]),
    Column("WORKER", &["/worker"]),
    Column("RESULT", &["/result"]),
    Column("EXIT", &["/exit_code"]),
    Column("SIGNAL", &["/signal"]),
    Column("STARTED", &["/started_at"]),
    Column("FINISHED", &["/finished_at"]),
    Column("MESSAGE", &["/message"]),
];
const RETURNED: &[Column] = &[
    Column("ATTEMPT", &["/attempt"]),
    Column("WORKER", &["/worker"]),
    Column("REASON", &["/reason"]),
    Column("RETURNED", &["/returned_at"]),
    Column("MESSAGE", &["/message"]),
];
/// Fields of the batch, then its dependencies and attempts.
fn one(batch: &Value) -> String {
    let mut text = render::fields(
        batch,
        &["dependencies", "external_dependencies", "outputs", "dependency_overrides", "attempts", "returned"],
    );
    let lists = [
        ("dependencies", DEPENDENCIES),
        ("external_dependencies", EXTERNAL_DEPENDENCIES),
        ("outputs", OUTPUTS),
        ("dependency_overrides", OVERRIDES),
        ("attempts", ATTEMPTS),
        ("returned", RETURNED),
    ];
    for (field, columns) in lists {
        let items = serde_json::json!({ "items": batch[field] });
        if batch[field].as_array().is_some_and(|items| !items.is_empty()) {
            text.push_str(&format!("\n{field}\n{}\n", render::list(&items, columns, "")));
        }
    }
    text
}

struct Log {
    batch: i64,
    follow: bool,
    stderr: bool,
    attempt: Option<u32>,
}

fn logs(session: &Session<'_>, log: &Log) -> Done<Exit> {
    let path = format!("/api/batches/{}/log", log.batch);
    let stream = if log.stderr { "2" } else { "1" };
    let mut offset: u64 = 0;
    loop {
        let mut query = vec![
            ("type", stream.to_owned()),
            ("offset", offset.to_string()),
            ("lines", LOG_LINES.to_string()),
        ];
        query.extend(log.attempt.map(|attempt| ("attempt", attempt.to_string())));
        let page = session.server.get(&path, &query)?;
        match session.format {
            OutputFormat::Json => output::json(&page),
            OutputFormat::Table => output::raw(page["content"].as_str().unwrap_or_default().as_bytes()),
        }
        let next = page["offset"].as_u64().unwrap_or(offset);
        let has_more = next > offset;
        offset = next;
        if page["is_end"] == Value::Bool(true) || (!has_more && !log.follow) {
            return Ok(Exit::Success);
        }
        if !has_more {
            thread::sleep(FOLLOW_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            ATTEMPT  TOKEN  WORKER  RESULT  EXIT  SIGNAL  STARTED  FINISHED  MESSAGE
            1        8193   w1      failed  3     -       -        -         -
        "#]]
        .assert_eq(&one(&batch));
    }
}
