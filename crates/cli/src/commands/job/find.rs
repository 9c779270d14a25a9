//! Jobs by id or name, and the name that comes closest where there is none.

use serde_json::Value;
use tidemill_client::segment;
use tidemill_model::slips;

use crate::commands::Session;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::server::Query;

fn path_of(job: &str) -> String {
    match job.split_once('/') {
        Some((group, name)) => format!("/api/groups/{}/jobs/{}", segment(group), segment(name)),
        None => format!("/api/jobs/{}", segment(job)),
    }
}

/// The id of a job named by id or `group/name`.
pub(in crate::commands) fn id_of(session: &Session<'_>, job: &str) -> Done<i64> {
    if let Ok(id) = job.parse() {
        return Ok(id);
    }
    found(session, job)?["id"]
        .as_i64()
        .ok_or_else(|| Failure::new(Exit::Failure, format!("the server's answer about job {job} has no id")))
}

/// The job named by id or `group/name`; where there is none, the name that comes closest is told.
pub(super) fn found(session: &Session<'_>, job: &str) -> Done<Value> {
    if !job.contains('/') && job.parse::<i64>().is_err() {
        return Err(Failure::bad_input(format!("job {job:?}: must be an id or group/name"))
            .hint(close_to(session, job).unwrap_or_else(|| "`tidemill job ls` lists both".to_owned())));
    }
    session.server.get(&path_of(job), &[]).map_err(|failure| match failure.exit {
        Exit::NotFound => match close_to(session, job) {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        _ => failure,
    })
}

/// Jobs looked at for a name that comes close.
const NAMES: usize = 10_000;

fn close_to(session: &Session<'_>, job: &str) -> Option<String> {
    let answer = session.server.list("/api/jobs", &Query::new(), NAMES).ok()?;
    let names = answer["items"]
        .as_array()?
        .iter()
        .filter_map(|row| Some(format!("{}/{}", row["group"].as_str()?, row["name"].as_str()?)));
    closest(job, names).map(|name| format!("did you mean {name}? `tidemill job ls` lists all"))
}

/// The name that is the fewest slips away, if they are few. Without a group, any group's will do.
fn closest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let distance = |name: &str| match wanted.contains('/') {
        true => slips(wanted, name),
        false => slips(wanted, name.split_once('/').map_or(name, |(_, name)| name)),
    };
    let most = wanted.chars().count() / 3 + 1;
    names.map(|name| (distance(&name), name)).filter(|(slips, _)| *slips <= most).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_by_id_or_by_group_and_name() {
        assert_eq!(path_of("4097"), "/api/jobs/4097");
        assert_eq!(path_of("demo/load-1"), "/api/groups/demo/jobs/load-1");
        assert_eq!(path_of("demo/报"), "/api/groups/demo/jobs/%E6%8A%A5");
    }

    #[test]
    fn name_that_comes_close_is_found() {
        let names = || ["demo/load-1", "demo/message-words", "etl/load-1"].map(str::to_owned).into_iter();
        assert_eq!(closest("demo/mesage-word", names()).as_deref(), Some("demo/message-words"));
        assert_eq!(closest("load1", names()).as_deref(), Some("demo/load-1"));
        assert_eq!(closest("demo/nothing-like-it", names()), None);
    }
}
