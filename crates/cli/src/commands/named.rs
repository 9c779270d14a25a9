//! What is defined by files and has a name and versions: calendars, pools, templates.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidemill_client::segment;

use super::{Session, write};
use crate::args::OutputFormat;
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render;
use crate::server::Query;
use crate::yaml;

/// More than there can be.
pub(super) const LIMIT: usize = 10_000;

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
        match session.format {
            OutputFormat::Json => output::json(&json!({ self.plural: items })),
            OutputFormat::Table => output::line(yaml::write::<T>(self.plural, items.into())?),
        }
        Ok(Exit::Success)
    }
}
