//! `tidemill pull user …`.

use serde_json::{Value, json};
use tidemill_client::segment;

use super::super::{Session, write};
use crate::args::PullUserCommand;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::render;
use crate::server::Query;
use crate::yaml;

/// Users of one call at most.
const PER_CALL: usize = 500;

const USERS: &str = "user, group, SINCE: changed_at, moving, TO: moving_to";

pub(super) fn run(session: &Session<'_>, command: PullUserCommand) -> Done<Exit> {
    let one = |user: &str| format!("/api/pull/users/{}", segment(user));
    match command {
        PullUserCommand::Assign { group, mut users, file } => {
            if let Some(file) = file {
                users.extend(yaml::users(&file)?);
            }
            assign(session, &group, &users)
        }
        PullUserCommand::Ls { group, limit } => {
            let answer = session.list_of_group("/api/pull/users", group.as_deref(), Query::new(), limit)?;
            let nothing = "No users. Give some a group with `tidemill pull user assign GROUP USER…`.";
            session.show_list(&answer, USERS, nothing)
        }
        PullUserCommand::Show { user } => {
            let answer = session.server.get(&one(&user), &[])?;
            Ok(session.show(&answer, shown))
        }
        PullUserCommand::Move { user, to } => {
            let (path, body) = (format!("{}/move", one(&user)), json!({ "to": to }));
            write::post(session, &path, Some(&body), format!("User {user} is a member of {to}."))
        }
        PullUserCommand::Delete { user } => {
            write::delete(session, &one(&user), format!("User {user} has no group any more."))
        }
    }
}

/// In calls of 500; what comes before the first that is refused is done.
fn assign(session: &Session<'_>, group: &str, users: &[String]) -> Done<Exit> {
    let mut answer = json!({});
    for (index, part) in users.chunks(PER_CALL).enumerate() {
        let body = json!({ "group": group, "users": part });
        answer = session.server.post("/api/pull/users", Some(&body)).map_err(|failure| {
            let done = index * PER_CALL;
            match done {
                0 => failure,
                _ => Failure {
                    message: format!("after the first {done} users: {}", failure.message),
                    ..failure
                },
            }
        })?;
    }
    Ok(session.show(&answer, |_| match users {
        [user] => format!("User {user} is a member of {group}."),
        users => format!("{} users are members of {group}.", users.len()),
    }))
}

fn shown(answer: &Value) -> String {
    let mut text = render::fields(answer, &["standing"]);
    let standing = &answer["standing"];
    if standing.is_null() {
        text.push_str("\nHow it stands is unknown: the owner of its group could not be asked.");
        return text;
    }
    let since = standing["window_from"].as_str().unwrap_or("?");
    text.push_str(&format!("\nwindow from  {since}\n"));
    for (title, part) in [("has", "live"), ("completed last", "last"), ("gets next", "next")] {
        match &standing[part] {
            Value::Null => text.push_str(&format!("{title}  nothing\n")),
            found => text.push_str(&format!("{title}\n{}", indented(&render::fields(found, &[])))),
        }
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
