//! What is defined by files and has a name and versions: `tidemill calendar …`, `tidemill pool …`, and templates.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidemill_client::segment;
use tidemill_model::{CalendarSpec, PoolSpec};

use super::{Session, write};
use crate::args::{CalendarCommand, PoolCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render;
use crate::server::Query;
use crate::yaml;

/// More than there can be.
const LIMIT: usize = 10_000;

/// One sort of them.
pub(super) struct Named {
    /// What one is called.
    pub(super) noun: &'static str,
    /// What a file has a list of.
    pub(super) plural: &'static str,
    /// What each of a file has.
    pub(super) each: &'static str,
    /// Where they are.
    pub(super) path: &'static str,
    /// The command that adds some.
    pub(super) command: &'static str,
    /// What lists show.
    pub(super) columns: &'static str,
}

impl Named {
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{}", self.path, segment(name))
    }

    /// Adds and changes all of a file.
    pub(super) fn apply(&self, session: &Session<'_>, file: &Path) -> Done<Exit> {
        let items = yaml::list(file, self.plural, self.each)?;
        let answer = write::all(session, self.path, self.noun, &items, file)?;
        Ok(write::show(session, &answer, |answer| {
            render::list(answer, "name, version", &format!("No {} in the file.", self.plural))
        }))
    }

    pub(super) fn ls(&self, session: &Session<'_>) -> Done<Exit> {
        let answer = session.server.list(self.path, &Query::new(), LIMIT)?;
        let nothing = format!("No {}. Add some with `tidemill {} -f FILE`.", self.plural, self.command);
        session.show_list(&answer, self.columns, &nothing)
    }

    pub(super) fn delete(&self, session: &Session<'_>, name: &str) -> Done<Exit> {
        let noun = self.noun[..1].to_uppercase() + &self.noun[1..];
        write::delete(session, &self.path_of(name), format!("{noun} {name} removed."))
    }

    /// Writes all of them as they were defined.
    pub(super) fn export<T: Serialize + DeserializeOwned>(&self, session: &Session<'_>) -> Done<Exit> {
        let listed = session.server.list(self.path, &Query::new(), LIMIT)?;
        let names = listed["items"].as_array().into_iter().flatten().filter_map(|item| item["name"].as_str());
        let items = names.map(|name| self.definition(session, &self.path_of(name)));
        self.write::<T>(session, items.collect::<Done<_>>()?)
    }

    /// The definition in the answer of a path.
    pub(super) fn definition(&self, session: &Session<'_>, path: &str) -> Done<Value> {
        Ok(session.server.get(path, &[])?[self.noun].take())
    }

    /// Writes definitions so that `apply` takes them back unchanged.
    pub(super) fn write<T: Serialize + DeserializeOwned>(
        &self,
        session: &Session<'_>,
        items: Vec<Value>,
    ) -> Done<Exit> {
        match session.format.is_for_programs() {
            true => output::value(session.format, &json!({ self.plural: items })),
            false => output::line(yaml::write::<T>(self.plural, items.into())?),
        }
        Ok(Exit::Success)
    }
}

const CALENDARS: Named = Named {
    noun: "calendar",
    plural: "calendars",
    each: "its name",
    path: "/api/calendars",
    command: "calendar apply",
    columns: "name, version, zone, DATES: date_count, CHANGED: changed_at, comment",
};

const CALENDAR_VERSIONS: &str =
    "version, zone, DATES: date_count, DEFINED: defined_at, BY: defined_by, comment";

pub(super) fn calendar(session: &Session<'_>, command: CalendarCommand) -> Done<Exit> {
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
            session.show_list(&answer, CALENDAR_VERSIONS, "No version is on record.")
        }
        CalendarCommand::Export => CALENDARS.export::<CalendarSpec>(session),
        CalendarCommand::Ls => CALENDARS.ls(session),
        CalendarCommand::Delete { name } => CALENDARS.delete(session, &name),
    }
}

const POOLS: Named = Named {
    noun: "pool",
    plural: "pools",
    each: "its name and slots",
    path: "/api/pools",
    command: "pool apply",
    columns: "name, version, slots, STARTS: rate/starts, IN SECONDS: rate/interval_s, group, comment",
};

const HOLDERS: &str = "batch, job, group, slots";

pub(super) fn pool(session: &Session<'_>, command: PoolCommand) -> Done<Exit> {
    match command {
        PoolCommand::Apply { file } => POOLS.apply(session, &file),
        PoolCommand::Ls => POOLS.ls(session),
        PoolCommand::Show { name } => {
            let answer = session.server.get(&POOLS.path_of(&name), &[])?;
            Ok(session.show(&answer, |answer| shown(&name, answer)))
        }
        PoolCommand::Export => POOLS.export::<PoolSpec>(session),
        PoolCommand::Delete { name } => POOLS.delete(session, &name),
    }
}

fn shown(name: &str, answer: &Value) -> String {
    let slots = &answer["pool"]["slots"];
    let used = answer["used"].as_u64().map_or("unknown; its owner could not be asked".to_owned(), |used| {
        format!("{used} of {slots} slots are taken")
    });
    let rate = &answer["pool"]["rate"];
    let rate = match (rate["starts"].as_u64(), rate["interval_s"].as_u64()) {
        (Some(starts), Some(interval)) => format!("\nAt most {starts} batches start in {interval} seconds."),
        _ => String::new(),
    };
    let of =
        answer["pool"]["group"].as_str().map_or("shared by groups".to_owned(), |of| format!("of group {of}"));
    let holders = render::items(&answer["holders"], HOLDERS, "Nobody has slots of it.");
    format!("Pool {name}, {of}: {used}.{rate}\n\n{holders}")
}
