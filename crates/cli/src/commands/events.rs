//! `tidemill events tail`: the public feed, one line an event.

#[cfg(test)]
mod corpus;

use serde_json::Value;
use tidemill_client::{Begin, Message};

use super::Session;
use crate::args::{EventsArgs, OutputFormat};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render::one_line;

pub(super) fn tail(session: &Session<'_>, args: EventsArgs) -> Done<Exit> {
    let mut feed = session.server.events(args.cursor.map_or(args.from, Begin::After));
    if let Some(kind) = args.event_type {
        feed = feed.kind(kind);
    }
    if let Some(subject) = args.subject {
        feed = feed.subject(subject);
    }
    if let Some(limit) = args.limit {
        feed = feed.limit(limit);
    }
    for message in session.server.follow(feed) {
        show(session.format, &message?)?;
    }
    Ok(Exit::Success)
}

fn show(format: OutputFormat, message: &Message) -> Done {
    let event: Value = serde_json::from_str(&message.data)
        .map_err(|error| Failure::caused("the feed holds something that is not JSON", &error))?;
    match format.is_for_programs() {
        true => output::next(format, &event),
        false => output::line(line(&event)),
    }
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
