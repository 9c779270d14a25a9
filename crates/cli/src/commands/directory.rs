//! `tidemill directory …`, `person …`, `department …` and `on-call`.

use serde_json::{Value, json};
use tidemill_client::segment;
use tidemill_model::DirectoryFile;

use super::{Session, sign_in, write};
use crate::args::{DepartmentCommand, DirectoryCommand, DirectoryFileArgs, OnCallArgs, PersonCommand, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render;
use crate::server::Query;
use crate::yaml;

/// More than there can be.
const LIMIT: usize = 25_000;
const PEOPLE: &str = "name, full_name, role, departments, mail, phone, enabled, successor";
const DEPARTMENTS: &str = "name, title, members, ON CALL: on_call, SYSTEM: for_system";
const DUTIES: &str =
    "department, PRIMARY: people/0/name, PHONE: people/0/phone, SECONDARY: people/1/name, from, until";

pub(super) fn run(session: &Session<'_>, command: DirectoryCommand) -> Done<Exit> {
    match command {
        DirectoryCommand::Apply { args, dry_run: false } => {
            let answer = session.server.post("/api/directory/apply", Some(&body(&args)?))?;
            Ok(session.show(&answer, |answer| changes(answer, "changed")))
        }
        DirectoryCommand::Apply { args, dry_run: true } | DirectoryCommand::Diff { args } => {
            let answer = session.server.post("/api/directory/apply?dry_run=true", Some(&body(&args)?))?;
            Ok(session.show(&answer, |answer| changes(answer, "would change")))
        }
        DirectoryCommand::Export => {
            let answer = session.server.get("/api/directory", &[])?;
            match session.format.is_for_programs() {
                true => output::value(session.format, &answer),
                false => output::line(yaml::write_whole::<DirectoryFile>(&answer)?),
            }
            Ok(Exit::Success)
        }
    }
}

fn body(args: &DirectoryFileArgs) -> Done<Value> {
    let [departments, people] = yaml::lists(&args.file, ["departments", "people"], "each with its name")?;
    Ok(json!({ "departments": departments, "people": people, "prune": args.prune }))
}

/// `+ added  ~ changed  - deleted`, for a change the fields with old and new value, and a sum.
fn changes(answer: &Value, verb: &str) -> String {
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines = Vec::new();
    for change in changes {
        let sign = match change["change"].as_str() {
            Some("added") => '+',
            Some("deleted") => '-',
            _ => '~',
        };
        let entry = render::one_line(&change["entry"]);
        lines.push(format!("{sign} {entry} {}", render::one_line(&change["name"])));
        lines.extend(change["fields"].as_array().into_iter().flatten().map(render::difference));
    }
    lines.push(match changes.len() {
        0 => "Nothing to change.".to_owned(),
        count => format!("{count} {verb}."),
    });
    lines.join("\n")
}

fn path_of(list: &str, name: &str) -> String {
    format!("/api/{list}/{}", segment(name))
}

pub(super) fn person(session: &Session<'_>, command: PersonCommand) -> Done<Exit> {
    match command {
        PersonCommand::Ls { department, role, disabled } => {
            let mut query = Query::new();
            query.extend(department.map(|department| ("department", department)));
            query.extend(role.map(|role| ("role", word(&role))));
            query.extend(disabled.then(|| ("enabled", "false".to_owned())));
            let answer = session.server.list("/api/people", &query, LIMIT)?;
            session.show_list(
                &answer,
                PEOPLE,
                "No people fit. Add some with `tidemill directory apply -f FILE`.",
            )
        }
        PersonCommand::Show { name } => session.show_fields(&path_of("people", &name)),
        PersonCommand::Disable { name, successor } => {
            let path = format!("{}/disable", path_of("people", &name));
            let body = json!({ "successor": successor });
            write::post(session, &path, Some(&body), format!("{name} is disabled."))
        }
        PersonCommand::Enable { name } => {
            let path = format!("{}/enable", path_of("people", &name));
            write::post(session, &path, None, format!("{name} is enabled."))
        }
        PersonCommand::Invite { name, by, .. } => invite(session, name.as_deref(), by.as_deref()),
        PersonCommand::Credentials { name } => {
            let path = format!("{}/credentials", path_of("people", &name));
            let answer = session.server.get(&path, &[])?;
            session.show_list(&answer, sign_in::CREDENTIALS, sign_in::NO_CREDENTIALS)
        }
        PersonCommand::SignOut { name, credential } => {
            let path = format!("{}/credentials", path_of("people", &name));
            match credential {
                Some(id) => {
                    write::delete(session, &format!("{path}/{}", segment(&id)), format!("{id} has ended."))
                }
                None => {
                    let done = format!(
                        "{name} is signed out everywhere, and has no password and no token any more."
                    );
                    write::delete(session, &path, done)
                }
            }
        }
        PersonCommand::Delete { name } => {
            write::delete(session, &path_of("people", &name), format!("{name} is deleted."))
        }
    }
}

/// Nobody named: whoever becomes the first super-administrator.
fn invite(session: &Session<'_>, name: Option<&str>, by: Option<&str>) -> Done<Exit> {
    let path = match name {
        Some(name) => format!("{}/invite", path_of("people", name)),
        None => "/api/sign-in/first-invitation".to_owned(),
    };
    let answer = match by {
        Some(by) => sign_in::signed_in(&session.server, by, |client| client.post(&path).unnamed().send())?,
        None => session.server.post_unnamed(&path)?,
    };
    Ok(session.show(&answer, |answer| {
        let [code, until] = ["code", "expires_at"].map(|field| render::one_line(&answer[field]));
        let whose = name.unwrap_or("the first super-administrator");
        let name = name.unwrap_or("NAME");
        format!(
            "{code}\nWhoever has it chooses the password of {whose}, once and until {until}:\n  tidemill login --person {name} \
             --invitation\nIt is not shown again."
        )
    }))
}

pub(super) fn department(session: &Session<'_>, command: DepartmentCommand) -> Done<Exit> {
    match command {
        DepartmentCommand::Ls => {
            let answer = session.server.list("/api/departments", &Query::new(), LIMIT)?;
            let nothing = "No departments. Add some with `tidemill directory apply -f FILE`.";
            session.show_list(&answer, DEPARTMENTS, nothing)
        }
        DepartmentCommand::Show { name } => session.show_fields(&path_of("departments", &name)),
        DepartmentCommand::Delete { name } => {
            write::delete(session, &path_of("departments", &name), format!("Department {name} is deleted."))
        }
    }
}

pub(super) fn on_call(session: &Session<'_>, args: OnCallArgs) -> Done<Exit> {
    let OnCallArgs { department, at, days } = args;
    let at = at.map(|at| ("at", at.to_string()));
    let answer = match (&department, days) {
        (Some(department), Some(days)) => {
            let mut query = vec![("days", days.to_string())];
            query.extend(at);
            session.server.get(&format!("{}/on-call", path_of("departments", department)), &query)?
        }
        _ => {
            let mut query = Query::new();
            query.extend(department.map(|department| ("department", department)));
            query.extend(at);
            session.server.get("/api/on-call", &query)?
        }
    };
    session.show_list(&answer, DUTIES, "Nobody is on call.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_shows_what_changed() {
        let answer = json!({"changes": [
            {"entry": "department", "name": "sales", "change": "added"},
            {"entry": "person", "name": "ann", "change": "changed",
                "fields": [{"field": "mail", "old": "", "new": "ann@example.org"}]},
            {"entry": "person", "name": "bo", "change": "deleted"},
        ]});
        expect_test::expect![[r#"
            + department sales
            ~ person ann
                mail: (none) → ann@example.org
            - person bo
            3 changed."#]]
        .assert_eq(&changes(&answer, "changed"));
        assert_eq!(changes(&json!({"changes": []}), "changed"), "Nothing to change.");
    }
}
