//! `tidemill calendar …`.

use serde_json::{Value, json};

use super::Session;
use crate::cli::{CalendarCommand, OutputFormat};
use crate::client::{Method, Query, segment};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render::{self, Column};
use crate::yaml;

/// More than there can be.
const LIMIT: usize = 10_000;

const CALENDARS: &[Column] = &[
    Column("NAME", &["/name"]),
    Column("VERSION", &["/version"]),
    Column("ZONE", &["/zone"]),
    Column("DATES", &["/date_count"]),
    Column("CHANGED", &["/changed_at"]),
    Column("COMMENT", &["/comment"]),
];

pub(super) fn run(session: &Session, command: CalendarCommand) -> Done<Exit> {
    match command {
        CalendarCommand::Apply { file } => apply(session, &yaml::calendars(&file)?, &file),
        CalendarCommand::Get { name } => write(session, vec![one(session, &name)?]),
        CalendarCommand::Export => {
            let listed = session.client.list("/api/calendars", &Query::new(), LIMIT)?;
            let names =
                listed["items"].as_array().into_iter().flatten().filter_map(|item| item["name"].as_str());
            let calendars = names.map(|name| one(session, name)).collect::<Done<Vec<Value>>>()?;
            write(session, calendars)
        }
        CalendarCommand::List => {
            let answer = session.client.list("/api/calendars", &Query::new(), LIMIT)?;
            let nothing = "No calendars. Add some with `tidemill calendar apply -f FILE`.";
            Ok(session.show(&answer, |answer| render::list(answer, CALENDARS, nothing)))
        }
        CalendarCommand::Delete { name } => {
            let path = format!("/api/calendars/{}", segment(&name));
            let answer = session.client.write(Method::Delete, &path, None, None)?;
            Ok(session.show(&answer, |_| format!("Calendar {name} removed.")))
        }
    }
}

/// One after the other, for none depends on another; what comes before the first that is refused is done.
fn apply(session: &Session, calendars: &[Value], file: &std::path::Path) -> Done<Exit> {
    let mut answers = Vec::with_capacity(calendars.len());
    for (index, calendar) in calendars.iter().enumerate() {
        let answer = session.client.post("/api/calendars", Some(calendar)).map_err(|failure| {
            let name = calendar["name"].as_str().unwrap_or("(no name)");
            Failure {
                message: format!("{}: calendar {name}: {}", file.display(), failure.message),
                ..failure
            }
            .hint(format!("{index} of {} calendars are applied", calendars.len()))
        })?;
        answers.push(answer);
    }
    let answer = json!({ "items": answers });
    Ok(session.show(&answer, |answer| {
        let columns = &[Column("NAME", &["/name"]), Column("VERSION", &["/version"])];
        render::list(answer, columns, "No calendars in the file.")
    }))
}

fn one(session: &Session, name: &str) -> Done<Value> {
    let mut answer = session.client.get(&format!("/api/calendars/{}", segment(name)), &[])?;
    Ok(answer["calendar"].take())
}

fn write(session: &Session, calendars: Vec<Value>) -> Done<Exit> {
    match session.format {
        OutputFormat::Json => output::json(&json!({ "calendars": calendars })),
        OutputFormat::Table => output::line(yaml::write_calendars(calendars)?),
    }
    Ok(Exit::Success)
}
