//! Names for completion, as the server has them (API-6): what a shell asks `tidemill complete-names` for.
//!
//! Whatever goes wrong, the answer is that there are no names: a message would land in somebody's command line. Nothing is asked of
//! people, and it takes a second at most.

mod place;
mod scripts;

pub use scripts::script;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Command;
use serde_json::Value;

use crate::args::Global;
use crate::contexts::Contexts;
use crate::failure::Done;
use crate::server::{Query, Server};
use crate::session::Settings;
use crate::target::Target;
use place::{Names, Place};

/// Names of one answer.
const MAX_NAMES: usize = 200;
/// Things that are looked through for them.
const MAX_LISTED: usize = 1_000;
/// Until there have to be some.
const WITHIN: Duration = Duration::from_millis(900);

/// The names that can stand where the last of the words does. `settings` says what the options among the words come to.
pub fn names(
    program: Command,
    words: &[String],
    settings: impl FnOnce(&Global) -> Done<Settings> + Send + 'static,
) -> Vec<String> {
    let Some(place) = Place::of(program, words) else { return Vec::new() };
    let (found, finding) = (place.prefix.clone(), place.before.clone());
    let (done, names) = mpsc::sync_channel(1);
    // It ends with the program where it takes longer.
    let find = move || {
        let _ = done.send(found_names(&place, settings).unwrap_or_default());
    };
    if thread::Builder::new().name("complete-names".to_owned()).spawn(find).is_err() {
        return Vec::new();
    }
    let mut names = names.recv_timeout(WITHIN).unwrap_or_default();
    names.retain(|name| name.starts_with(&found) && is_plain(name));
    names.sort();
    names.dedup();
    names.truncate(MAX_NAMES);
    names.into_iter().map(|name| format!("{finding}{name}")).collect()
}

/// Whether every shell takes it as one word, as it stands.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_alphanumeric() || "._-/@+".contains(c))
}

fn found_names(place: &Place, settings: impl FnOnce(&Global) -> Done<Settings>) -> Done<Vec<String>> {
    if place.names == Names::Contexts {
        return Ok(Contexts::read()?.all().map(|(name, _)| name.to_owned()).collect());
    }
    let settings = settings(&place.global)?;
    let server = Server::new(Target::of_command(&place.global, &settings)?)?;
    let list = |path: &str, query: &Query<'_>| server.list(path, query, MAX_LISTED);
    let named = |path: &str, field: &str| Ok(fields(&list(path, &Query::new())?, field));
    match place.names {
        Names::Jobs => jobs(&server, &place.prefix),
        Names::Groups => Ok(fields(&server.get("/api/groups", &[])?, "name")),
        Names::Batches => Ok(fields(&server.list("/api/batches", &Query::new(), MAX_NAMES)?, "id")),
        Names::Bulk => Ok(fields(&server.list("/api/bulk", &Query::new(), MAX_NAMES)?, "id")),
        Names::Reruns => Ok(fields(&server.list("/api/reruns", &Query::new(), MAX_NAMES)?, "id")),
        Names::Calendars => named("/api/calendars", "name"),
        Names::Contexts => Ok(Vec::new()),
        Names::Departments => named("/api/departments", "name"),
        Names::Keys => Ok(fields(&server.get("/api/keys", &[])?, "app")),
        Names::People => named("/api/people", "name"),
        Names::Pools => named("/api/pools", "name"),
        Names::PullUsers => named("/api/pull/users", "user"),
        Names::Templates => named("/api/pull/templates", "name"),
        Names::Workers => named("/api/workers", "id"),
    }
}

/// Jobs as `group/name`; where there are more than are looked through, first the groups.
fn jobs(server: &Server, prefix: &str) -> Done<Vec<String>> {
    let group = prefix.split_once('/').map(|(group, _)| group.to_owned());
    let query: Query<'_> = group.iter().map(|group| ("group", group.clone())).collect();
    let listed = server.list("/api/jobs", &query, MAX_LISTED)?;
    if group.is_none() && !listed["next"].is_null() {
        let groups = fields(&server.get("/api/groups", &[])?, "name");
        return Ok(groups.into_iter().map(|group| format!("{group}/")).collect());
    }
    let path = |job: &Value| Some(format!("{}/{}", job["group"].as_str()?, job["name"].as_str()?));
    Ok(listed["items"].as_array().into_iter().flatten().filter_map(path).collect())
}

fn fields(list: &Value, field: &str) -> Vec<String> {
    let text = |item: &Value| match &item[field] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    list["items"].as_array().into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-6: what a shell would take as something else than a word is not completed.
    #[test]
    fn names_that_a_shell_would_read_are_left_out() {
        for name in ["demo/load-1", "报表", "ann@example", "4097", "demo/"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "-rf", "a b", "$(reboot)", "a;b", "`a`", "a'b", "a\nb", "a:b", "a=b", "*"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
