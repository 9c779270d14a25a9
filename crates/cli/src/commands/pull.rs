//! `tidemill pull …`.

use std::path::Path;

use serde_json::{Value, json};
use tidemill_client::{Method, segment};

use super::named::Named;
use super::{Session, write};
use crate::args::{
    PullCommand, PullGrantsArgs, PullTaskCommand, PullTaskLsArgs, PullTemplateCommand, PullUserCommand,
    TaskKind, word,
};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::render;
use crate::server::Query;
use crate::yaml;

const TEMPLATES: Named = Named {
    noun: "template",
    plural: "templates",
    each: "its name and fields",
    path: "/api/pull/templates",
    command: "pull template apply",
    columns: "name, version, CHANGED: changed_at, comment",
};
const FIELDS: &str = "PARAMETER: name, type, required";
const TASKS: &str = "id, EXECUTOR: task/executor, NAME: task/name, \
    WHEN: task/when/once | task/when/every_minutes | task/when/every_days, TIMES: task/dispatch_times, \
    TAKEN: totals/taken, LIVE: totals/live, COMPLETED: totals/completed, state";
const LEDGER: &str = "start, taken, live, completed, returned, expired, balanced, stock";
const GRANTS: &str = "GRANT: id, user, task, name, start, state, GRANTED: granted_at, EXPIRES: expires_at, \
    ENDED: ended_at, RESULT: result | reason";

pub(super) fn run(session: &Session<'_>, command: PullCommand) -> Done<Exit> {
    match command {
        PullCommand::Template(command) => template(session, command),
        PullCommand::User(command) => user(session, command),
        PullCommand::Task(command) => task(session, command),
        PullCommand::Grants(args) => grants(session, args),
        PullCommand::Next { user, wait } => next(session, &user, wait),
        PullCommand::Complete { user, grant, result } => {
            let body = json!({ "user": user, "grant": grant, "result": result });
            write::post(session, "/api/pull/complete", Some(&body), format!("Grant {grant} is completed."))
        }
        PullCommand::Return { user, grant, reason } => {
            let body = json!({ "user": user, "grant": grant, "reason": reason });
            let done = format!("Grant {grant} is given back; others can have it.");
            write::post(session, "/api/pull/return", Some(&body), done)
        }
    }
}

fn next(session: &Session<'_>, user: &str, wait: u32) -> Done<Exit> {
    let body = json!({ "user": user, "wait_s": wait });
    let answer = session.server.post("/api/pull", Some(&body))?;
    Ok(session.show(&answer, |answer| match &answer["grant"] {
        Value::Null => {
            let next = answer["next_at"].as_str().map(|at| format!(" Ask again at {at}."));
            format!("Nothing is due for {user}.{}", next.unwrap_or_default())
        }
        grant => {
            let parameters = &grant["parameters"];
            let id = &grant["grant"];
            format!(
                "{}parameters  {}\n\nWhen it is done: tidemill pull complete {user} {id} --result …",
                render::fields(grant, &["parameters"]),
                if parameters.is_null() { "{}".to_owned() } else { parameters.to_string() }
            )
        }
    }))
}

fn template(session: &Session<'_>, command: PullTemplateCommand) -> Done<Exit> {
    match command {
        PullTemplateCommand::Apply { file } => TEMPLATES.apply(session, &file),
        PullTemplateCommand::Ls => TEMPLATES.ls(session),
        PullTemplateCommand::Show { name } => {
            let answer = session.server.get(&TEMPLATES.path_of(&name), &[])?;
            Ok(session.show(&answer, |answer| {
                let fields = render::items(&fields_of(answer), FIELDS, "Tasks of it have no parameters.");
                format!("{}\n{fields}", render::fields(answer, &["fields"]))
            }))
        }
        PullTemplateCommand::Delete { name } => TEMPLATES.delete(session, &name),
    }
}

/// The parameters of a template, each with its name.
fn fields_of(template: &Value) -> Value {
    let one = |(name, field): (&String, &Value)| {
        let kind = field["type"].as_str().unwrap_or("any");
        json!({ "name": name, "type": kind, "required": field["required"].as_bool().unwrap_or(true) })
    };
    template["fields"].as_object().into_iter().flatten().map(one).collect()
}

