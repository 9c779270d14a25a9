//! `tidemill calendar …`.

use tidemill_model::CalendarSpec;

use super::Session;
use super::named::{LIMIT, Named};
use crate::args::CalendarCommand;
use crate::exit::Exit;
use crate::failure::Done;
use crate::server::Query;

const CALENDARS: Named = Named {
    noun: "calendar",
    plural: "calendars",
    each: "its name",
    path: "/api/calendars",
    command: "calendar apply",
    columns: "name, version, zone, DATES: date_count, CHANGED: changed_at, comment",
};

const VERSIONS: &str = "version, zone, DATES: date_count, DEFINED: defined_at, BY: defined_by, comment";

pub(super) fn run(session: &Session<'_>, command: CalendarCommand) -> Done<Exit> {
    match command {
        CalendarCommand::Apply { file } => CALENDARS.apply(session, &file),
        CalendarCommand::Show { name, at_version } => {
            let version = at_version.map(|version| format!("/versions/{version}")).unwrap_or_default();
            let path = format!("{}{version}", CALENDARS.path_of(&name));
            CALENDARS.write::<CalendarSpec>(session, vec![CALENDARS.definition(session, &path)?])
        }
        CalendarCommand::Versions { name } => {
            let path = format!("{}/versions", CALENDARS.path_of(&name));
            let answer = session.server.list(&path, &Query::new(), LIMIT)?;
            session.show_list(&answer, VERSIONS, "No version is on record.")
        }
        CalendarCommand::Export => CALENDARS.export::<CalendarSpec>(session),
        CalendarCommand::Ls => CALENDARS.ls(session),
        CalendarCommand::Delete { name } => CALENDARS.delete(session, &name),
    }
}
