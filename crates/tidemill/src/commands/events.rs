//! `tidemill events tail`: the public feed, one line an event. A broken connection is taken up again
//! where it broke.

#[cfg(test)]
mod corpus;

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Session;
use crate::cli::{EventsArgs, OutputFormat};
use crate::client::{Message, Query};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render::one_line;

/// Before a broken connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn tail(session: &Session, args: &EventsArgs) -> Done<Exit> {
    let mut cursor = args.cursor.clone();
    let mut seen = 0;
    loop {
        let rest = args.limit.map(|limit| limit - seen);
        if rest == Some(0) {
            return Ok(Exit::Success);
        }
        let followed = session.client.follow("/api/events", &query(args, cursor.as_deref(), rest));
        let messages = match followed {
            Ok(messages) => messages,
            // Before anything was seen, the person should know; later, the server may only be restarting.
            Err(failure) if failure.exit != Exit::Unreachable || cursor.is_none() => return Err(failure),
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        for message in messages {
            let Ok(message) = message else { break };
            show(session.format, &message)?;
            cursor = message.id.or(cursor);
            seen += 1;
            if args.limit == Some(seen) {
                return Ok(Exit::Success);
            }
        }
        thread::sleep(PAUSE);
    }
}

fn query(args: &EventsArgs, cursor: Option<&str>, limit: Option<u64>) -> Query<'static> {
    let mut query = match cursor {
        Some(cursor) => vec![("cursor", cursor.to_owned())],
        None => vec![("from", args.from.to_string())],
    };
    query.extend(args.event_type.clone().map(|event_type| ("type", event_type)));
    query.extend(args.subject.clone().map(|subject| ("subject", subject)));
    query.extend(limit.map(|limit| ("limit", limit.to_string())));
    query
}

fn show(format: OutputFormat, message: &Message) -> Done {
    let event: Value = serde_json::from_str(&message.data)
        .map_err(|error| Failure::caused("the feed holds something that is not JSON", &error))?;
    output::line(match format {
        OutputFormat::Json => event.to_string(),
        OutputFormat::Table => line(&event),
    });
    Ok(())
}

/// `time  type  subject  data`; the type without what all have in common.
fn line(event: &Value) -> String {
    let field = |name: &str| one_line(&event[name]);
    let kind = field("type");
    let kind = kind.strip_prefix("tidemill.").unwrap_or(&kind);
    let kind = kind.strip_suffix(".v1").unwrap_or(kind);
    let line = format!("{}  {kind:<20}  {:<14}  {}", field("time"), field("subject"), data(&event["data"]));
    // Names of fields come from the server as well.
    line.replace('\n', "\\n")
}

/// What the event says, in short; `-o json` has all of it.
fn data(value: &Value) -> String {
    let Some(fields) = value.as_object() else { return one_line(value) };
    let said = fields.iter().filter(|(_, value)| one_line(value) != "-");
    said.map(|(name, value)| format!("{name}={}", short(value))).collect::<Vec<_>>().join(" ")
}

fn short(value: &Value) -> String {
    match value {
        Value::Object(fields) => match fields.get("name") {
            Some(name) => one_line(name),
            None => "{…}".to_owned(),
        },
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            format!("[{} items]", items.len())
        }
        other => one_line(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn event_is_one_line() {
        let event = json!({
            "time": "2026-01-01T00:00:00Z", "type": "tidemill.batch.finished.v1", "subject": "batch/4097",
            "data": {"batch": 4097, "result": "success", "by": null, "definition": {"name": "a", "id": 1},
                     "usage": {"cpu_ms": 3}, "dependencies": [{"parent": 1}]},
        });
        expect_test::expect![
            "2026-01-01T00:00:00Z  batch.finished        batch/4097      batch=4097 definition=a dependencies=[1 items] result=success usage={…}"
        ]
        .assert_eq(&line(&event));
    }
}