fn task(session: &Session<'_>, command: PullTaskCommand) -> Done<Exit> {
    match command {
        PullTaskCommand::Create { file } => {
            let answer = write::all(session, "/api/pull/tasks", "task", &tasks_of(&file)?, &file)?;
            session.show_list(&answer, "task, version", "No tasks in the file.")
        }
        PullTaskCommand::Ls(args) => list(session, &args),
        PullTaskCommand::Show { task } => {
            let answer = session.server.get(&format!("/api/pull/tasks/{task}"), &[])?;
            Ok(session.show(&answer, |answer| {
                let spec = render::fields(&answer["task"], &["when", "parameters"]);
                let (when, parameters) = (&answer["task"]["when"], &answer["task"]["parameters"]);
                let parameters = if parameters.is_null() { "{}".to_owned() } else { parameters.to_string() };
                let whole = render::fields(answer, &["task"]);
                format!("{whole}\n{spec}when  {when}\nparameters  {parameters}")
            }))
        }
        PullTaskCommand::Change { task, file } => {
            let tasks = tasks_of(&file)?;
            let [spec] = &tasks[..] else {
                let message = format!("{}: {} tasks; it must hold one", file.display(), tasks.len());
                return Err(Failure::bad_input(message));
            };
            let path = format!("/api/pull/tasks/{task}");
            let answer = session.server.write(Method::Put, &path, Some(spec), None)?;
            Ok(session.show(&answer, |answer| format!("Task {task} has version {}.", answer["version"])))
        }
        PullTaskCommand::Delete { task } => {
            write::delete(session, &format!("/api/pull/tasks/{task}"), format!("Task {task} is deleted."))
        }
        PullTaskCommand::Ledger { task, live, limit } => ledger(session, task, live, limit),
    }
}

fn tasks_of(file: &Path) -> Done<Vec<Value>> {
    yaml::list(file, "tasks", "executor and when")
}

fn list(session: &Session<'_>, args: &PullTaskLsArgs) -> Done<Exit> {
    let mut query = Query::new();
    query.extend(args.executor.clone().map(|executor| ("executor", executor)));
    query.extend(args.group.clone().map(|group| ("group", group)));
    query.extend(args.state.clone().map(|state| ("state", state)));
    query.extend(args.from.map(|from| ("from", from.to_string())));
    query.extend(args.to.map(|to| ("to", to.to_string())));
    let kinds = args.kind.map_or(vec![TaskKind::Rotating, TaskKind::Once], |kind| vec![kind]);
    let mut items = Vec::new();
    for kind in kinds {
        let mut query = query.clone();
        query.push(("kind", word(&kind)));
        let mut answer = session.server.list("/api/pull/tasks", &query, args.limit)?;
        if let Value::Array(more) = answer["items"].take() {
            items.extend(more);
        }
    }
    let answer = json!({ "items": items });
    let nothing = "No tasks. Once tasks are listed from 7 days ago on; go further back with --from.";
    session.show_list(&answer, TASKS, nothing)
}

fn ledger(session: &Session<'_>, task: i64, live: bool, limit: usize) -> Done<Exit> {
    let path = format!("/api/pull/tasks/{task}/ledger");
    let query: Query = live.then(|| ("live", "true".to_owned())).into_iter().collect();
    // The first part has the totals, the pages have the occurrences.
    let mut answer = session.server.get(&path, &query)?;
    let listed = session.server.list(&path, &query, limit)?;
    answer["items"] = listed["items"].clone();
    answer["next"] = listed["next"].clone();
    Ok(session.show(&answer, |answer| {
        let totals = render::fields(&answer["totals"], &[]);
        let items = render::list(answer, LEDGER, "Nothing of it was given out yet.");
        format!("task {task}, each occurrence up to {} times\n{totals}\n{items}", answer["dispatch_times"])
    }))
}

fn grants(session: &Session<'_>, args: PullGrantsArgs) -> Done<Exit> {
    let mut query = Query::new();
    query.extend(args.user.map(|user| ("user", user)));
    query.extend(args.task.map(|task| ("task", task.to_string())));
    query.extend(args.state.map(|state| ("state", state)));
    let answer = session.list_of_group("/api/pull/grants", args.group.as_deref(), query, args.limit)?;
    session.show_list(&answer, GRANTS, "No grants.")
}

const PER_CALL: usize = 500;

const USERS: &str = "user, group, SINCE: changed_at, moving, TO: moving_to";

fn user(session: &Session<'_>, command: PullUserCommand) -> Done<Exit> {
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
            Ok(session.show(&answer, user_shown))
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

fn user_shown(answer: &Value) -> String {
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
