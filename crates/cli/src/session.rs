//! One command's dealings with a server, and what it needs of the program that the commands are a part of.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidemill_model::{JobSpec, Rejection};

use crate::args::{Global, OutputFormat};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render;
use crate::server::{Query, Server};
use crate::target::Target;

/// The program around the commands. It has the configuration, the keys of this host and the rules of definitions; the
/// commands have none of these, so that they can be linked without the roles.
pub trait Host {
    /// The settings in effect, by options, environment and configuration file.
    ///
    /// # Errors
    /// One of them cannot be accepted.
    fn settings(&self, global: &Global) -> Done<Settings>;

    /// The public key of a group's workers, in hexadecimal digits: that of the private key in `keys_dir`, which is drawn
    /// where there is none.
    ///
    /// # Errors
    /// The directory cannot be used.
    fn worker_key(&self, keys_dir: &Path, group: &str) -> Done<String>;

    /// Checks definitions by the rules of an apply, as far as that needs no server. Gives warnings.
    ///
    /// # Errors
    /// The rejection of the apply.
    fn check_jobs(&self, jobs: &[JobSpec]) -> Result<Vec<String>, Rejection>;
}

/// The settings that commands use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The data directory, which may be that of a running server.
    pub data_dir: PathBuf,
    /// Where its keys are.
    pub keys_dir: PathBuf,
    /// Authorities to trust, in PEM; none: those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The operator's secret; empty: there is none. None: that of the file among the keys.
    pub operator_key: Option<String>,
}

/// A server, and how to show what it answers.
pub(crate) struct Session<'a> {
    pub(crate) server: Server,
    pub(crate) format: OutputFormat,
    /// Whether no progress is to be shown.
    pub(crate) quiet: bool,
    pub(crate) settings: Settings,
    pub(crate) host: &'a dyn Host,
    target: Target,
}

impl<'a> Session<'a> {
    pub(crate) fn new(host: &'a dyn Host, global: &Global) -> Done<Self> {
        let settings = host.settings(global)?;
        let target = Target::of_command(global, &settings)?;
        let server = Server::new(target.clone())?;
        Ok(Self { server, format: global.output, quiet: global.quiet, settings, host, target })
    }

    /// The same server, with the operator's secret.
    pub(crate) fn with_operator_key(&self) -> Done<Server> {
        Server::new(self.target.clone().with_operator_key(&self.settings)?)
    }

    /// The list of a group, which has to be there: an empty one would say that it has nothing.
    pub(crate) fn list_of_group(
        &self,
        path: &str,
        group: Option<&str>,
        mut query: Query<'_>,
        limit: usize,
    ) -> Done<Value> {
        query.extend(group.map(|group| ("group", group.to_owned())));
        let answer = self.server.list(path, &query, limit)?;
        if answer["items"].as_array().is_some_and(Vec::is_empty) {
            group.map_or(Ok(()), |group| self.check_group(group))?;
        }
        Ok(answer)
    }

    pub(crate) fn check_group(&self, group: &str) -> Done {
        let groups = self.server.get("/api/groups", &[])?;
        if groups["items"].as_array().into_iter().flatten().any(|known| known["name"] == group) {
            return Ok(());
        }
        Err(Failure::new(Exit::NotFound, format!("there is no group {group}"))
            .hint("`tidemill group ls` lists the groups"))
    }

    /// Shows an answer: as it is to programs, by `table` to people.
    pub(crate) fn show(&self, answer: &Value, table: impl FnOnce(&Value) -> String) -> Exit {
        output::answer(self.format, answer, table);
        Exit::Success
    }

    /// Shows a list, or says that nothing is in it.
    pub(crate) fn show_list(&self, answer: &Value, columns: &str, nothing: &str) -> Done<Exit> {
        output::list(self.format, answer, columns, nothing);
        Ok(Exit::Success)
    }

    /// Shows what is at a path, field by field.
    pub(crate) fn show_fields(&self, path: &str) -> Done<Exit> {
        Ok(self.show(&self.server.get(path, &[])?, |answer| render::fields(answer, &[])))
    }
}
