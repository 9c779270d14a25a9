//! `tidemill group …`.

use serde_json::{Value, json};

use super::{Session, write};
use crate::args::GroupCommand;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::render;

const GROUPS: &str = "id, name, shard, worker_key";

pub(super) fn run(session: &Session<'_>, command: GroupCommand) -> Done<Exit> {
    match command {
        GroupCommand::Ls => session.show_list(&session.server.get("/api/groups", &[])?, GROUPS, "No groups."),
        GroupCommand::Apply { name, worker_key, settings } => {
            let worker_key = match worker_key {
                Some(key) => key,
                None => session.host.worker_key(&session.settings.keys_dir, &name)?,
            };
            let settings = match settings {
                Some(text) => serde_json::from_str(&text)
                    .map_err(|error| Failure::bad_input(format!("--settings: {text:?}: {error}")))?,
                None => settings_of(session, &name)?,
            };
            let body = json!({ "name": name, "worker_key": worker_key, "settings": settings });
            let answer = session.server.post("/api/groups", Some(&body))?;
            Ok(write::show(session, &answer, |answer| {
                format!("Group {name} defined, number {}.", render::one_line(&answer["id"]))
            }))
        }
    }
}

/// The settings that the group has; those of a new one are the defaults.
fn settings_of(session: &Session<'_>, name: &str) -> Done<Value> {
    let groups = session.server.get("/api/groups", &[])?;
    let groups = groups.as_array().or_else(|| groups["items"].as_array()).cloned().unwrap_or_default();
    let known = groups.into_iter().find(|group| group["name"] == name);
    Ok(known.map_or_else(|| json!({}), |group| group["settings"].clone()))
}
