//! `tidemill calendar …`.

use serde_json::{Value, json};
use tidemill_client::{Method, segment};

use super::{Session, write};
use crate::args::{CalendarCommand, OutputFormat};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render::{self, Column};
use crate::server::Query;
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

const VERSIONS: &[Column] = &[
    Column("VERSION", &["/version"]),
    Column("ZONE", &["/zone"]),
    Column("DATES", &["/date_count"]),
    Column("DEFINED", &["/defined_at"]),
    Column("BY", &["/defined_by"]),
    Column("COMMENT", &["/comment"]),
];

pub(super) fn run(session: &Session<'_>, command: CalendarCommand) -> Done<Exit> {
    match command {
        CalendarCommand::Apply { file } => {
            write::define(session, "/api/calendars", "calendar", &yaml::calendars(&file)?, &file)
        }
        CalendarCommand::Show { name, at_version } => write(session, vec![one(session, &name, at_version)?]),
        CalendarCommand::Versions { name } => {
            let path = format!("/api/calendars/{}/versions", segment(&name));
            let answer = session.server.list(&path, &Query::new(), LIMIT)?;
            Ok(session.show(&answer, |answer| render::list(answer, VERSIONS, "No version is on record.")))
        }
        CalendarCommand::Export => {
            let listed = session.server.list("/api/calendars", &Query::new(), LIMIT)?;
            let names =
                listed["items"].as_array().into_iter().flatten().filter_map(|item| item["name"].as_str());
            let calendars = names.map(|name| one(session, name, None)).collect::<Done<Vec<Value>>>()?;
            write(session, calendars)
        }
        CalendarCommand::Ls => {
            let answer = session.server.list("/api/calendars", &Query::new(), LIMIT)?;
            let nothing = "No calendars. Add some with `tidemill calendar apply -f FILE`.";
            Ok(session.show(&answer, |answer| render::list(answer, CALENDARS, nothing)))
        }
        CalendarCommand::Delete { name } => {
            let path = format!("/api/calendars/{}", segment(&name));
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(session.show(&answer, |_| format!("Calendar {name} removed.")))
        }
    }
}

fn one(session: &Session<'_>, name: &str, version: Option<u32>) -> Done<Value> {
    let version = version.map(|version| format!("/versions/{version}")).unwrap_or_default();
    let mut answer = session.server.get(&format!("/api/calendars/{}{version}", segment(name)), &[])?;
    Ok(answer["calendar"].take())
}

fn write(session: &Session<'_>, calendars: Vec<Value>) -> Done<Exit> {
    match session.format {
        OutputFormat::Json => output::json(&json!({ "calendars": calendars })),
        OutputFormat::Table => output::line(yaml::write_calendars(calendars)?),
    }
    Ok(Exit::Success)
}
