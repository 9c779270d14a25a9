//! Writes that answer once they are in effect in every group: one, or all of a file.

use std::collections::BTreeSet;
use std::iter::once;
use std::path::Path;

use serde_json::{Value, json};
use tidemill_client::Method;

use super::Session;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::progress;

/// Shows what was done, and where it is not in effect yet. Then the exit code says so, too, for scripts must not go on as
/// if it were.
pub(super) fn show(session: &Session<'_>, answer: &Value, done: impl FnOnce(&Value) -> String) -> Exit {
    let late = pending_groups(answer);
    session.show(answer, |answer| match done(answer) {
        done if late.is_empty() => done,
        done => format!("{done}\nwarning: it is recorded, and not yet in effect in {}", late.join(", ")),
    });
    exit(&late)
}

/// Requests something, and says that it is done.
pub(super) fn post(session: &Session<'_>, path: &str, body: Option<&Value>, done: String) -> Done<Exit> {
    Ok(show(session, &session.server.post(path, body)?, |_| done))
}

/// Takes something away, and says so.
pub(super) fn delete(session: &Session<'_>, path: &str, done: String) -> Done<Exit> {
    Ok(show(session, &session.server.write(Method::Delete, path, None, None)?, |_| done))
}

/// As [`show`], of an answer with warnings of its own.
pub(super) fn show_warned(
    session: &Session<'_>,
    answer: &Value,
    done: impl FnOnce(&Value) -> String,
) -> Exit {
    session.show(answer, done);
    exit(&pending_groups(answer))
}

fn exit(late: &[&str]) -> Exit {
    if late.is_empty() { Exit::Success } else { Exit::NotInForce }
}

/// Groups, of one answer or of a list of them.
fn pending_groups(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().into_iter().flatten();
    let groups = items.chain(once(answer)).filter_map(|answer| answer["pending_groups"].as_array());
    let groups: BTreeSet<&str> = groups.flatten().filter_map(Value::as_str).collect();
    groups.into_iter().collect()
}

/// One after the other, for none depends on another; what comes before the first that is refused is done.
pub(super) fn all(
    session: &Session<'_>,
    path: &str,
    what: &str,
    items: &[Value],
    file: &Path,
) -> Done<Value> {
    let mut answers = Vec::with_capacity(items.len());
    let bar = progress::bar(session, items.len() as u64);
    for (index, item) in items.iter().enumerate() {
        let answer = session.server.post(path, Some(item)).map_err(|failure| {
            let name = item["name"].as_str().map_or_else(|| format!("number {}", index + 1), str::to_owned);
            let message = format!("{}: {what} {name}: {}", file.display(), failure.message);
            Failure { message, ..failure }
                .hint(format!("{index} of {} were written; correct it, and leave those out", items.len()))
        })?;
        answers.push(answer);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(json!({ "items": answers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_one_answer_and_of_several_are_told_once() {
        let of = |groups: &[&str]| json!({"version": 1, "pending_groups": groups});
        assert!(pending_groups(&json!({"position": "0:1"})).is_empty());
        assert_eq!(pending_groups(&of(&["b"])), ["b"]);
        assert_eq!(
            pending_groups(&json!({"items": [of(&["b"]), {"version": 2}, of(&["a", "b"])]})),
            ["a", "b"]
        );
    }
}
