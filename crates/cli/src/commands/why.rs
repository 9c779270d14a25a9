//! `tidemill batch why`: what keeps a batch from running, and what to do about it (DEP-8).

use serde_json::Value;

use super::Session;
use crate::failure::Done;
use crate::render::{self, one_line};

const CONDITIONS: &str = "WAITS FOR: kind, BECAUSE: message, since";
/// Parents that are looked at for advice.
const PARENTS: usize = 5;

/// The answer for people: which batch of which job, every condition, and what to do.
pub(super) fn told(answer: &Value, batch: &Value, advice: &[String]) -> String {
    let name = format!(
        "Batch {} of {}/{} for {}",
        one_line(&answer["batch"]),
        one_line(&batch["group"]),
        one_line(&batch["job_name"]),
        one_line(&batch["logical_time"]),
    );
    let state = one_line(&answer["state"]);
    let conditions = render::items(&answer["conditions"], CONDITIONS, "");
    let mut text = match (answer["result"].as_str(), conditions.as_str()) {
        (Some(result), _) => match batch["message"].as_str().filter(|message| !message.is_empty()) {
            Some(message) => format!("{name} has finished: {result}: {message}."),
            None => format!("{name} has finished: {result}."),
        },
        (None, "") => format!("{name} is {state}; nothing keeps it."),
        (None, conditions) => format!("{name} is {state}.\n\n{conditions}"),
    };
    if let Some(blocked) = answer["blocked"].as_object() {
        let (message, since) = (one_line(&blocked["message"]), one_line(&blocked["since"]));
        text.push_str(&format!("\nSince {since} it is {message}."));
    }
    for left_out in answer["left_out"].as_array().into_iter().flatten() {
        text.push_str(&format!("\nIt {}.", one_line(&left_out["message"])));
    }
    if !advice.is_empty() {
        text.push_str("\n\nWhat to do:");
        for line in advice {
            text.push_str(&format!("\n  {line}"));
        }
    }
    text
}

/// What may be done about the conditions, as commands.
pub(super) fn advice(session: &Session<'_>, answer: &Value, batch: &Value) -> Done<Vec<String>> {
    let id = one_line(&answer["batch"]);
    let ended = answer["result"].as_str().filter(|result| *result != "success");
    let mut lines = ended.map_or_else(Vec::new, |result| of_ended(&id, result, batch));
    let conditions = answer["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    for condition in conditions.iter().take(PARENTS) {
        let more = match condition["kind"].as_str().unwrap_or_default() {
            "dependency" => of_parent(session, condition)?,
            kind => of_kind(kind, batch),
        };
        lines.extend(more);
    }
    lines.dedup();
    Ok(lines)
}

fn of_ended(id: &str, result: &str, batch: &Value) -> Vec<String> {
    let again = format!("tidemill batch rerun {id} --wait     once it is fixed");
    if batch["attempt_count"] == 0 {
        return vec![format!("tidemill batch show {id}    its message, as it had no attempt"), again];
    }
    vec![
        format!(
            "tidemill batch logs {id} --stderr    why it {}",
            match result {
                "killed" => "was killed",
                "skipped" => "was skipped",
                result => result,
            }
        ),
        again,
    ]
}

/// A parent that did not succeed is looked at and run again; one without a batch is run.
fn of_parent(session: &Session<'_>, condition: &Value) -> Done<Vec<String>> {
    let (Some(job), Some(time)) = (condition["job"].as_i64(), condition["logical_time"].as_str()) else {
        return Ok(Vec::new());
    };
    let query = vec![("job", job.to_string()), ("from", time.to_owned())];
    let found = session.server.list("/api/batches", &query, 1_000)?;
    let runs = found["items"].as_array().map_or(&[][..], Vec::as_slice);
    let newest = runs.iter().filter(|run| run["logical_time"] == *time).max_by_key(|run| run["run"].as_i64());
    Ok(match newest {
        None => vec![format!(
            "tidemill job run {job} --logical-time {time} --concurrent    makes the parent's batch"
        )],
        Some(run) => match run["result"].as_str() {
            Some("success") => Vec::new(),
            Some(result) => of_ended(&one_line(&run["id"]), result, run),
            None => vec![format!("tidemill batch why {}    what the parent waits for", run["id"])],
        },
    })
}

fn of_kind(kind: &str, batch: &Value) -> Vec<String> {
    let job = format!("{}/{}", one_line(&batch["group"]), one_line(&batch["job_name"]));
    let line = match kind {
        "no_worker" | "pinned_host" => {
            "tidemill worker ls    which workers there are, and their types".to_owned()
        }
        "drained" => "tidemill worker resume WORKER    takes work again".to_owned(),
        "no_slot" => format!(
            "tidemill batch ls --group {} --state running    what has the slots",
            one_line(&batch["group"])
        ),
        "concurrency" => format!("tidemill batch ls --job {job} --state running    what goes on"),
        _ => return Vec::new(),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn why_names_the_job_every_unmet_condition_and_what_to_do() {
        let batch = json!({"group": "demo", "job_name": "load-2", "logical_time": "2026-01-01T00:00:00Z"});
        let answer = json!({"batch": 4097, "state": "waiting", "conditions": [
            {"kind": "dependency", "message": "demo/message-words failed", "since": "2026-01-01T00:00:00Z"},
            {"kind": "concurrency", "message": "concurrency limit 1 reached"},
        ]});
        expect_test::expect![[r#"
            Batch 4097 of demo/load-2 for 2026-01-01T00:00:00Z is waiting.

            WAITS FOR    BECAUSE                      SINCE
            dependency   demo/message-words failed    2026-01-01T00:00:00Z
            concurrency  concurrency limit 1 reached  -

            What to do:
              tidemill batch logs 20481 --stderr    why it failed
              tidemill batch rerun 20481 --wait     once it is fixed"#]]
        .assert_eq(&told(&answer, &batch, &of_ended("20481", "failed", &batch)));
    }

    #[test]
    fn batch_that_waits_for_nothing_says_so() {
        let mut batch = json!({"group": "g", "job_name": "a", "logical_time": "2026-01-01T00:00:00Z"});
        let finished = json!({"batch": 1, "state": "finished", "result": "success", "conditions": []});
        assert_eq!(
            told(&finished, &batch, &[]),
            "Batch 1 of g/a for 2026-01-01T00:00:00Z has finished: success."
        );
        let running = json!({"batch": 1, "state": "running", "conditions": []});
        assert_eq!(
            told(&running, &batch, &[]),
            "Batch 1 of g/a for 2026-01-01T00:00:00Z is running; nothing keeps it."
        );
        batch["message"] = json!("exit code 3");
        let failed = json!({"batch": 1, "state": "finished", "result": "failed", "conditions": []});
        assert_eq!(
            told(&failed, &batch, &[]),
            "Batch 1 of g/a for 2026-01-01T00:00:00Z has finished: failed: exit code 3."
        );
    }
}
