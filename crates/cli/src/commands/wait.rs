//! Waiting for the end of a batch, and of other things.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Session;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render;
use crate::server::Query;

/// Between two looks: begins short, for short jobs.
const FIRST_PAUSE: Duration = Duration::from_millis(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Shows the batch that a request made, and with `to_the_end` how it ended.
pub(super) fn show_batch(session: &Session<'_>, answer: &Value, to_the_end: bool) -> Done<Exit> {
    let Some(id) = answer["batch"].as_i64() else {
        return Err(Failure::new(Exit::Failure, format!("the server's answer names no batch: {answer}")));
    };
    if !to_the_end {
        return Ok(session.show(answer, |answer| {
            format!("Batch {id}. Look at it with `tidemill batch show {id}`.{}", warnings(answer))
        }));
    }
    if !session.format.is_for_programs() {
        output::line(format!("Batch {id}.{}", warnings(answer)));
    }
    let batch = ended(session, id, answer["position"].as_str())?;
    let result = batch["result"].as_str().unwrap_or("?");
    let exit = exit_of(result);
    session.show(&batch, |_| match exit {
        Exit::Success => format!("Batch {id}: {result}."),
        _ if batch["attempt_count"] == 0 => {
            format!("Batch {id}: {result}, without an attempt{}", said(&batch))
        }
        _ => format!("Batch {id}: {result}. Read why with `tidemill batch logs {id} --stderr`."),
    });
    Ok(exit)
}

/// What the result of a batch is to scripts.
pub(super) fn exit_of(result: &str) -> Exit {
    match result {
        "success" | "skipped" => Exit::Success,
        "failed" => Exit::BatchFailed,
        "killed" => Exit::BatchKilled,
        _ => Exit::Failure,
    }
}

/// Whether a batch has finished, by the word or the number of its state.
pub(super) fn is_finished(batch: &Value) -> bool {
    batch["state"] == json!("finished") || batch["state"] == json!(3)
}

/// What the batch itself says of its end.
fn said(batch: &Value) -> String {
    match batch["message"].as_str().filter(|message| !message.is_empty()) {
        Some(message) => format!(": {message}."),
        None => format!(". Look at it with `tidemill batch show {}`.", batch["id"]),
    }
}

/// What an answer would have people know, a line each.
pub(super) fn warnings(answer: &Value) -> String {
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    warnings.map(|warning| format!("\nwarning: {}", render::one_line(warning))).collect()
}

/// The batch, once it has finished.
fn ended(session: &Session<'_>, batch: i64, position: Option<&str>) -> Done<Value> {
    until(session, &format!("/api/batches/{batch}"), position, is_finished)
}

/// What is at a path, once it is over. It is looked at as a write of this position left it, or later.
pub(super) fn until(
    session: &Session<'_>,
    path: &str,
    position: Option<&str>,
    is_over: impl Fn(&Value) -> bool,
) -> Done<Value> {
    let mut query: Query = position.map(|position| ("at_least", position.to_owned())).into_iter().collect();
    let mut pause = FIRST_PAUSE;
    loop {
        let found = session.server.get(path, &query)?;
        query.clear();
        if is_over(&found) {
            return Ok(found);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
